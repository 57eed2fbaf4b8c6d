package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"
)

// keptJobs is the default number of completed jobs kept.
const keptJobs = 50000

// The number of jobs in workloads of single commands is a multiple of batchUnit, to fill every
// call.
const batchUnit = 800

func (b *bench) operationJobs() int { return (b.jobs + batchUnit - 1) / batchUnit * batchUnit }

// operating returns a run with single commands.
func (b *bench) operating(
	s *scripts, label string, do func(ctx context.Context, o *operations),
) run {
	return run{peer: s.name, label: label, do: func(ctx context.Context) ([]sample, error) {
		o := &operations{
			server: b.server, rdb: b.server.dial(1), scripts: s, payload: payloadOf(100),
			worker: "w0", poll: "10",
		}
		o.fail(s.load(ctx, o.rdb))
		o.warmUp(ctx)
		do(ctx, o)
		return o.phases, errors.Join(o.err, o.rdb.Close())
	}}
}

// opsGroup measures each command separately.
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
	// Some jobs are left over, to make every reserve do the same work.
	o.putMany(ctx, jobs+bulkSize)
	o.reserve(ctx, jobs, 16)
	o.finish(ctx, 16)
	if o.server.counter == nil {
		return
	}
	// Calls of the worker not worth timing.
	o.unmeasured(func() { o.putMany(ctx, jobs+jobs/2) })
	o.reserve(ctx, jobs/2, 1)
	o.finish(ctx, 1)
	o.turns(ctx, jobs/2, 16)
	o.turns(ctx, jobs/2, 1)
	o.unmeasured(func() { o.reserve(ctx, bulkSize, bulkSize) })
	o.emptyReserve(ctx, jobs/2)
	o.unmeasured(func() { o.finish(ctx, bulkSize) })
	o.alone(ctx)
	o.singly(ctx, "1 slot", 1, 1, "10")
	o.singly(ctx, "long poll", 1, 10, "100")
	o.singly(ctx, "1 idle", 1, 10, "10")
	o.singly(ctx, "8 idle", 8, 10, "10")
	o.singly(ctx, "64 idle", 64, 10, "10")
}

// singly puts jobs one at a time. Each wakes one of the idle workers, which makes the calls of a
// worker that has just run another job: first measured separately, then as whole jobs.
func (o *operations) singly(ctx context.Context, name string, workers, slots int, poll string) {
	const few, many = 15, 192
	o.poll, o.pairs = poll, nil
	channels := []string{"ql:log", "ql:x:listen"}
	for i := range workers {
		o.worker = fmt.Sprint("w", i)
		channels = append(channels, "ql:x:wake:"+o.worker)
		o.take(ctx, name, slots, 0)
	}
	listener := o.rdb.Subscribe(ctx, channels...)
	defer func() { _ = listener.Close() }()
	_, err := listener.Receive(ctx)
	o.fail(err)
	o.pairs = []any{"brief", "1", "ahead", "16"}
	next := 0 // the worker idle for longest
	run := func(jobs int, step func(call string, do func())) {
		for range jobs {
			o.worker = fmt.Sprint("w", next%workers)
			next++
			step("put", func() { o.send(ctx, 1, func(int) []any { return o.putNew() }) })
			step("reserve", func() { o.take(ctx, name, slots, 1) })
			step("finish", func() {
				o.finishHeld(ctx, name, 1)
				if slots == 1 { // only now is the next job requested
					o.take(ctx, name, 1, 0)
				}
			})
		}
	}
	before := o.phases
	run(few, func(call string, do func()) { o.measure(ctx, call+", "+name, 1, do) })
	calls := o.phases[len(before):]
	slices.SortFunc(calls, func(a, b sample) int {
		return cmp.Or(cmp.Compare(a.phase, b.phase), cmp.Compare(a.instructions, b.instructions))
	})
	o.phases = before
	for median := few / 2; median < len(calls); median += few {
		o.phases = append(o.phases, calls[median])
	}
	o.measure(ctx, "job, "+name, many, func() {
		run(many, func(_ string, do func()) { do() })
	})
	if idle, err := o.rdb.SCard(ctx, "ql:x:idle").Result(); err != nil || int(idle) != workers {
		o.fail(fmt.Errorf("%s: %d workers are idle: %v", name, idle, err))
	}
}

// alone measures jobs put, popped and completed one after the other, by the calls of the package.
func (o *operations) alone(ctx context.Context) {
	const phase, many = "job, single calls", 192
	o.measure(ctx, phase, many, func() {
		for range many {
			put := o.putNew()
			o.send(ctx, 1, func(int) []any { return put })
			popped := o.send(ctx, 1, func(int) []any {
				return o.scripts.call("pop", queueName, o.worker, "1", "timed")
			})
			ended := o.send(ctx, 1, func(int) []any {
				return o.scripts.call("complete", jidOf(o.next), o.worker, queueName, o.payload,
					"checked", "1")
			})
			if len(popped) == 0 || len(ended) == 0 || ended[0] != "complete" {
				o.fail(fmt.Errorf("%s: replies %v and %v", phase, popped, ended))
			}
		}
	})
}

// waitingGroups measures how the costs of commands grow with the number of waiting jobs.
func (b *bench) waitingGroups() []group { return b.filledGroups("waiting", b.waiting) }

// scheduledGroups measures the same for scheduled jobs.
func (b *bench) scheduledGroups() []group { return b.filledGroups("scheduled", b.waiting) }

// keptGroups measures the same for completed jobs. At the limit, each complete must remove one.
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

//go:embed load.lua
var loadScript string

// fill creates waiting, scheduled or completed jobs without using the measured scripts.
func (o *operations) fill(ctx context.Context, kind string, jobs int) {
	throttles := ""
	if !o.scripts.own {
		throttles = `["ql:q:` + queueName + `"]`
	}
	if kind == "completed" && jobs > keptJobs {
		o.kept = 2 * jobs
		o.send(ctx, 1, func(int) []any {
			return o.scripts.call("config.set", "jobs-history-count", o.kept)
		})
	}
	const slice = 1000
	old := fmt.Sprintf("%d.5", time.Now().Unix()-1000)
	for first := 0; first < jobs && o.err == nil; first += slice {
		o.fail(o.rdb.Eval(ctx, loadScript, nil, kind, queueName, first, min(slice, jobs-first),
			o.payload, old, throttles).Err())
	}
}
