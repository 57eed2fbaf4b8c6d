package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/bench/internal/parallel"
)

// classicSession is a script with the classic interface, called as its clients do.
type classicSession struct {
	rdb     *redis.Client
	scripts *scripts
	load    load
	next    atomic.Int64
}

func openClassic(scripts *scripts) func(context.Context, *server, load) (session, error) {
	return func(ctx context.Context, s *server, l load) (session, error) {
		rdb := s.dial(l.concurrency * l.workers)
		return &classicSession{rdb: rdb, scripts: scripts, load: l}, scripts.load(ctx, rdb)
	}
}

// jidOf returns a jid of the length that all clients use.
func jidOf(n int64) string { return fmt.Sprintf("%032x", n) }

func (s *classicSession) enqueue(ctx context.Context, jobs int) error {
	return parallel.Do(s.load.concurrency, jobs, func(int) error {
		call := s.scripts.call("put", "w", queueName, jidOf(s.next.Add(1)), klass, s.load.payload, 0)
		return s.rdb.Do(ctx, call...).Err()
	})
}

func (s *classicSession) work(ctx context.Context, to *crew) error {
	go func() {
		err := parallel.Do(s.load.concurrency, s.load.concurrency, func(i int) error {
			return s.popSingly(ctx, "w"+strconv.Itoa(i), to)
		})
		if err != nil {
			to.fail(err)
		}
	}()
	return nil
}

func (s *classicSession) popSingly(ctx context.Context, worker string, to *crew) error {
	for {
		reply, err := s.rdb.Do(ctx, s.scripts.call("pop", queueName, worker, 1)...).Text()
		if err != nil {
			return err
		}
		jobs, err := decodePopped(reply)
		if err != nil || len(jobs) == 0 {
			return err
		}
		to.handled()
		call := s.scripts.call("complete", jobs[0].JID, worker, queueName, jobs[0].Data)
		if err := s.rdb.Do(ctx, call...).Err(); err != nil {
			return err
		}
	}
}

// popped holds the needed fields of a job in the reply of pop.
type popped struct {
	JID  string `json:"jid"`
	Data string `json:"data"`
}

func decodePopped(reply string) ([]popped, error) {
	if reply == "{}" { // no jobs, as Lua writes them
		return nil, nil
	}
	var jobs []popped
	err := json.Unmarshal([]byte(reply), &jobs)
	return jobs, err
}

func (s *classicSession) done(ctx context.Context) (int, error) {
	return countCompleted(ctx, s.rdb)
}

func (s *classicSession) close() error { return s.rdb.Close() }
