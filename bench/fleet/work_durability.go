package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/bench/internal/parallel"
)

// putters is how many goroutines put jobs while the server is killed.
const putters = 4

// durability measures what a server costs that keeps a file, and what it has lost when it is killed
// in the middle of work. The process alone is killed: what it has written survives. So the setting
// always may lose nothing, and everysec what it had not written yet.
func durability(ctx context.Context, o *options, r *report) error {
	for _, fsync := range []string{"no file", "everysec", "always"} {
		r.in("%s", fsync)
		if err := survive(ctx, o, r, fsync); err != nil {
			return fmt.Errorf("%s: %w", fsync, err)
		}
	}
	return nil
}

func survive(ctx context.Context, o *options, r *report, fsync string) (failed error) {
	var args []string
	if fsync != "no file" {
		args = []string{"--appendonly", "yes", "--appendfsync", fsync}
	}
	s, err := startServer(ctx, o, args...)
	if err != nil {
		return err
	}
	defer s.stop()
	jobs := newTally()
	config := qless.WorkerConfig{Queues: []string{"work"}, PollInterval: o.poll}
	c, err := hire(ctx, s, 2, 0, config, jobs.handle)
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, c.dismiss()) }()
	client := c.clients[0]
	kept := 100 * o.jobs * (1 + o.kills) // so that all are there in the end
	if err := client.Config().Set(ctx, qless.ConfigJobsHistoryCount, kept); err != nil {
		return err
	}
	queue := client.Queue("work")
	speed, err := s.measure(ctx, func() error {
		err := parallel.Do(16, o.jobs, func(i int) error {
			if !jobs.put(ctx, queue, fmt.Sprintf("speed-%d", i)) {
				return errors.New("a put failed")
			}
			return nil
		})
		return errors.Join(err, drained(ctx, queue))
	})
	if err != nil {
		return err
	}
	r.add("jobs, put one by one to done", float64(o.jobs)/speed.elapsed.Seconds(), "a second")
	r.add("server CPU a job", us(speed.CPU)/float64(o.jobs), "us")
	if fsync == "no file" {
		return nil
	}
	if err := killServer(ctx, o, s, c, jobs, queue); err != nil {
		return err
	}
	all, err := jobs.outcome(ctx, client)
	if err != nil {
		return err
	}
	mayLose := fsync == "everysec"
	r.add("acknowledged puts", float64(all.acknowledged), "jobs")
	lost := r.add
	if !mayLose {
		lost = r.atMost(0)
	}
	lost("lost before they were run", float64(all.lost), "jobs")
	lost("gone after they were run", float64(all.forgotten), "jobs")
	r.bound("there, but not run", float64(all.stuck), "jobs", 0)
	r.add("run more than once", float64(all.repeated), "jobs")
	r.add("puts that failed", float64(all.refused), "jobs")
	r.add("puts that failed, but were done", float64(all.unexpected), "jobs")
	return all.check(mayLose)
}

// killServer kills the server again and again while jobs are put and run, and returns when all that
// it has then are done.
func killServer(
	ctx context.Context, o *options, s *server, c *crowd, jobs *tally, queue *qless.Queue,
) error {
	var (
		group sync.WaitGroup
		put   atomic.Int64
		ended atomic.Bool
	)
	for p := range putters {
		group.Go(func() {
			for i := 0; !ended.Load() && ctx.Err() == nil; i++ {
				if jobs.put(ctx, queue, fmt.Sprintf("kills-%d-%d", p, i)) {
					put.Add(1)
				} else {
					_ = pause(ctx, 10*time.Millisecond) // the server is away
				}
			}
		})
	}
	defer group.Wait()
	defer ended.Store(true)
	for kill := range o.kills {
		enough := int64((kill + 1) * o.jobs / o.kills)
		err := until(ctx, "puts", time.Millisecond, func() (bool, error) {
			return put.Load() >= enough, nil
		})
		if err != nil {
			return err
		}
		s.process.Kill()
		s.process.Restart()
	}
	ended.Store(true)
	group.Wait()
	return errors.Join(drained(ctx, queue), c.rest(ctx))
}
