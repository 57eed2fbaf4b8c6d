package main

import (
	"context"
	"errors"
	"fmt"
)

// keptJobs is the default number of completed jobs that are kept.
const keptJobs = 50000

// The number of jobs in workloads of single commands is a multiple of batchUnit, so that every call
// is full.
const batchUnit = 800

func (b *bench) operationJobs() int { return (b.jobs + batchUnit - 1) / batchUnit * batchUnit }

// operating returns a run of single commands.
func (b *bench) operating(
	s *scripts, label string, do func(ctx context.Context, o *operations) ([]sample, error),
) run {
	return run{peer: s.name, label: label, do: func(ctx context.Context) (phases []sample, err error) {
		o, err := b.operate(ctx, s)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, o.close()) }()
		if err := o.warmUp(ctx); err != nil {
			return nil, err
		}
		return do(ctx, o)
	}}
}

// A step is one measured part of a run.
type step func() (sample, error)

// inOrder runs the steps one after the other.
func inOrder(steps ...step) ([]sample, error) {
	var phases []sample
	for _, do := range steps {
		one, err := do()
		if err != nil {
			return nil, err
		}
		phases = append(phases, one)
	}
	return phases, nil
}

// opsGroup measures every command by itself.
func (b *bench) opsGroup() []group {
	g := group{workload: "ops", label: fmt.Sprintf("pipelines of %d", pipelined)}
	for _, s := range b.scripts {
		g.runs = append(g.runs, b.operating(s, "", b.everyCommand))
	}
	return []group{g}
}

func (b *bench) everyCommand(ctx context.Context, o *operations) ([]sample, error) {
	jobs := b.operationJobs()
	phases, err := inOrder(
		func() (sample, error) { return o.put(ctx, jobs) },
		func() (sample, error) { return o.pop(ctx, jobs/2, 1) },
		func() (sample, error) { return o.heartbeat(ctx) },
		func() (sample, error) { return o.complete(ctx) },
		func() (sample, error) { return o.pop(ctx, jobs/2, 10) },
	)
	if err != nil {
		return nil, err
	}
	if _, err := o.complete(ctx); err != nil {
		return nil, err
	}
	empty, err := o.emptyPop(ctx, jobs/2)
	if err != nil || !o.scripts.own {
		return append(phases, empty), err
	}
	// Some jobs are left over, so that every reserve does the same work.
	batched, err := inOrder(
		func() (sample, error) { return o.putMany(ctx, jobs+bulkSize, bulkSize) },
		func() (sample, error) { return o.reserve(ctx, jobs, 16, "ordered", queueName) },
		func() (sample, error) { return o.finish(ctx, 16) },
	)
	phases = append(append(phases, empty), batched...)
	if err != nil || o.server.counter == nil {
		return phases, err
	}
	more, err := b.workerCommands(ctx, o)
	return append(phases, more...), err
}

// workerCommands measures the worker's calls where their number is not worth measuring in time.
func (b *bench) workerCommands(ctx context.Context, o *operations) ([]sample, error) {
	jobs := b.operationJobs() / 2
	if _, err := o.putMany(ctx, 2*jobs, bulkSize); err != nil {
		return nil, err
	}
	phases, err := inOrder(
		func() (sample, error) { return o.reserve(ctx, jobs, 1, "ordered", queueName) },
		func() (sample, error) { return o.finish(ctx, 1) },
		func() (sample, error) { return o.turns(ctx, jobs, 16) },
	)
	if err != nil {
		return nil, err
	}
	if _, err := o.reserve(ctx, bulkSize, bulkSize, "ordered", queueName); err != nil {
		return nil, err
	}
	empty, err := o.emptyReserve(ctx, jobs)
	return append(phases, empty), err
}

// waitingGroups measures how the cost of commands grows with the number of waiting jobs.
func (b *bench) waitingGroups() []group {
	var groups []group
	for _, s := range b.scripts {
		g := group{workload: "waiting", label: s.name}
		for _, depth := range b.waiting {
			label := fmt.Sprintf("waiting=%d", depth)
			g.runs = append(g.runs, b.operating(s, label, func(ctx context.Context, o *operations) ([]sample, error) {
				if err := o.fill(ctx, "waiting", queueName, depth); err != nil {
					return nil, err
				}
				return b.putPopComplete(ctx, o)
			}))
		}
		groups = append(groups, g)
	}
	return groups
}

// keptGroups measures the same for kept completed jobs. At the limit each complete has to remove
// one.
func (b *bench) keptGroups() []group {
	var groups []group
	for _, s := range b.scripts {
		g := group{workload: "kept", label: s.name}
		for _, kept := range b.kept {
			label := fmt.Sprintf("completed=%d", kept)
			g.runs = append(g.runs, b.operating(s, label, func(ctx context.Context, o *operations) ([]sample, error) {
				if err := o.fill(ctx, "completed", queueName, kept); err != nil {
					return nil, err
				}
				return b.putPopComplete(ctx, o)
			}))
		}
		groups = append(groups, g)
	}
	return groups
}

func (b *bench) putPopComplete(ctx context.Context, o *operations) ([]sample, error) {
	jobs := b.operationJobs()
	return inOrder(
		func() (sample, error) { return o.put(ctx, jobs) },
		func() (sample, error) { return o.pop(ctx, jobs, 1) },
		func() (sample, error) { return o.complete(ctx) },
	)
}
