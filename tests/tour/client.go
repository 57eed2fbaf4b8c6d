package tour

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/events"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/lease"
	"github.com/qless/qless-go/tests/repairs"
)

// Client uses every method of the API except for the worker's.
func Client(t testing.TB, c *qless.Client) {
	t.Helper()
	ctx := t.Context()
	do := func(err error) { t.Helper(); require.NoError(t, err) }
	heard, err := events.Listen(ctx, c)
	do(err)

	do(c.Config().Set(ctx, "grace-period", 0))
	do(c.Config().Set(ctx, "odd-max-concurrency", 5))
	require.Equal(t, events.ConfigSet, soon(ctx, t, heard).Kind)
	do(c.Config().Unset(ctx, "odd-max-concurrency"))

	queue := c.Queue("tour")
	first, err := queue.Put(ctx, "K", nil, qless.Tags{"red"}, qless.Priority(3))
	do(err)
	second, err := queue.Put(ctx, "K", nil, qless.DependsOn{first})
	do(err)
	more, err := queue.PutMany(ctx, []qless.JobSpec{
		{Klass: "K", Options: []qless.PutOption{qless.Tags{"red"}}},
		{Klass: "K", Options: []qless.PutOption{qless.Delay(time.Millisecond)}},
		{Klass: "K"}, {Klass: "K"},
	})
	do(err)
	waiting, err := c.Job(ctx, second)
	do(err)
	do(waiting.Track(ctx))
	do(waiting.Depend(ctx, more[0]))
	do(waiting.Undepend(ctx, more[0]))
	do(waiting.Tag(ctx, "red", "blue"))
	do(waiting.Untag(ctx, "blue"))
	do(waiting.SetPriority(ctx, 9))
	do(waiting.Log(ctx, "looked at", map[string]int{"n": 1}))
	do(waiting.Move(ctx, "elsewhere"))
	do(waiting.UndependAll(ctx))

	pop := func() *qless.Job {
		t.Helper()
		jobs, err := queue.Pop(ctx, 1)
		do(err)
		require.Len(t, jobs, 1)
		return jobs[0]
	}
	job := pop()
	require.Equal(t, first, job.JID)
	again := job.Spec()
	again.Options = append(again.Options, qless.JID("again"), qless.Delay(time.Hour))
	do(errOf(queue.PutMany(ctx, []qless.JobSpec{again})))
	do(c.Cancel(ctx, "again"))
	do(errOf(job.Heartbeat(ctx)))
	require.Len(t, lease.New(c).Complete(ctx, "tour", "missing"), 1)
	completeTogether(t, c)
	do(job.Next(ctx, "tour", qless.Headers{"trace": "t"})) // like NextHeaders
	job = pop()
	do(job.Release(ctx, 0))
	job = pop()
	do(errOf(job.Retry(ctx, 0, "tour-group", "why")))
	do(pop().Fail(ctx, "tour-group", "why"))
	moved, err := inspect.New(c).Failed("tour-group").AtMost(10).Move(ctx, queue.Name())
	do(err)
	require.Equal(t, 1, moved.Changed)
	job = pop()
	do(job.Fail(ctx, "tour-group", "why"))
	do(job.Unfail(ctx))
	do(pop().Fail(ctx, "tour-group", "why"))
	moved, err = inspect.New(c).Failed("tour-group").AtMost(10).Unfail(ctx)
	do(err)
	require.Equal(t, 1, moved.Changed)
	do(errOf(inspect.New(c).JIDs(pop().JID).Timeout(ctx)))
	do(repairs.TimeOut(ctx, c, pop().JID)) // as commands used only by other clients
	do(errOf(repairs.UnfailInto(ctx, c, "tour", "no-group", 1)))
	do(errOf(c.Do(ctx, "jobs", "scheduled", "tour")))
	do(pop().Complete(ctx))
	do(waiting.Untrack(ctx))
	do(waiting.Cancel(ctx))

	jid, err := queue.Recur(ctx, "K", nil, time.Hour, qless.Tags{"red"})
	do(err)
	do(pop().Complete(ctx)) // or its child
	recurring, err := c.RecurringJob(ctx, jid)
	do(err)
	recurring.Priority, recurring.Queue, recurring.Tags = 4, "elsewhere", []string{"blue"}
	do(recurring.Update(ctx))
	do(errOf(c.Do(ctx, "recur.tag", jid, "green"))) // like classic clients
	do(errOf(c.Do(ctx, "recur.untag", jid, "green")))
	do(recurring.Cancel(ctx))

	waited, err := c.Queue("waited").Put(ctx, "K", nil)
	do(err)
	jobs, err := c.Queue("waited").Pop(ctx, 1)
	do(err)
	do(jobs[0].SetProgress(ctx, 1, 2, "half"))
	do(jobs[0].SetResult(7))
	do(jobs[0].Complete(ctx))
	do(errOf(c.Wait(ctx, waited, qless.OnProgress(func(qless.Progress) {}))))
	brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, errOf(c.Queue("waited").Call(brief, "K", nil)), qless.ErrUnavailable)
	unwanted, err := c.Queue("waited").Put(ctx, "K", nil)
	do(err)
	do(lease.New(c).Withdraw(ctx, unwanted))
	for _, end := range []repairs.Ending{{TryAgain: 2}, {}, {State: qless.StateFailed, Group: "g"}} {
		do(errOf(c.Queue("waited").Put(ctx, "K", nil, qless.JID("ended"))))
		do(errOf(c.Queue("waited").Pop(ctx, 1)))
		state, err := repairs.End(ctx, c, "ended", end)
		do(err)
		if state != qless.StateWaiting {
			do(repairs.Forget(ctx, c, "ended"))
		}
	}
	t.Cleanup(func() { _ = c.Close() }) // ends the waits' subscription

	batch, err := c.NewBatch(ctx, "batches", qless.NewKlass[any]("K").Spec(nil, qless.OnFailureRun))
	do(err)
	members, err := batch.Add(ctx, "batches", []qless.JobSpec{{Klass: "K"}, {Klass: "K"}})
	do(err)
	jobs, err = c.Queue("batches").Pop(ctx, 1)
	do(err)
	do(jobs[0].Complete(ctx))
	do(batch.Commit(ctx))
	do(errOf(batch.Status(ctx)))
	for _, err := range batch.Pending(ctx) {
		do(err)
	}
	do(errOf(c.WaitAll(ctx, jobs[0].JID)))
	require.Contains(t, members, jobs[0].JID)
	do(batch.Cancel(ctx))

	repair(t, c)

	limit := c.Limit("tour/limit")
	do(limit.Set(ctx, qless.LimitConfig{Concurrency: 1, Rate: 2, Per: time.Hour}))
	var limited []string
	for range 3 {
		jid, err := c.Queue("limited").Put(ctx, "K", nil, qless.Limits{"tour/limit", "tour/other"})
		do(err)
		limited = append(limited, jid)
	}
	jobs, err = c.Queue("limited").Pop(ctx, 3)
	do(err)
	require.Len(t, jobs, 1)
	do(errOf(inspect.New(c).Limit(ctx, limit.Name())))
	do(errOf(inspect.New(c).Limits(ctx, inspect.Range{})))
	do(limit.Hold(ctx, time.Minute))
	do(jobs[0].Release(ctx, 0))
	do(limit.Unset(ctx))
	do(c.Cancel(ctx, limited...))
	do(queue.SetMaxRate(ctx, 1000, time.Second))
	do(errOf(queue.Counts(ctx)))
	do(errOf(queue.Settings(ctx)))
	do(queue.SetMaxRate(ctx, 0, 0))

	do(queue.Pause(ctx))
	do(queue.Resume(ctx))
	_, err = queue.Put(ctx, "K", nil, qless.Unique("tour"), qless.Fair("tour"))
	do(err)
	holder, err := inspect.New(c).Holder(ctx, "tour")
	do(err)
	for range 2 { // the second follows the first, which is then running
		do(errOf(queue.Put(ctx, "K", nil, qless.Unique("tour").Replace(), qless.Priority(100))))
		pop()
	}
	follower, err := inspect.New(c).Holder(ctx, "tour")
	do(err)
	do(c.Cancel(ctx, follower))
	do(c.Cancel(ctx, holder))
	_, err = queue.Put(ctx, "K", nil, qless.TTL(time.Millisecond), qless.KeepFor(time.Hour))
	do(err)
	_, err = inspect.New(c).Sweep(ctx)
	do(err)
	do(errOf(c.Queue("due").Put(ctx, "K", nil, qless.Delay(time.Millisecond))))
	do(errOf(inspect.New(c).Sweep(ctx, "*")))
	do(inspect.New(c).ForgetQueue(ctx, "elsewhere"))
	lostLock(t, c)
	do(inspect.New(c).ForgetWorkers(ctx, c.WorkerName()))
}

// repair reads and repairs many jobs at once.
func repair(t testing.TB, c *qless.Client) {
	t.Helper()
	ctx := t.Context()
	did := func(r inspect.Repair, err error) {
		t.Helper()
		require.NoError(t, err)
		require.Equal(t, 1, r.Changed)
	}
	queue := c.Queue("repaired")
	for _, jid := range []string{"canceled", "failed"} {
		require.NoError(t, errOf(queue.Put(ctx, "K", nil, qless.JID(jid))))
		jobs, err := queue.Pop(ctx, 1)
		require.NoError(t, err)
		require.NoError(t, jobs[0].Fail(ctx, "repair", "why"))
	}
	require.NoError(t, errOf(inspect.New(c).Failures(ctx, "repair", 0)))
	did(inspect.New(c).Failed("repair").AtMost(1).Cancel(ctx))
	did(inspect.New(c).Failed("repair").AtMost(1).Unfail(ctx, qless.TTL(time.Hour)))
	bulk := inspect.New(c).JIDs("failed")
	did(bulk.SetPriority(ctx, 3))
	did(bulk.Tag(ctx, "red"))
	did(bulk.Track(ctx))
	did(bulk.Untrack(ctx))
	did(bulk.Move(ctx, "repaired", qless.Delay(time.Minute)))
	did(bulk.Promote(ctx))
	job, err := c.Job(ctx, "failed")
	require.NoError(t, err)
	require.NoError(t, job.Reschedule(ctx, time.Minute))
	require.NoError(t, errOf(inspect.New(c).JIDs(job.JID).Promote(ctx)))
	waiting := inspect.New(c).Queue(queue.Name(), inspect.Waiting)
	require.NoError(t, errOf(waiting.WithData(9).List(ctx, inspect.Range{})))
	found, err := waiting.Where(inspect.Filter{Klass: "K"}).AtMost(1).Find(ctx, "")
	require.NoError(t, err)
	require.NoError(t, errOf(waiting.Find(ctx, found.Next)))
	require.NoError(t, errOf(inspect.New(c).Latency(ctx, queue.Name())))
	jobs, err := queue.Pop(ctx, 1)
	require.NoError(t, err)
	require.NoError(t, jobs[0].Fail(ctx, "repair", "why"))
	did(bulk.Unfail(ctx))
	did(waiting.Cancel(ctx))
}

// lostLock pops a job, and pops it again after lock expiry.
func lostLock(t testing.TB, c *qless.Client) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, c.Config().Set(ctx, "brief-heartbeat", time.Millisecond))
	queue := c.Queue("brief")
	_, err := queue.Put(ctx, "K", nil)
	require.NoError(t, err)
	for popped := 0; popped < 2; {
		jobs, err := queue.Pop(ctx, 1)
		require.NoError(t, err)
		popped += len(jobs)
	}
}

// errOf returns the error of a call that also returns a value.
func errOf[T any](_ T, err error) error { return err }

// completeTogether completes jobs in concurrent calls, which share a round trip.
func completeTogether(t testing.TB, c *qless.Client) {
	t.Helper()
	queue := c.Queue("together")
	const calls = 4
	_, err := queue.PutMany(t.Context(), slices.Repeat([]qless.JobSpec{{Klass: "K"}}, calls))
	require.NoError(t, err)
	jobs, err := queue.Pop(t.Context(), calls)
	require.NoError(t, err)
	var all sync.WaitGroup
	for _, job := range jobs {
		all.Go(func() {
			assert.Equal(t, []error{nil}, lease.New(c).Complete(t.Context(), job.Queue, job.JID))
		})
	}
	all.Wait()
}
