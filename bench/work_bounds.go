package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/lease"
)

// failedGroup is the failure group of the jobs that load.lua creates.
const failedGroup = "failed"

// uniqueKeys is the number of keys claimed so far.
var uniqueKeys atomic.Int64

// A boundedCall is a call whose scripts are bounded, on a server with a lot of everything.
type boundedCall struct {
	name string
	make func(ctx context.Context, l *boundLoad) error // creates the objects of the call; may be nil
	do   func(ctx context.Context, l *boundLoad) error
}

// A boundLoad is the load under which bounded calls are made.
type boundLoad struct {
	*bench
	client *qless.Client
	in     *inspect.Inspector
	queue  *qless.Queue // the call's own
	jids   []string     // the jids of its jobs
	job    *qless.Job
	batch  *qless.Batch
}

// many and several are numbers of jobs or queues that a call names: up to 1000, and up to inBulk.
func (l *boundLoad) many() int    { return min(1000, l.jobs, l.queues) }
func (l *boundLoad) several() int { return min(inBulk, l.many()) }

func (l *boundLoad) selected() inspect.Selection { return l.in.JIDs(l.jids...) }

// A jobOptions returns the options of a job by its number.
type jobOptions func(i int) []qless.PutOption

func none(int) []qless.PutOption { return nil }

// everything returns all options that a job can have at once.
func everything(i int) []qless.PutOption {
	return []qless.PutOption{
		qless.Unique("key", uniqueKeys.Add(1)), qless.TTL(time.Hour), qless.KeepFor(time.Hour),
		qless.Fair(fmt.Sprint("tenant-", i%50)), qless.Limits{"limit"},
		qless.Headers{"trace": "0123456789abcdef"}, qless.Tags{"red", fmt.Sprint("tag-", i)},
	}
}

// expired returns the same options, and a life of a second.
func expired(i int) []qless.PutOption { return append(everything(i), qless.TTL(time.Second)) }

func held(i int) []qless.PutOption { return []qless.PutOption{qless.Unique("held", i)} }

func turns(i int) []qless.PutOption {
	return []qless.PutOption{qless.Fair(fmt.Sprint("tenant-", i%50))}
}

func scheduled(i int) []qless.PutOption { return append(everything(i), qless.Delay(time.Minute)) }

// filled puts jobs with options.
func filled(options jobOptions) func(context.Context, *boundLoad) error {
	return func(ctx context.Context, l *boundLoad) (err error) {
		l.jids, err = fill(ctx, l.queue, l.many(), options)
		return err
	}
}

// waited puts jobs that wait for a running one.
func waited(options ...qless.PutOption) func(context.Context, *boundLoad) error {
	return func(ctx context.Context, l *boundLoad) error {
		jid, err := l.queue.Put(ctx, klass, data)
		jobs, failed := l.queue.Pop(ctx, 1)
		if err = errors.Join(err, failed, expect(len(jobs), 1)); err != nil {
			return err
		}
		l.job = jobs[0]
		return filled(func(int) []qless.PutOption {
			return append([]qless.PutOption{qless.DependsOn{jid}}, options...)
		})(ctx, l)
	}
}

// batched creates a batch with many members.
func batched(ctx context.Context, l *boundLoad) (err error) {
	l.batch, err = l.client.NewBatch(ctx, l.queue.Name(), qless.JobSpec{Klass: klass, Data: data})
	for range 20 {
		if err == nil {
			_, err = l.batch.Add(ctx, l.queue.Name(), specsOf(l.many(), none))
		}
	}
	if err == nil {
		l.jids = []string{l.batch.ID}
	}
	return err
}

// amid names jobs from the middle of a long failure group.
func amid(ctx context.Context, l *boundLoad) error {
	middle := inspect.Range{Offset: l.jobs / 2, Limit: l.several() / 2}
	page, err := l.in.Failed(failedGroup).JIDs(ctx, middle)
	l.jids = page.Items
	return err
}

func specsOf(count int, options jobOptions) []qless.JobSpec {
	specs := make([]qless.JobSpec, count)
	for i := range specs {
		specs[i] = qless.JobSpec{Klass: klass, Data: data, Options: options(i)}
	}
	return specs
}

// putMany puts jobs with options. Some may exist already.
func putMany(options jobOptions) func(context.Context, *boundLoad) error {
	return func(ctx context.Context, l *boundLoad) error {
		_, err := l.queue.PutMany(ctx, specsOf(l.many(), options))
		if errors.Is(err, qless.ErrExists) {
			return nil
		}
		return err
	}
}

// popAfter pops jobs after some time.
func popAfter(wait time.Duration) func(context.Context, *boundLoad) error {
	return func(ctx context.Context, l *boundLoad) error {
		return errors.Join(pause(ctx, wait), errOf(l.queue.Pop(ctx, l.many())))
	}
}

// repairing repairs the jobs of the call, all of which can be repaired.
func repairing(
	repair func(ctx context.Context, s inspect.Selection) (inspect.Repair, error),
) func(context.Context, *boundLoad) error {
	return func(ctx context.Context, l *boundLoad) error {
		result, err := repair(ctx, l.selected())
		return errors.Join(err, expect(result.Changed, len(l.jids)))
	}
}

func cancelSelected(ctx context.Context, s inspect.Selection) (inspect.Repair, error) {
	return s.Cancel(ctx)
}

func moveSelected(ctx context.Context, s inspect.Selection) (inspect.Repair, error) {
	return s.Move(ctx, "elsewhere")
}

func cancelNamed(ctx context.Context, l *boundLoad) error {
	return l.client.Cancel(ctx, l.jids[:min(len(l.jids), inBulk)]...)
}

// receive briefly waits at many empty queues, given by name.
func receive(ctx context.Context, l *boundLoad) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := lease.New(l.client).Take(ctx, lease.Request{
		Queues: queueNames(l.many()), LockTime: time.Minute,
	})
	if errors.Is(err, qless.ErrUnavailable) {
		return nil
	}
	return err
}

// expect returns an error unless a count is want.
func expect(count, want int) error {
	if count != want {
		return fmt.Errorf("%d, and not %d", count, want)
	}
	return nil
}

// errOf returns the error of a call that also returns a value.
func errOf[T any](_ T, err error) error { return err }

var boundedCalls = []boundedCall{
	{"PutMany", nil, putMany(none)},
	{"PutMany with many options", nil, putMany(everything)},
	{"PutMany of held keys", putMany(held), putMany(held)},
	{"Batch.Add", batched, func(ctx context.Context, l *boundLoad) error {
		return errOf(l.batch.Add(ctx, l.queue.Name(), specsOf(l.many(), none)))
	}},
	{"Pop", filled(none), popAfter(0)},
	{"Pop in turns", filled(turns), popAfter(0)},
	{"Pop with many options", filled(everything), popAfter(0)},
	{"Pop of expired jobs", filled(expired), popAfter(2 * time.Second)},
	{"Sweep of expired jobs", filled(expired), func(ctx context.Context, l *boundLoad) error {
		return errors.Join(pause(ctx, 2*time.Second), errOf(inspect.New(l.client).Sweep(ctx)))
	}},
	{"Complete of a job that others wait for", waited(),
		func(ctx context.Context, l *boundLoad) error { return l.job.Complete(ctx) }},
	{"Fail of a job that others wait for", waited(qless.OnFailureFail),
		func(ctx context.Context, l *boundLoad) error { return l.job.Fail(ctx, "told", "why") }},
	{"Cancel, named", filled(everything), cancelNamed},
	{"Cancel, selected", filled(everything), repairing(cancelSelected)},
	{"Cancel of a batch", batched, func(ctx context.Context, l *boundLoad) error {
		return l.batch.Cancel(ctx)
	}},
	{"Cancel of a job that waits, named", batched, cancelNamed},
	{"Cancel of a job that waits, selected", batched, repairing(cancelSelected)},
	{"Move", filled(everything), repairing(moveSelected)},
	{"SetPriority", filled(everything), repairing(
		func(ctx context.Context, s inspect.Selection) (inspect.Repair, error) {
			return s.SetPriority(ctx, 7)
		})},
	{"Promote", filled(scheduled), repairing(
		func(ctx context.Context, s inspect.Selection) (inspect.Repair, error) {
			return s.Promote(ctx)
		})},
	{"Tag", filled(none), repairing(
		func(ctx context.Context, s inspect.Selection) (inspect.Repair, error) {
			return s.Tag(ctx, "red", "green", "blue")
		})},
	{"Jobs", filled(everything), func(ctx context.Context, l *boundLoad) error {
		return errOf(l.client.Jobs(ctx, l.jids...))
	}},
	{"Find", nil, func(ctx context.Context, l *boundLoad) error {
		deep := l.in.Queue(queueName, inspect.Waiting).Where(inspect.Filter{Data: "none"})
		return errOf(deep.Find(ctx, ""))
	}},
	{"List", nil, func(ctx context.Context, l *boundLoad) error {
		middle := inspect.Range{Offset: l.jobs / 2, Limit: inBulk}
		return errOf(l.in.Queue(queueName, inspect.Waiting).WithData(100).List(ctx, middle))
	}},
	{"Failures", nil, func(ctx context.Context, l *boundLoad) error {
		return errOf(l.in.Failures(ctx, failedGroup, 10_000))
	}},
	{"Receive from empty queues", nil, receive},
	{"Queues", nil, func(ctx context.Context, l *boundLoad) error {
		return errOf(l.client.Queues(ctx))
	}},
	{"Overview", nil, func(ctx context.Context, l *boundLoad) error {
		return errOf(l.in.Overview(ctx, inspect.OverviewQuery{}))
	}},
	{"ReadStatus", nil, func(ctx context.Context, l *boundLoad) error {
		return errOf(doctor.ReadStatus(ctx, l.client, time.Minute))
	}},
	{"Sweep of all queues", nil, func(ctx context.Context, l *boundLoad) error {
		return errOf(inspect.New(l.client).Sweep(ctx, "*"))
	}},
}

// amidCalls take jobs from the middle of the failure group, for which Redis scans half of a list:
// see docs/internals/bounded-work.md.
var amidCalls = []boundedCall{
	{"Cancel amid a failure group, named", amid, cancelNamed},
	{"Cancel amid a failure group, selected", amid, repairing(cancelSelected)},
	{"Move amid a failure group", amid, repairing(moveSelected)},
	{"Unfail amid a failure group", amid, repairing(
		func(ctx context.Context, s inspect.Selection) (inspect.Repair, error) { return s.Unfail(ctx) })},
}

// passed is the longest that such a scan takes, in milliseconds per 1,000,000 jobs of the group.
const passed = 15

// bounds measures the longest script of each call, with -jobs waiting, as many failed, and -queues.
// A script that takes too long is an error.
func bounds(ctx context.Context, b *bench, r *report) error {
	m := &meter{server: b.server}
	rdb := b.server.dial(0)
	defer func() { _ = rdb.Close() }()
	rdb.AddHook(m)
	client, err := qless.New(rdb, &qless.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	if err := makeQueues(ctx, client, b.queues); err != nil {
		return err
	}
	filler := &operations{ctx: ctx, rdb: rdb, scripts: &scripts{own: true}, payload: string(data)}
	filler.fill("failed", queueName, b.jobs)
	filler.fill("waiting", queueName, b.jobs)
	if filler.err != nil {
		return filler.err
	}
	return errors.Join(b.bounded(ctx, r, client, m, boundedCalls, 0),
		b.bounded(ctx, r, client, m, amidCalls, passed*float64(b.jobs)/1e6))
}

// bounded measures calls whose scripts may each take so many milliseconds longer than others.
func (b *bench) bounded(
	ctx context.Context, r *report, client *qless.Client, m *meter,
	calls []boundedCall, longer float64,
) (tooLong error) {
	most := b.longest + longer
	for _, call := range calls {
		worst, count, err := call.measure(ctx, b, client, m, most)
		if err != nil {
			return fmt.Errorf("%s: %w", call.name, err)
		}
		r.in("%s", call.name)
		r.add("scripts", float64(count), "")
		r.bound("CPU of the longest, "+worst.command, ms(worst.took), "ms", longestStep+longer)
		if ms(worst.took) > most {
			tooLong = errors.Join(tooLong, fmt.Errorf("%s: %v", call.name, worst.took))
		}
	}
	return tooLong
}

// measure returns the longest script of a call, and the number of its scripts: the best of a few
// attempts, because other programs slow the processor down.
func (c boundedCall) measure(
	ctx context.Context, b *bench, client *qless.Client, m *meter, most float64,
) (best metered, count int, err error) {
	const attempts = 3
	for attempt := range attempts {
		l := &boundLoad{bench: b, client: client, in: inspect.New(client)}
		l.queue = client.Queue(fmt.Sprintf("%s, %d", c.name, attempt))
		if c.make != nil {
			if err := c.make(ctx, l); err != nil {
				return best, 0, err
			}
		}
		m.reset()
		if err := c.do(ctx, l); err != nil {
			return best, 0, err
		}
		worst, scripts := m.reset()
		if attempt == 0 || worst.took < best.took {
			best, count = worst, scripts
		}
		if ms(best.took) <= most {
			break
		}
	}
	return best, count, nil
}
