package main

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
)

// The queue and klass of every peer's jobs.
const (
	queueName = "bench"
	klass     = "Bench"
)

// qlessSession is this package, used through its API.
type qlessSession struct {
	rdb     *redis.Client
	client  *qless.Client
	load    load
	config  qless.ClientConfig
	server  *server
	put     func(ctx context.Context, s *qlessSession, jobs int) error
	take    func(ctx context.Context, s *qlessSession, to *crew) error
	workers []*qless.Worker
	others  []*redis.Client // clients of workers with separate connections
}

// openQless opens a session that puts and takes jobs in one of the ways below.
func openQless(
	put func(ctx context.Context, s *qlessSession, jobs int) error,
	take func(ctx context.Context, s *qlessSession, to *crew) error,
	config qless.ClientConfig,
) func(context.Context, *server, load) (session, error) {
	return func(_ context.Context, s *server, l load) (session, error) {
		rdb := s.dial(l.concurrency * l.workers)
		config.Logger = slog.New(slog.DiscardHandler)
		client, err := qless.New(rdb, &config)
		return &qlessSession{
			rdb: rdb, client: client, load: l, config: config, server: s, put: put, take: take,
		}, err
	}
}

func (s *qlessSession) enqueue(ctx context.Context, jobs int) error { return s.put(ctx, s, jobs) }

func (s *qlessSession) work(ctx context.Context, to *crew) error { return s.take(ctx, s, to) }

// putSingly puts each job with its own call.
func putSingly(ctx context.Context, s *qlessSession, jobs int) error {
	queue, data := s.client.Queue(queueName), dataOf(s.load.payload, s.load.raw)
	return parallel(s.load.concurrency, jobs, func(int) error {
		_, err := queue.Put(ctx, klass, data)
		return err
	})
}

// bulkSize is the number of jobs in a bulk put.
const bulkSize = 100

// putInBulk puts many jobs per call.
func putInBulk(ctx context.Context, s *qlessSession, jobs int) error {
	queue, data := s.client.Queue(queueName), dataOf(s.load.payload, s.load.raw)
	return parallel(s.load.concurrency, (jobs+bulkSize-1)/bulkSize, func(i int) error {
		batch := make([]qless.JobSpec, min(bulkSize, jobs-i*bulkSize))
		for j := range batch {
			batch[j] = qless.JobSpec{Klass: klass, Data: data}
		}
		_, err := queue.PutMany(ctx, batch)
		return err
	})
}

// popSingly pops and completes each job with separate calls, until no jobs are left.
func popSingly(ctx context.Context, s *qlessSession, to *crew) error {
	queue := s.client.Queue(queueName)
	go func() {
		err := parallel(s.load.concurrency, s.load.concurrency, func(int) error {
			for {
				jobs, err := queue.Pop(ctx, 1)
				if err != nil || len(jobs) == 0 {
					return err
				}
				to.handled()
				if err := jobs[0].Complete(ctx); err != nil {
					return err
				}
			}
		})
		if err != nil {
			to.fail(err)
		}
	}()
	return nil
}

// runWorkers runs the Worker.
func runWorkers(ctx context.Context, s *qlessSession, to *crew) error {
	return s.runWorkers(ctx, to, qless.WorkerConfig{})
}

// runEagerly runs the Worker without its pauses.
func runEagerly(ctx context.Context, s *qlessSession, to *crew) error {
	return s.runWorkers(ctx, to, qless.WorkerConfig{Linger: -1})
}

// A sealer is a codec that encrypts.
type sealer struct{ cipher.AEAD }

func newSealer() sealer {
	block, err := aes.NewCipher(make([]byte, 32))
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return sealer{aead}
}

func (sealer) Name() string { return "aes-gcm" }

func (s sealer) Encode(_ string, data []byte) (encoded []byte, key string, err error) {
	return s.Seal(nil, nil, data, nil), "", nil
}

func (s sealer) Decode(_ string, encoded []byte) ([]byte, error) {
	return s.Open(nil, nil, encoded, nil)
}

// queues returns the names of the queues watched by each worker.
func (s *qlessSession) queues() []string {
	return append([]string{queueName}, queueNames(max(0, s.load.queues-1))...)
}

func (s *qlessSession) runWorkers(ctx context.Context, to *crew, config qless.WorkerConfig) error {
	config.Queues = s.queues()
	config.Concurrency, config.PollInterval = s.load.concurrency, s.load.poll
	for range s.load.workers {
		client := s.client
		if s.load.apart {
			rdb := s.server.dial(s.load.concurrency)
			s.others = append(s.others, rdb)
			var err error
			if client, err = qless.New(rdb, &s.config); err != nil {
				return err
			}
		}
		worker, err := qless.NewWorker(client, config)
		if err != nil {
			return err
		}
		worker.Handle(klass, func(context.Context, *qless.Job) error {
			to.handled()
			return nil
		})
		if err := worker.Start(ctx); err != nil {
			return err
		}
		s.workers = append(s.workers, worker)
	}
	return nil
}

func (s *qlessSession) done(ctx context.Context) (int, error) {
	return countCompleted(ctx, s.rdb)
}

// countCompleted counts the completed jobs in the layout shared with classic scripts.
func countCompleted(ctx context.Context, rdb *redis.Client) (int, error) {
	count, err := rdb.ZCard(ctx, "ql:completed").Result()
	return int(count), err
}

func (s *qlessSession) close() error {
	var failed error
	for _, worker := range s.workers {
		failed = errors.Join(failed, worker.Stop(context.Background()))
	}
	for _, rdb := range s.others {
		failed = errors.Join(failed, rdb.Close())
	}
	return errors.Join(failed, s.rdb.Close())
}
