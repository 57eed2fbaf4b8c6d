package tour

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
)

// Furnish puts something of each kind into a namespace, for Dashboard to look at: jobs in every
// state, one that is due, a recurring one, workers that were not seen for long.
func Furnish(t testing.TB, c *qless.Client) {
	t.Helper()
	ctx := t.Context()
	do := func(err error) { t.Helper(); require.NoError(t, err) }
	queue := c.Queue("shown")
	for _, jid := range []string{"running", "failed", "complete"} {
		_, err := queue.Put(ctx, "K", nil, qless.JID(jid), qless.Tags("green"))
		do(err)
	}
	jobs, err := queue.Pop(ctx, 3)
	do(err)
	do(jobs[0].Track(ctx))
	do(jobs[1].Fail(ctx, "group", "why"))
	do(jobs[2].Complete(ctx))
	for jid, option := range map[string]qless.PutOption{
		"waiting": qless.Priority(1), "scheduled": qless.Delay(time.Hour), "due": qless.Delay(time.Microsecond),
		"depends": qless.DependsOn("running"),
	} {
		_, err := queue.Put(ctx, "K", nil, qless.JID(jid), option)
		do(err)
	}
	_, err = queue.Recur(ctx, "K", nil, time.Hour, qless.JID("recurring"))
	do(err)
	for range dependents / 1000 {
		specs := make([]qless.JobSpec, 1000)
		for i := range specs {
			specs[i] = qless.JobSpec{Klass: "K", Options: []qless.PutOption{qless.DependsOn("scheduled")}}
		}
		_, err = c.Queue("later").PutMany(ctx, specs)
		do(err)
	}
	do(c.Config().Set(ctx, qless.ConfigMaxWorkerAge, time.Nanosecond))
}

// dependents is how many jobs wait for one: too many for a script to read at once.
const dependents = 5000

// Dashboard uses every method that only looks, after Furnish.
func Dashboard(t testing.TB, c *qless.Client) {
	t.Helper()
	ctx := t.Context()
	do := func(err error) { t.Helper(); require.NoError(t, err) }
	queue := c.Queue("shown")
	counts, err := queue.Counts(ctx)
	do(err)
	require.Equal(t, 1, counts.Running)
	_, err = c.Queues(ctx)
	do(err)
	_, err = queue.Len(ctx)
	do(err)
	result, err := c.Result(ctx, "complete")
	do(err)
	require.Equal(t, qless.StateComplete, result.State)
	for _, list := range []qless.List{
		qless.ListWaiting, qless.ListRunning, qless.ListStalled, qless.ListScheduled,
		qless.ListDepends, qless.ListRecurring,
	} {
		_, err = queue.JIDs(ctx, list, qless.Range{})
		do(err)
	}
	for _, list := range []qless.List{qless.ListWaiting, qless.ListRunning, qless.ListScheduled, qless.ListRecurring} {
		do(errOf(queue.List(ctx, list, qless.Range{}, qless.DataBytes(10))))
		found, err := queue.Find(ctx, list, qless.Filter{Limit: 1}, "")
		do(err)
		do(errOf(queue.Find(ctx, list, qless.Filter{Data: "x"}, found.Next)))
		do(errOf(queue.Find(ctx, list, qless.Filter{}, "0 gone")))
	}
	do(errOf(c.ListFailed(ctx, "group", qless.Range{})))
	do(errOf(c.ListTagged(ctx, "green", qless.Range{})))
	do(errOf(c.ListTracked(ctx, qless.Range{})))
	do(errOf(c.ListCompleted(ctx, qless.Range{})))
	do(errOf(c.FindFailed(ctx, "group", qless.Filter{}, "")))
	do(errOf(c.FindTagged(ctx, "green", qless.Filter{}, "")))
	do(errOf(c.FindCompleted(ctx, qless.Filter{}, "")))
	do(errOf(c.SummarizeFailures(ctx, "group", 0)))
	do(errOf(c.Queues(ctx, qless.IncludeLatency)))
	do(errOf(c.Overview(ctx, qless.OverviewQuery{StatsOf: []string{queue.Name()}})))
	do(errOf(c.Overview(ctx, qless.OverviewQuery{From: 1, Queues: 1})))
	do(errOf(doctor.ReadStatus(ctx, c, time.Minute)))
	_, err = queue.Peek(ctx, 10)
	do(err)
	_, err = queue.Stats(ctx, time.Now())
	do(err)
	_, err = c.Workers(ctx)
	do(err)
	_, err = c.Schedules(ctx, qless.Range{})
	do(err)
	_, err = c.WorkerJobs(ctx, c.WorkerName())
	do(err)
	for _, filter := range []qless.RateFilter{{}, {Queue: "shown", Klass: "K"}} {
		_, err = c.Rates(ctx, filter, time.Now().Add(-2*time.Hour), time.Now(), time.Hour)
		do(err)
	}
	groups, err := c.FailureGroups(ctx)
	do(err)
	require.Equal(t, map[string]int{"group": 1}, groups)
	_, err = c.FailedIn(ctx, "group", qless.Range{})
	do(err)
	tracked, err := c.Tracked(ctx, qless.Range{})
	do(err)
	require.Len(t, tracked.Items, 1)
	_, err = c.Tagged(ctx, "green", qless.Range{})
	do(err)
	_, err = c.Tags(ctx, qless.Range{})
	do(err)
	_, err = c.Completed(ctx, qless.Range{})
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
	_, err = c.Config().Get(ctx, qless.ConfigHeartbeat)
	do(err)
	_, err = c.Config().All(ctx)
	do(err)
	events, err := c.Events(ctx)
	do(err)
	do(events.Close())
}
