package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// crews are the numbers of idle workers in the workload single.
var crews = []int{1, 8, 64}

// rarely is a PollInterval long enough to avoid most polls in a run of the workload single, but
// short enough to keep locks from expiring.
const rarely = 50 * time.Second

// singleGroups measures the usual state of a queue: one job at a time, with idle workers that have
// a client each. A job is put, wakes a worker, is reserved and finished, and all are idle again.
func (b *bench) singleGroups() []group {
	rare := b.settle / 10
	var groups []group
	for _, of := range []struct {
		queues, slots int
		gap           time.Duration
	}{{1, 10, 0}, {1, 10, rare}, {1, 1, 0}, {20, 10, 0}, {20, 10, rare}} {
		for _, workers := range crews {
			l := load{
				concurrency: of.slots, workers: workers, queues: of.queues, apart: true,
				payload: payloadOf(100), poll: rarely,
			}
			g := group{label: fmt.Sprintf("queues=%d slots=%d idle=%d gap=%s",
				of.queues, of.slots, workers, of.gap)}
			for _, p := range b.all {
				if p.waits && (of.queues == 1 || p.layout == "qless") {
					g.runs = append(g.runs, run{peer: p.name, do: func(ctx context.Context) ([]sample, error) {
						return b.single(ctx, p, l, of.gap)
					}})
				}
			}
			groups = append(groups, g)
		}
	}
	return groups
}

// keptBefore is the number of jobs run before the workload single is measured: Redis stores sorted
// sets of up to 128 members as lists, which cost more with each job done.
const keptBefore = 140

// single puts the jobs on a server that has already run some. The cost of earlier jobs is not
// counted, except for their garbage.
func (b *bench) single(
	ctx context.Context, p peer, l load, gap time.Duration,
) (phases []sample, err error) {
	s, taken, err := b.openIdle(ctx, p, l)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	put := func(jobs int, gap time.Duration) ([]time.Duration, error) {
		if own, ok := s.(pacer); ok {
			return own.pickUps(ctx, jobs, gap)
		}
		return oneByOne(ctx, s, taken, jobs, gap)
	}
	before := max(1, b.jobs/5)
	if b.server.counter != nil {
		before = keptBefore
	}
	if _, err := put(before, 0); err != nil {
		return nil, err
	}
	b.server.steady = true
	defer func() { b.server.steady = false }()
	var waits []time.Duration
	one, err := b.server.sample(ctx, "put to idle", b.jobs, func() (err error) {
		waits, err = put(b.jobs, gap)
		return errors.Join(err, pause(ctx, max(gap, between)))
	})
	one.jobs, one.elapsed = len(waits), 0
	if b.server.counter == nil {
		one.waits = waits
	}
	return []sample{one}, err
}

// A pacer is a session that puts and runs jobs in a separate process, and measures from put to
// handler with that process's clock.
type pacer interface {
	pickUps(ctx context.Context, jobs int, gap time.Duration) ([]time.Duration, error)
	pace(ctx context.Context, jobs, rate int) ([]time.Duration, error)
}

// rates are the rates of the workload paced, in jobs per second.
var rates = []int{100, 1000, 5000}

// pacedTime is the duration of a run of the workload paced.
const pacedTime = 4 * time.Second

// pacedGroups measures jobs arriving at a rate at one worker, which runs them immediately.
func (b *bench) pacedGroups() []group {
	var groups []group
	for _, rate := range rates {
		g := group{label: fmt.Sprintf("rate=%d", rate)}
		for _, p := range b.all {
			if p.waits {
				g.runs = append(g.runs, run{peer: p.name, do: func(ctx context.Context) ([]sample, error) {
					return b.paced(ctx, p, rate)
				}})
			}
		}
		groups = append(groups, g)
	}
	return groups
}

func (b *bench) paced(ctx context.Context, p peer, rate int) (phases []sample, err error) {
	jobs := max(1, int(pacedTime.Seconds()*float64(rate)*min(1, float64(b.jobs)/4000)))
	s, taken, err := b.openIdle(ctx, p, load{concurrency: 10, workers: 1, payload: payloadOf(100)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	run := func(jobs int) ([]time.Duration, error) {
		if own, ok := s.(pacer); ok {
			return own.pace(ctx, jobs, rate)
		}
		return pace(ctx, s, taken, jobs, rate)
	}
	if _, err := run(max(1, jobs/10)); err != nil {
		return nil, err
	}
	var waits []time.Duration
	one, err := b.measureBoth(ctx, p, "put to done", jobs, func() (err error) {
		waits, err = run(jobs)
		return errors.Join(err, pause(ctx, 50*time.Millisecond))
	})
	one.waits, one.elapsed = waits, 0
	return []sample{one}, err
}

// pace puts jobs at a rate, whether or not earlier puts have returned, and returns their waiting
// times. It assumes that jobs are taken in the order of puts.
func pace(
	ctx context.Context, s session, taken <-chan time.Time, jobs, rate int,
) ([]time.Duration, error) {
	var group sync.WaitGroup
	defer group.Wait()
	put, began := make([]time.Time, jobs), time.Now()
	failed := make(chan error, jobs)
	group.Go(func() {
		for i := range jobs {
			due := began.Add(time.Duration(i) * time.Second / time.Duration(rate))
			time.Sleep(time.Until(due))
			group.Go(func() {
				put[i] = time.Now()
				if err := s.enqueue(ctx, 1); err != nil {
					failed <- err
				}
			})
		}
	})
	starts, timeout := make([]time.Time, 0, jobs), time.After(patience)
	for len(starts) < jobs {
		select {
		case at := <-taken:
			starts = append(starts, at)
		case err := <-failed:
			return nil, err
		case <-timeout:
			return nil, errors.New("a job was not handled")
		}
	}
	group.Wait()
	slices.SortFunc(put, time.Time.Compare)
	slices.SortFunc(starts, time.Time.Compare)
	waits := make([]time.Duration, jobs)
	for i := range waits {
		waits[i] = starts[i].Sub(put[i])
	}
	return waits, nil
}
