package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/qless/qless-go"
)

// depth measures calls on a queue without other jobs, and on one with many that wait.
func depth(ctx context.Context, o *options, r *report, s *server) error {
	c, err := newCrowd(s, 1, qless.ClientConfig{Unbatched: true})
	if err != nil {
		return err
	}
	defer func() { _ = c.dismiss() }()
	queue := c.clients[0].Queue("deep")
	// The first calls open connections, and begin the statistics of the day.
	if err := operate(ctx, &report{}, s, queue); err != nil {
		return err
	}
	r.in("no others wait")
	if err := operate(ctx, r, s, queue); err != nil {
		return err
	}
	filling, err := s.measure(ctx, func() error {
		_, err := fill(ctx, queue, o.jobs, nil)
		return err
	})
	if err != nil {
		return err
	}
	r.in("%d others wait", o.jobs)
	r.add("put in bulk, server CPU a job", us(filling.CPU)/float64(o.jobs), "us")
	r.add("put in bulk, jobs", float64(o.jobs)/filling.elapsed.Seconds(), "a second")
	r.add("put in bulk, longest call", ms(filling.longest), "ms")
	r.add("memory of a job", float64(filling.Memory)/float64(o.jobs), "B")
	return operate(ctx, r, s, queue)
}

// repeats is how often each operation is done.
const repeats = 500

// operate measures single calls on a queue, and a worker that takes as many jobs.
func operate(ctx context.Context, r *report, s *server, queue *qless.Queue) error {
	var jobs []*qless.Job
	steps := []struct {
		name string
		do   func() error
	}{
		{"put", func() error { _, err := queue.Put(ctx, klass, data); return err }},
		{"pop", func() error {
			taken, err := queue.Pop(ctx, 1)
			jobs = append(jobs, taken...)
			return err
		}},
		{"complete", func() error {
			defer func() { jobs = jobs[1:] }()
			return jobs[0].Complete(ctx)
		}},
		{"peek", func() error { _, err := queue.Peek(ctx, 1); return err }},
		{"counts", func() error { _, err := queue.Counts(ctx); return err }},
	}
	for _, step := range steps {
		one, err := s.measure(ctx, func() error {
			for range repeats {
				if err := step.do(); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		r.add(step.name+", server CPU", us(one.CPU)/repeats, "us")
		r.add(step.name+", commands", float64(one.Commands)/repeats, "")
		r.bound(step.name+", longest call", ms(one.longest), "ms", 10)
	}
	if _, err := fill(ctx, queue, repeats, nil); err != nil {
		return err
	}
	one, err := s.measure(ctx, func() error {
		return work(ctx, s, queue.Name(), repeats, complete)
	})
	if err != nil {
		return err
	}
	r.bound("worker, longest call", ms(one.longest), "ms", 10)
	return nil
}

// A state is a way for jobs to be on the server.
type state struct {
	name string
	make func(ctx context.Context, s *server, client *qless.Client, jobs int) error
}

// uniqueKeys is how many keys were claimed so far.
var uniqueKeys atomic.Int64

var jobStates = []state{
	{"waiting", put(nil)},
	{"waiting, tagged", put(func(int) []qless.PutOption {
		return []qless.PutOption{qless.Tags{"tag"}}
	})},
	{"waiting, with a unique key", put(func(int) []qless.PutOption {
		return []qless.PutOption{qless.Unique("key", uniqueKeys.Add(1))}
	})},
	{"scheduled", put(func(int) []qless.PutOption {
		return []qless.PutOption{qless.Delay(time.Hour)}
	})},
	{"dependent", put(func(i int) []qless.PutOption {
		if i == 0 {
			return []qless.PutOption{qless.JID("first")}
		}
		return []qless.PutOption{qless.DependsOn{"first"}}
	})},
	{"running", func(ctx context.Context, s *server, client *qless.Client, jobs int) error {
		queue := client.Queue("states")
		if _, err := fill(ctx, queue, jobs, nil); err != nil {
			return err
		}
		for left := jobs; left > 0; {
			taken, err := queue.Pop(ctx, min(inBulk, left))
			if err != nil {
				return err
			}
			left -= len(taken)
		}
		return nil
	}},
	{"failed", worked(func(context.Context, *qless.Job) error {
		return qless.FailWith("failed", fmt.Errorf("it failed"))
	})},
	{"complete", worked(complete)},
	{"recurring", func(ctx context.Context, s *server, client *qless.Client, jobs int) error {
		return parallel(16, jobs, func(int) error {
			_, err := client.Queue("states").Recur(ctx, klass, data, time.Hour, qless.Offset(time.Hour))
			return err
		})
	}},
}

// put returns how jobs get to be as their options say.
func put(
	options func(i int) []qless.PutOption,
) func(context.Context, *server, *qless.Client, int) error {
	return func(ctx context.Context, s *server, client *qless.Client, jobs int) error {
		_, err := fill(ctx, client.Queue("states"), jobs, options)
		return err
	}
}

// worked returns how jobs get to be as their handlers leave them.
func worked(handler qless.Handler) func(context.Context, *server, *qless.Client, int) error {
	return func(ctx context.Context, s *server, client *qless.Client, jobs int) error {
		if _, err := fill(ctx, client.Queue("states"), jobs, nil); err != nil {
			return err
		}
		return work(ctx, s, "states", jobs, handler)
	}
}

// states measures the memory of jobs in each state.
func states(ctx context.Context, o *options, r *report, s *server) error {
	c, err := newCrowd(s, 1, qless.ClientConfig{})
	if err != nil {
		return err
	}
	defer func() { _ = c.dismiss() }()
	client := c.clients[0]
	for _, state := range jobStates {
		if err := s.empty(ctx); err != nil {
			return err
		}
		err := errors.Join(
			client.Config().Set(ctx, qless.ConfigJobsHistoryCount, 2*o.jobs),
			client.Config().Set(ctx, qless.ConfigHeartbeat, time.Hour.Seconds()),
		)
		if err != nil {
			return err
		}
		// The first jobs have scripts loaded and buffers made.
		if err := state.make(ctx, s, client, 1); err != nil {
			return err
		}
		memory, err := s.weigh(ctx, func() error { return state.make(ctx, s, client, o.jobs) })
		if err != nil {
			return fmt.Errorf("%s: %w", state.name, err)
		}
		r.add(state.name, float64(memory)/float64(o.jobs), "B a job")
	}
	return nil
}
