package main

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/bench/internal/parallel"
)

const klass = "Fleet"

// data is that of a job: 100 bytes of JSON.
var data = json.RawMessage(`{"x":"` + strings.Repeat("x", 92) + `"}`)

// inBulk is how many jobs are put, taken or named by a call.
const inBulk = 500

// fill puts jobs in bulk, each with the options that a function returns for its number.
func fill(
	ctx context.Context, queue *qless.Queue, jobs int, options func(i int) []qless.PutOption,
) ([]string, error) {
	jids := make([]string, jobs)
	err := parallel.Do(4, (jobs+inBulk-1)/inBulk, func(batch int) error {
		first := batch * inBulk
		specs := make([]qless.JobSpec, min(inBulk, jobs-first))
		for i := range specs {
			specs[i] = qless.JobSpec{Klass: klass, Data: data}
			if options != nil {
				specs[i].Options = options(first + i)
			}
		}
		put, err := queue.PutMany(ctx, specs)
		copy(jids[first:], put)
		return err
	})
	return jids, err
}

// work has a worker run jobs of a queue that are there, and returns when it has ended that many.
func work(
	ctx context.Context, s *server, queue string, jobs int, handler qless.Handler,
) error {
	var ended atomic.Int64
	c, err := newCrowd(s, 1, qless.ClientConfig{})
	if err != nil {
		return err
	}
	config := qless.WorkerConfig{Queues: []string{queue}, Concurrency: 50}
	w, err := qless.NewWorker(c.clients[0], config)
	if err != nil {
		return err
	}
	w.Handle("*", func(ctx context.Context, job *qless.Job) error {
		defer ended.Add(1)
		return handler(ctx, job)
	})
	c.workers = append(c.workers, w)
	if err = w.Start(ctx); err == nil {
		err = until(ctx, "jobs that have ended", time.Millisecond, func() (bool, error) {
			return ended.Load() >= int64(jobs), nil
		})
	}
	if failed := c.dismiss(); err == nil {
		err = failed
	}
	return err
}

func complete(context.Context, *qless.Job) error { return nil }
