package main

import (
	"context"

	"github.com/qless/qless-go"
)

// depth measures calls on a queue without other jobs, and on one with many that wait.
func depth(ctx context.Context, o *options, r *report) error {
	s, err := startServer(ctx, o)
	if err != nil {
		return err
	}
	defer s.stop()
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

// operations is how often each operation is done.
const operations = 500

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
			for range operations {
				if err := step.do(); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		r.add(step.name+", server CPU", us(one.CPU)/operations, "us")
		r.add(step.name+", commands", float64(one.Commands)/operations, "")
		r.bound(step.name+", longest call", ms(one.longest), "ms", 10)
	}
	if _, err := fill(ctx, queue, operations, nil); err != nil {
		return err
	}
	one, err := s.measure(ctx, func() error {
		return work(ctx, s, queue.Name(), operations, complete)
	})
	if err != nil {
		return err
	}
	r.bound("worker, longest call", ms(one.longest), "ms", 10)
	return nil
}
