package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"
)

// jobGroups measures whole jobs: all jobs are put, then all are run.
func (b *bench) jobGroups() []group {
	var groups []group
	for _, payload := range b.payload {
		for _, concurrency := range b.concurrency {
			l := load{
				jobs: b.jobs, concurrency: concurrency, workers: 1, payload: payloadOf(payload), raw: b.raw,
			}
			label := fmt.Sprintf("payload=%d concurrency=%d", payload, concurrency)
			g := group{label: label}
			for _, p := range b.all {
				g.runs = append(g.runs, run{peer: p.name, do: func(ctx context.Context) ([]sample, error) {
					if b.server.counter != nil {
						return b.moreJobs(ctx, p, l)
					}
					return b.wholeJobs(ctx, p, l)
				}})
			}
			groups = append(groups, g)
		}
	}
	return groups
}

// moreJobs measures all jobs and subtracts a run with a fifth of them, to exclude connecting,
// loading scripts and starting workers.
func (b *bench) moreJobs(ctx context.Context, p peer, l load) ([]sample, error) {
	few := l
	few.jobs = max(1, l.jobs/5)
	base, err := b.wholeJobs(ctx, p, few)
	if err != nil {
		return nil, err
	}
	if err := b.server.empty(ctx); err != nil {
		return nil, err
	}
	phases, err := b.wholeJobs(ctx, p, l)
	for i := range phases {
		phases[i] = phases[i].minus(base[i])
	}
	return phases, err
}

func (b *bench) wholeJobs(ctx context.Context, p peer, l load) (phases []sample, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := p.open(ctx, b.server, l)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	enqueued, err := b.measureBoth(ctx, p, "enqueue", l.jobs, func() error {
		return s.enqueue(ctx, l.jobs)
	})
	if err != nil {
		return nil, err
	}
	worked, err := b.measureBoth(ctx, p, "process", l.jobs, func() error {
		crew := newCrew(l.jobs)
		if b.server.counter != nil {
			crew.poll = time.Second // otherwise polls would count
		}
		if err := s.work(ctx, crew); err != nil {
			return err
		}
		return crew.wait(ctx, s)
	})
	if err != nil {
		return nil, err
	}
	return []sample{enqueued, worked, enqueued.plus(worked, "total")}, nil
}

// measureBoth measures the server and, unless the peer runs elsewhere, this process.
func (b *bench) measureBoth(
	ctx context.Context, p peer, phase string, jobs int, do func() error,
) (sample, error) {
	runtime.GC() // this peer must not pay for the garbage of earlier runs
	before, err := cpuTime()
	if err != nil {
		return sample{}, err
	}
	one, err := b.sample(ctx, p, phase, jobs, do)
	if err != nil || p.apart {
		return one, err
	}
	after, err := cpuTime()
	one.client = after - before
	return one, err
}

// cpuTime returns the CPU time used by this process, user and system.
func cpuTime() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}
