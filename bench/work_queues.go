package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
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
	s, err := startFleet(ctx, o)
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

// appearing is how many queues appear while a case is measured.
const appearing = 20

// newQueues measures queues that appear, one after the other, among workers that don't want them
// and workers whose patterns match them.
func newQueues(ctx context.Context, o *options, r *report, s *server) (failed error) {
	config := qless.WorkerConfig{Queues: []string{"work"}, PollInterval: never}
	others, err := hire(ctx, s, o.workers, 1, config, complete)
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, others.dismiss()) }()
	if err := makeQueues(ctx, others.clients[0], o.queues); err != nil {
		return err
	}
	client := others.clients[0]
	reserves := others.reserves.Load()
	r.in("%d queues appear among %d, %d workers don't want them", appearing, o.queues, o.workers)
	jids := make([]string, appearing)
	unwanted, err := s.measure(ctx, func() (err error) {
		for i := range jids {
			jids[i], err = client.Queue(fmt.Sprintf("nobody-%d", i)).Put(ctx, klass, data)
			if err != nil {
				return err
			}
		}
		return others.settle(ctx)
	})
	if err != nil {
		return err
	}
	if err := client.Cancel(ctx, jids...); err != nil {
		return err
	}
	r.bound("reserves", float64(others.reserves.Load()-reserves), "", 0)
	r.add("scripts a queue", float64(unwanted.Scripts)/appearing, "")
	for i, pattern := range []string{"new-0-*", "*"} {
		r.in("%d more, %d workers of the pattern %s want them", appearing, o.patterns, pattern)
		if err := wanted(ctx, o, r, s, others, pattern, i); err != nil {
			return err
		}
	}
	return nil
}

// makeQueues makes queues that have no jobs.
func makeQueues(ctx context.Context, client *qless.Client, count int) error {
	names, jids := queueNames(count), make([]string, count)
	err := parallel(64, count, func(i int) (err error) {
		jids[i], err = client.Queue(names[i]).Put(ctx, klass, data)
		return err
	})
	if err != nil {
		return err
	}
	_, err = inspect.New(client).JIDs(jids...).Cancel(ctx)
	return err
}

// wanted measures queues that appear where workers have a pattern that matches them.
func wanted(
	ctx context.Context, o *options, r *report, s *server, others *crowd, pattern string, number int,
) (failed error) {
	jobs := newErrands()
	config := qless.WorkerConfig{Queues: []string{pattern}, PollInterval: never}
	c, err := hire(ctx, s, o.patterns, 1, config, jobs.handle)
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, c.dismiss()) }()
	unwanted, reserves := others.reserves.Load(), c.reserves.Load()
	one, err := s.measure(ctx, func() error {
		for i := range appearing {
			queue := others.clients[0].Queue(fmt.Sprintf("new-%d-%d", number, i))
			if err := jobs.run(ctx, queue); err != nil {
				return err
			}
			if err := c.rest(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	patterns := float64(o.patterns)
	r.bound("reserves of others", float64(others.reserves.Load()-unwanted), "", 0)
	r.add("reserves a queue and worker", float64(c.reserves.Load()-reserves)/appearing/patterns, "")
	r.add("commands a queue", float64(one.Commands)/appearing, "")
	r.add("bytes sent a queue and worker", float64(one.Sent)/appearing/patterns, "B")
	r.add("server CPU a queue", ms(one.CPU)/appearing, "ms")
	r.add("longest call", ms(one.longest), "ms")
	r.add("put to handler, p50", jobs.wait(0.5), "ms")
	r.add("put to handler, longest", jobs.wait(1), "ms")
	return nil
}
