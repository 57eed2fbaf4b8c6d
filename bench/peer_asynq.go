package main

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// asynqSession is github.com/hibiken/asynq with its defaults. Done jobs are deleted.
type asynqSession struct {
	rdb     *redis.Client
	client  *asynq.Client
	addr    string
	load    load
	servers []*asynq.Server
}

func openAsynq(_ context.Context, s *server, l load) (session, error) {
	session := &asynqSession{rdb: s.dial(1), addr: s.addr(), load: l}
	session.client = asynq.NewClient(session.options())
	return session, nil
}

func (s *asynqSession) options() asynq.RedisClientOpt {
	return asynq.RedisClientOpt{
		Addr: s.addr, PoolSize: poolSize(s.load.concurrency),
		DialTimeout: slowest, ReadTimeout: slowest, WriteTimeout: slowest,
	}
}

func (s *asynqSession) enqueue(ctx context.Context, jobs int) error {
	data := dataOf(s.load.payload, s.load.raw)
	return parallel(s.load.concurrency, jobs, func(int) error {
		payload, err := encode(data)
		if err != nil {
			return err
		}
		_, err = s.client.EnqueueContext(ctx, asynq.NewTask(klass, payload))
		return err
	})
}

func (s *asynqSession) work(ctx context.Context, to *crew) error {
	mux := asynq.NewServeMux()
	mux.HandleFunc(klass, func(context.Context, *asynq.Task) error {
		to.handled()
		return nil
	})
	for range s.load.workers {
		server := asynq.NewServer(s.options(), asynq.Config{
			BaseContext: func() context.Context { return ctx },
			Concurrency: s.load.concurrency,
			LogLevel:    asynq.FatalLevel,
		})
		if err := server.Start(mux); err != nil {
			return err
		}
		s.servers = append(s.servers, server)
	}
	return nil
}

func (s *asynqSession) done(ctx context.Context) (int, error) {
	count, err := s.rdb.Get(ctx, "asynq:{default}:processed").Result()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	return strconv.Atoi(count)
}

func (s *asynqSession) close() error {
	var group sync.WaitGroup
	for _, server := range s.servers {
		group.Go(server.Shutdown)
	}
	group.Wait()
	return errors.Join(s.client.Close(), s.rdb.Close())
}
