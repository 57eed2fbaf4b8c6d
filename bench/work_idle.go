package main

import (
	"context"
	"fmt"
	"time"

	"github.com/qless/qless-go"
)

// idle measures workers that wait for jobs of one queue.
func idle(ctx context.Context, o *options, r *report, s *server, clients int) error {
	workers := float64(o.workers)
	jobs := newErrands()
	before := inUse()
	var c *crowd
	start, err := s.measure(ctx, func() (err error) {
		config := qless.WorkerConfig{Queues: []string{"work"}, PollInterval: o.poll}
		c, err = hire(ctx, s, o.workers, clients, config, jobs.handle)
		return err
	})
	if err != nil {
		return err
	}
	heap, stacks, goroutines := inUse().since(before)
	r.add("until all are idle", start.elapsed.Seconds(), "s")
	r.add("server CPU until then", start.CPU.Seconds(), "s")
	r.add("connections a worker", float64(start.Connections)/workers, "")
	r.add("server memory a worker", float64(start.Memory)/workers/1e3, "KB")
	r.add("server memory, peak", float64(start.Peak)/1e6, "MB")
	r.add("goroutines a worker", goroutines/workers, "")
	r.add("heap a worker", heap/workers, "KB")
	r.add("stacks a worker", stacks/workers, "KB")

	first, rest, err := restOf(ctx, s, o.poll)
	if err != nil {
		return err
	}
	r.add("commands a worker, first "+o.poll.String(), float64(first.Commands)/workers, "")
	r.add("server CPU, first "+o.poll.String(), first.core(), "% of a core")
	r.add("server CPU, idle", rest.core(), "% of a core")
	r.bound("scripts a worker, each "+o.poll.String(), float64(rest.Scripts)/workers, "", 1.25)
	r.add("commands a script", perScript(rest), "")
	r.add("bytes sent a worker, each "+o.poll.String(), float64(rest.Sent)/workers, "B")
	r.add("longest call", ms(rest.longest), "ms")

	if err := oneJob(ctx, s, c, jobs, r); err != nil {
		return err
	}
	stop, err := s.measure(ctx, c.dismiss)
	if err != nil {
		return err
	}
	r.add("until all have stopped", stop.elapsed.Seconds(), "s")
	left, err := s.admin.SCard(ctx, "ql:x:idle").Result()
	r.bound("idle by the server's account then", float64(left), "workers", 0)
	return err
}

// restOf measures workers that have just become idle for some time, and again when they have
// settled among them who does what: when a while takes no less than the one before.
func restOf(ctx context.Context, s *server, while time.Duration) (first, last cost, err error) {
	for turn := range 8 {
		before := last
		if last, err = s.measure(ctx, func() error { return pause(ctx, while) }); err != nil {
			return first, last, err
		}
		if turn == 0 {
			first = last
			continue
		}
		if perScript(last) > 0.8*perScript(before) {
			break
		}
	}
	return first, last, nil
}

// oneJob measures a job for a fleet that is idle.
func oneJob(ctx context.Context, s *server, c *crowd, jobs *errands, r *report) error {
	queue := c.clients[0].Queue("work")
	if err := jobs.run(ctx, queue); err != nil { // the first of a day costs more
		return err
	}
	if err := c.settle(ctx); err != nil {
		return err
	}
	reserves := c.reserves.Load()
	one, err := s.measure(ctx, func() error {
		if err := jobs.run(ctx, queue); err != nil {
			return err
		}
		return c.rest(ctx)
	})
	if err != nil {
		return err
	}
	r.add("scripts for one job, put to done", float64(one.Scripts), "")
	r.add("reserves among them", float64(c.reserves.Load()-reserves), "")
	r.add("put to handler", ms(jobs.waits[len(jobs.waits)-1]), "ms")
	return nil
}

// perScript returns how many commands there were for each script, 0 if there were none.
func perScript(c cost) float64 {
	if c.Scripts == 0 {
		return 0
	}
	return float64(c.Commands) / float64(c.Scripts)
}

// queueNames returns the names of queues.
func queueNames(count int) []string {
	all := make([]string, count)
	for i := range all {
		all[i] = fmt.Sprintf("queue-%05d", i)
	}
	return all
}
