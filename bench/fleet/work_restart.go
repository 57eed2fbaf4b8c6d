package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/bench/internal/info"
)

// restart measures what a fleet does when its server goes away, while a job is put every 50 ms, and
// what its killed workers leave behind.
func restart(ctx context.Context, o *options, r *report) error {
	for _, clients := range o.clients {
		if err := disturb(ctx, o, r, clients); err != nil {
			return err
		}
	}
	return nil
}

// disturbances are what happens to the fleet.
var disturbances = []struct {
	name string
	do   func(ctx context.Context, s *server) error
}{
	{"SCRIPT FLUSH", func(ctx context.Context, s *server) error {
		return s.admin.ScriptFlush(ctx).Err()
	}},
	{"CLIENT KILL TYPE pubsub", func(ctx context.Context, s *server) error {
		return s.admin.ClientKillByFilter(ctx, "TYPE", "pubsub").Err()
	}},
	{"restart", func(_ context.Context, s *server) error {
		s.process.Restart()
		return nil
	}},
}

func disturb(ctx context.Context, o *options, r *report, clients int) (failed error) {
	s, err := startServer(ctx, o, "--appendonly", "yes")
	if err != nil {
		return err
	}
	defer s.stop()
	jobs := newTally()
	config := qless.WorkerConfig{Queues: []string{"work"}, PollInterval: o.poll}
	c, err := hire(ctx, s, o.workers, clients, config, jobs.handle)
	if err != nil {
		return err
	}
	killed := false
	defer func() {
		if !killed {
			failed = errors.Join(failed, c.dismiss())
		}
	}()
	steady, err := newCrowd(s, 1, qless.ClientConfig{})
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, steady.dismiss()) }()
	queue := steady.clients[0].Queue("work")
	for _, d := range disturbances {
		r.in("%s, %s", sharing(o.workers, clients, "worker"), d.name)
		jobs.forget()
		err := keepPutting(ctx, jobs, queue, d.name, func() error {
			return recovery(ctx, o, r, s, c, d.do)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		if err := drained(ctx, queue); err != nil {
			return err
		}
		all, err := jobs.outcome(ctx, steady.clients[0])
		if err != nil {
			return err
		}
		r.add("jobs put meanwhile", float64(all.acknowledged), "")
		r.bound("lost", float64(all.lost+all.forgotten), "jobs", 0)
		r.add("put to handler, longest", ms(all.longestWaited), "ms")
		if err := all.check(false); err != nil {
			return err
		}
	}
	r.in("%s, killed", sharing(o.workers, clients, "worker"))
	killed = true
	if err := c.kill(); err != nil {
		return err
	}
	return passDead(ctx, o, r, s)
}

// keepPutting puts a job every 50 ms while it calls do.
func keepPutting(
	ctx context.Context, jobs *tally, queue *qless.Queue, name string, do func() error,
) error {
	ctx, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() {
		for i := 0; pause(ctx, 50*time.Millisecond) == nil; i++ {
			jobs.put(context.WithoutCancel(ctx), queue, fmt.Sprintf("%s-%d", name, i))
		}
	})
	defer group.Wait()
	defer stop()
	return do()
}

// recovery measures what follows a disturbance until all workers are idle again.
func recovery(
	ctx context.Context, o *options, r *report, s *server, c *crowd,
	do func(ctx context.Context, s *server) error,
) error {
	before, err := s.read(ctx)
	if err != nil {
		return err
	}
	lines, workers := c.lines.count.Load(), float64(o.workers)
	start := time.Now()
	if err := do(ctx, s); err != nil {
		return err
	}
	up := time.Since(start)
	if err := c.settle(ctx); err != nil {
		return err
	}
	back := time.Since(start) - up
	longest, err := s.longest(ctx)
	if err != nil {
		return err
	}
	after, err := s.read(ctx)
	if err != nil {
		return err
	}
	if after.Connected < before.Connected { // it began to count again
		before = info.Reading{}
	}
	r.add("until all listen and are idle", back.Seconds(), "s")
	r.add("server CPU until then", (after.CPU - before.CPU).Seconds(), "s")
	r.add("connections opened a worker", float64(after.Connected-before.Connected)/workers, "")
	r.add("scripts a worker", float64(after.Scripts-before.Scripts)/workers, "")
	r.add("longest call", ms(longest), "ms")
	r.add("warnings a worker", float64(c.lines.count.Load()-lines)/workers, "")
	return nil
}

// passDead measures a put that has to pass over workers that are gone to find one that is not.
func passDead(ctx context.Context, o *options, r *report, s *server) error {
	dead, err := s.admin.SCard(ctx, "ql:x:idle").Result()
	if err != nil {
		return err
	}
	r.add("idle by the server's account", float64(dead), "workers")
	jobs := newErrands()
	config := qless.WorkerConfig{Queues: []string{"work"}, PollInterval: o.poll}
	one, err := s.measure(ctx, func() error {
		c, err := hire(ctx, s, 1, 1, config, jobs.handle)
		if err != nil {
			return err
		}
		return errors.Join(jobs.run(ctx, c.clients[0].Queue("work")), c.dismiss())
	})
	if err != nil {
		return err
	}
	r.add("put to handler of another worker", jobs.wait(1), "ms")
	r.bound("longest call", ms(one.longest), "ms", step)
	left, err := s.admin.SCard(ctx, "ql:x:idle").Result()
	r.add("idle by the server's account then", float64(left), "workers")
	return err
}
