package tour

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/events"
	"github.com/qless/qless-go/inspect"
)

// Furnish fills a namespace for Dashboard: jobs in every state, a due job, a recurring job, and
// workers not seen for long.
func Furnish(t testing.TB, c *qless.Client) {
	t.Helper()
	ctx := t.Context()
	do := func(err error) { t.Helper(); require.NoError(t, err) }
	queue := c.Queue("shown")
	for _, jid := range []string{"running", "failed", "complete"} {
		_, err := queue.Put(ctx, "K", nil, qless.JID(jid), qless.Tags{"green"})
		do(err)
	}
	jobs, err := queue.Pop(ctx, 3)
	do(err)
	do(jobs[0].Track(ctx))
	do(jobs[1].Fail(ctx, "group", "why"))
	do(jobs[2].Complete(ctx))
	for jid, option := range map[string]qless.PutOption{
		"waiting": qless.Priority(1), "scheduled": qless.Delay(time.Hour),
		"due": qless.Delay(time.Microsecond), "depends": qless.DependsOn{"running"},
	} {
		_, err := queue.Put(ctx, "K", nil, qless.JID(jid), option)
		do(err)
	}
	_, err = queue.Recur(ctx, "K", nil, time.Hour, qless.JID("recurring"))
	do(err)
	for range dependents / 1000 {
		specs := make([]qless.JobSpec, 1000)
		for i := range specs {
			specs[i] = qless.JobSpec{Klass: "K", Options: []qless.PutOption{qless.DependsOn{"scheduled"}}}
		}
		_, err = c.Queue("later").PutMany(ctx, specs)
		do(err)
	}
	do(c.Config().Set(ctx, "max-worker-age", time.Nanosecond))
}

// dependents is the number of jobs waiting for a parent: too many for a script to read at once.
const dependents = 5000

// Dashboard uses every read-only method, after Furnish.
func Dashboard(t testing.TB, c *qless.Client) {
	t.Helper()
	ctx := t.Context()
	do := func(err error) { t.Helper(); require.NoError(t, err) }
	queue, in := c.Queue("shown"), inspect.New(c)
	counts, err := queue.Counts(ctx)
	do(err)
	require.Equal(t, 1, counts.Running)
	_, err = c.Queues(ctx)
	do(err)
	_, err = queue.Settings(ctx)
	do(err)
	result, err := c.Result(ctx, "complete")
	do(err)
	require.Equal(t, qless.StateComplete, result.State)
	for _, list := range []inspect.List{
		inspect.Waiting, inspect.Running, inspect.Stalled, inspect.Scheduled,
		inspect.Depends, inspect.Recurring,
	} {
		_, err = in.Queue("shown", list).JIDs(ctx, inspect.Range{})
		do(err)
	}
	for _, list := range []inspect.List{
		inspect.Waiting, inspect.Running, inspect.Scheduled, inspect.Recurring,
	} {
		do(errOf(in.Queue("shown", list).WithData(10).List(ctx, inspect.Range{})))
		found, err := in.Queue("shown", list).AtMost(1).Find(ctx, "")
		do(err)
		do(errOf(in.Queue("shown", list).Where(inspect.Filter{Data: "x"}).Find(ctx, found.Next)))
		do(errOf(in.Queue("shown", list).Find(ctx, "0 gone")))
	}
	do(errOf(in.Failed("group").List(ctx, inspect.Range{})))
	do(errOf(in.Tagged("green").List(ctx, inspect.Range{})))
	do(errOf(in.Tracked().List(ctx, inspect.Range{})))
	do(errOf(in.Completed().List(ctx, inspect.Range{})))
	do(errOf(in.Failed("group").Find(ctx, "")))
	do(errOf(in.Tagged("green").Find(ctx, "")))
	do(errOf(in.Completed().Find(ctx, "")))
	do(errOf(in.Failures(ctx, "group", 0)))
	do(errOf(in.Latency(ctx, "shown")))
	do(errOf(in.History(ctx, inspect.HistoryQuery{Queues: []string{"shown"}})))
	do(errOf(in.Overview(ctx, inspect.OverviewQuery{StatsOf: []string{queue.Name()}})))
	do(errOf(in.Overview(ctx, inspect.OverviewQuery{From: 1, Queues: 1})))
	do(errOf(doctor.ReadStatus(ctx, c, time.Minute)))
	_, err = queue.Peek(ctx, 10)
	do(err)
	_, err = queue.Stats(ctx, time.Now())
	do(err)
	_, err = in.Workers(ctx)
	do(err)
	_, err = in.Schedules(ctx, inspect.Range{})
	do(err)
	_, err = in.HeldBy(c.WorkerName()).JIDs(ctx, inspect.Range{})
	do(err)
	for _, query := range []inspect.RateQuery{{}, {Queue: "shown", Klass: "K"}} {
		query.From, query.To, query.Step = time.Now().Add(-2*time.Hour), time.Now(), time.Hour
		_, err = in.Rates(ctx, query)
		do(err)
	}
	groups, err := in.FailureGroups(ctx)
	do(err)
	require.Equal(t, map[string]int{"group": 1}, groups)
	_, err = in.Failed("group").JIDs(ctx, inspect.Range{})
	do(err)
	tracked, err := in.Tracked().JIDs(ctx, inspect.Range{})
	do(err)
	require.Len(t, tracked.Items, 1)
	_, err = in.Tagged("green").JIDs(ctx, inspect.Range{})
	do(err)
	_, err = in.Tags(ctx, inspect.Range{})
	do(err)
	_, err = in.Completed().JIDs(ctx, inspect.Range{})
	do(err)
	job, err := c.Job(ctx, "depends")
	do(err)
	require.Equal(t, []string{"running"}, job.Dependencies)
	job, err = c.Job(ctx, "scheduled")
	do(err)
	require.Len(t, job.Dependents, dependents)
	_, err = c.Jobs(ctx, "running", "failed")
	do(err)
	_, err = c.RecurringJob(ctx, "recurring")
	do(err)
	_, err = c.Config().Get(ctx, "heartbeat")
	do(err)
	_, err = c.Config().All(ctx)
	do(err)
	_, err = events.Listen(ctx, c)
	do(err)
}
