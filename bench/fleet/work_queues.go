package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/qless/qless-go"
)

// manyQueues measures workers that watch many queues by their names, all of them empty.
func manyQueues(ctx context.Context, o *options, r *report) error {
	for _, workers := range []int{1, o.workers} {
		r.in("%d workers, %d queues", workers, o.asked())
		if workers == 1 {
			r.in("1 worker, %d queues", o.asked())
		}
		if err := watchQueues(ctx, o, r, workers); err != nil {
			return err
		}
	}
	return nil
}

func watchQueues(ctx context.Context, o *options, r *report, workers int) (failed error) {
	s, err := startServer(ctx, o)
	if err != nil {
		return err
	}
	defer s.stop()
	jobs := newErrands()
	var c *crowd
	start, err := s.measure(ctx, func() (err error) {
		config := qless.WorkerConfig{Queues: queueNames(o.asked()), PollInterval: o.poll}
		c, err = hire(ctx, s, workers, 1, config, jobs.handle)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, c.dismiss()) }()
	r.add("until all are idle", start.elapsed.Seconds(), "s")
	r.add("server memory a worker", float64(start.Memory)/float64(workers)/1e3, "KB")
	reserves := c.reserves.Load()
	rest, err := s.measure(ctx, func() error { return pause(ctx, 2*o.poll) })
	if err != nil {
		return err
	}
	if polls := c.reserves.Load() - reserves; polls > 0 {
		r.bound("commands a poll", float64(rest.Commands)/float64(polls), "", 21)
		if workers > 1 { // else it is mostly what a server does by itself
			r.add("server CPU a poll", us(rest.CPU)/float64(polls), "us")
		}
	}
	r.bound("server CPU, idle", rest.core(), "% of a core", 3)
	r.bound("longest call", ms(rest.longest), "ms", 10)
	if workers == 1 {
		return jobOfMany(ctx, o, r, s, c, jobs)
	}
	return nil
}

// jobOfMany measures jobs in the last of the queues.
func jobOfMany(
	ctx context.Context, o *options, r *report, s *server, c *crowd, jobs *errands,
) error {
	const times = 20
	queue := c.clients[0].Queue(queueNames(o.asked())[o.asked()-1])
	if err := jobs.run(ctx, queue); err != nil { // the first of a day costs more
		return err
	}
	one, err := s.measure(ctx, func() error {
		for range times {
			if err := errors.Join(c.rest(ctx), jobs.run(ctx, queue)); err != nil {
				return err
			}
		}
		return c.rest(ctx)
	})
	if err != nil {
		return fmt.Errorf("a job: %w", err)
	}
	r.bound("commands for one job, put to done", float64(one.Commands)/times, "", 124)
	r.add("server CPU for one job", ms(one.CPU)/times, "ms")
	r.add("put to handler, p50", jobs.wait(0.5), "ms")
	return nil
}
