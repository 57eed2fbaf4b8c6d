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

// operating returns a run with single commands.
func (b *bench) operating(
	s *scripts, label string, do func(ctx context.Context, o *operations),
) run {
	return run{peer: s.name, label: label, do: func(ctx context.Context) ([]sample, error) {
		o := &operations{
			server: b.server, rdb: b.server.dial(1), scripts: s, payload: payloadOf(100),
		}
		o.fail(s.load(ctx, o.rdb))
		o.warmUp(ctx)
		do(ctx, o)
		return o.phases, errors.Join(o.err, o.rdb.Close())
	}}
}

// opsGroup measures each command by itself.
func (b *bench) opsGroup() []group {
	g := group{label: fmt.Sprintf("pipelines of %d", pipelined)}
	for _, s := range b.scripts {
		g.runs = append(g.runs, b.operating(s, "", b.everyCommand))
	}
	return []group{g}
}

func (b *bench) everyCommand(ctx context.Context, o *operations) {
	jobs := b.operationJobs()
	o.put(ctx, jobs)
	o.pop(ctx, jobs/2, 1)
	o.heartbeat(ctx)
	o.complete(ctx)
	o.pop(ctx, jobs/2, 10)
	o.unmeasured(func() { o.complete(ctx) })
	o.emptyPop(ctx, jobs/2)
	if !o.scripts.own {
		return
	}
	// Some jobs are left over, so that every reserve does the same work.
	o.putMany(ctx, jobs+bulkSize)
	o.reserve(ctx, jobs, 16)
	o.finish(ctx, 16)
	if o.server.counter == nil {
		return
	}
	// Calls of the worker whose times are not worth measuring.
	o.unmeasured(func() { o.putMany(ctx, jobs) })
	o.reserve(ctx, jobs/2, 1)
	o.finish(ctx, 1)
	o.turns(ctx, jobs/2, 16)
	o.unmeasured(func() { o.reserve(ctx, bulkSize, bulkSize) })
	o.emptyReserve(ctx, jobs/2)
}

// waitingGroups measures how the costs of commands grow with the number of waiting jobs.
func (b *bench) waitingGroups() []group { return b.filledGroups("waiting", b.waiting) }

// scheduledGroups measures the same for scheduled jobs.
func (b *bench) scheduledGroups() []group { return b.filledGroups("scheduled", b.waiting) }

// keptGroups measures the same for completed jobs. At the limit, each complete has to remove one.
func (b *bench) keptGroups() []group { return b.filledGroups("completed", b.kept) }

func (b *bench) filledGroups(kind string, counts []int) []group {
	var groups []group
	for _, s := range b.scripts {
		g := group{label: s.name}
		for _, count := range counts {
			label := fmt.Sprintf("%s=%d", kind, count)
			g.runs = append(g.runs, b.operating(s, label, func(ctx context.Context, o *operations) {
				o.fill(ctx, kind, count)
				o.put(ctx, b.operationJobs())
				o.pop(ctx, b.operationJobs(), 1)
				o.complete(ctx)
				o.counts(ctx, b.operationJobs())
				o.promote(ctx, b.operationJobs())
			}))
		}
		groups = append(groups, g)
	}
	return groups
}
