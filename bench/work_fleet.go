package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

func idleFleets(ctx context.Context, b *bench, r *report) error {
	return b.fleets(ctx, r, "worker", fleet{workers: b.workers, queues: queueNames(1)})
}

func tenantFleets(ctx context.Context, b *bench, r *report) error {
	return b.fleets(ctx, r, "tenant", fleet{workers: b.workers, queues: queueNames(1), tenants: true})
}

func queueFleets(ctx context.Context, b *bench, r *report) error {
	names := queueNames(min(b.queues, 1000))
	for _, workers := range []int{1, b.workers} {
		label := fmt.Sprintf("%d workers of %d queues", workers, len(names))
		err := b.fleet(ctx, r, fleet{label: label, workers: workers, clients: 1, queues: names})
		if err != nil {
			return err
		}
	}
	return nil
}

// fleets measures a fleet with each number of clients.
func (b *bench) fleets(ctx context.Context, r *report, thing string, f fleet) error {
	for _, clients := range b.clients {
		f.label = fmt.Sprintf("%d %ss on %d clients", f.workers, thing, clients)
		if f.clients = clients; clients == 0 {
			f.label = fmt.Sprintf("%d %ss, a client each", f.workers, thing)
		}
		if err := b.fleet(ctx, r, f); err != nil {
			return err
		}
	}
	return nil
}

// fleet measures a fleet on a separate server: the fleet's resources, and the work caused by a job.
func (b *bench) fleet(ctx context.Context, r *report, f fleet) error {
	if err := b.renew(ctx); err != nil {
		return err
	}
	r.in("%s", f.label)
	jobs := newErrands()
	before := inUse()
	var c *crowd
	start, err := b.server.measure(ctx, func() (err error) {
		c, err = hire(ctx, b.server, f, qless.WorkerConfig{PollInterval: b.poll}, jobs.handle)
		return err
	})
	if err != nil {
		return err
	}
	workers := float64(f.workers)
	heap, stacks, goroutines := inUse().since(before)
	r.add("until all are idle", start.elapsed.Seconds(), "s")
	r.add("connections a worker", float64(start.Connections)/workers, "")
	r.add("server memory a worker", float64(start.Memory)/workers/1e3, "KB")
	r.add("server memory, peak", float64(start.Peak)/1e6, "MB")
	r.add("goroutines a worker", goroutines/workers, "")
	r.add("heap a worker", heap/workers, "KB")
	r.add("stacks a worker", stacks/workers, "KB")
	err = errors.Join(b.atRest(ctx, r, c), b.oneJob(ctx, r, c, jobs, f.queues[len(f.queues)-1]))
	stop, failed := b.server.measure(ctx, c.dismiss)
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	r.add("until all have stopped", stop.elapsed.Seconds(), "s")
	left, err := b.server.admin.SCard(ctx, "ql:x:idle").Result()
	r.bound("idle by the server's account then", float64(left), "workers", 0)
	return err
}

// atRest measures workers just idle, and again when the cost no longer falls because the workers
// have agreed on the division of work.
func (b *bench) atRest(ctx context.Context, r *report, c *crowd) error {
	var first, last cost
	for turn := range 8 {
		before := last
		var err error
		last, err = b.server.measure(ctx, func() error { return pause(ctx, b.poll) })
		if err != nil {
			return err
		}
		if turn == 0 {
			first = last
		} else if last.perScript() > 0.8*before.perScript() {
			break
		}
	}
	r.add("server CPU, first "+b.poll.String(), first.core(), "% of a core")
	r.bound("server CPU, idle", last.core(), "% of a core", 3)
	r.bound("scripts a worker and poll", float64(last.Scripts)/float64(len(c.workers)), "", 1.25)
	r.bound("commands a script", last.perScript(), "", 21)
	r.bound("longest call of idle workers", ms(last.longest), "ms", longestStep)
	return nil
}

// oneJob measures jobs of a queue, one after another, with an idle fleet.
func (b *bench) oneJob(
	ctx context.Context, r *report, c *crowd, jobs *errands, name string,
) error {
	const times = 20
	queue := c.clients[0].Queue(name)
	if err := jobs.run(ctx, queue); err != nil { // the first job of a day costs more
		return err
	}
	if err := c.settle(ctx); err != nil {
		return err
	}
	reserves := c.reserves.Load()
	one, err := b.server.measure(ctx, func() error {
		for range times {
			if err := errors.Join(jobs.run(ctx, queue), c.rest(ctx)); err != nil {
				return err
			}
		}
		return nil
	})
	r.bound("commands for a job, put to done", float64(one.Commands)/times, "", 124)
	r.add("reserves for a job", float64(c.reserves.Load()-reserves)/times, "")
	r.add("server CPU for a job", us(one.CPU)/times, "us")
	r.add("put to handler, p50", longestOf(jobs.waits, 0.5), "ms")
	return err
}

// makeQueues creates queues without jobs.
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

// never is a PollInterval too long for any poll.
const never = 50 * time.Minute

// appearing is the number of queues appearing during the measurement of a case.
const appearing = 20

// newQueues measures queues that appear one by one, with workers that don't want them, and with
// workers with matching patterns.
func newQueues(ctx context.Context, b *bench, r *report) (failed error) {
	f := fleet{workers: b.workers, clients: 1, queues: []string{"work"}}
	config := qless.WorkerConfig{PollInterval: never}
	nothing := func(context.Context, *qless.Job) error { return nil }
	others, err := hire(ctx, b.server, f, config, nothing)
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, others.dismiss()) }()
	if err := makeQueues(ctx, others.clients[0], b.queues); err != nil {
		return err
	}
	f.workers = max(1, b.workers/10)
	for i, pattern := range []string{"new-0-*", "*"} {
		r.in("%d workers of the pattern %s", f.workers, pattern)
		jobs := newErrands()
		f.queues = []string{pattern}
		c, err := hire(ctx, b.server, f, config, jobs.handle)
		if err != nil {
			return err
		}
		unwanted, reserves := others.reserves.Load(), c.reserves.Load()
		one, err := b.server.measure(ctx, func() error {
			for n := range appearing {
				queue := others.clients[0].Queue(fmt.Sprintf("new-%d-%d", i, n))
				if err := errors.Join(jobs.run(ctx, queue), c.rest(ctx)); err != nil {
					return err
				}
			}
			return nil
		})
		if err = errors.Join(err, c.dismiss()); err != nil {
			return err
		}
		workers := float64(f.workers)
		r.bound("reserves of workers that don't want it", float64(others.reserves.Load()-unwanted), "", 0)
		r.add("reserves a queue and worker", float64(c.reserves.Load()-reserves)/appearing/workers, "")
		r.add("bytes sent a queue and worker", float64(one.Sent)/appearing/workers, "")
		r.add("server CPU a queue", ms(one.CPU)/appearing, "ms")
		r.add("longest call", ms(one.longest), "ms")
		r.add("put to handler, p50", longestOf(jobs.waits, 0.5), "ms")
	}
	return nil
}
