package tour

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// Client uses every method of the API but the worker.
func Client(t testing.TB, c *qless.Client) {
	t.Helper()
	ctx := t.Context()
	do := func(err error) { t.Helper(); require.NoError(t, err) }
	events, err := c.Events(ctx)
	do(err)
	defer func() { do(events.Close()) }()

	do(c.Config().Set(ctx, qless.ConfigGracePeriod, 0))
	do(c.Config().Set(ctx, "odd-max-concurrency", 5))
	require.Equal(t, qless.EventConfigSet, soon(ctx, t, events).Kind)
	do(c.Config().Unset(ctx, "odd-max-concurrency"))

	queue := c.Queue("tour")
	first, err := queue.Put(ctx, "K", nil, qless.Tags("red"), qless.Priority(3))
	do(err)
	second, err := queue.Put(ctx, "K", nil, qless.DependsOn(first))
	do(err)
	more, err := queue.PutMany(ctx, []qless.JobSpec{
		{Klass: "K", Options: []qless.PutOption{qless.Tags("red")}},
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
	do(errOf(job.Heartbeat(ctx)))
	do(job.Next(ctx, "tour"))
	job = pop()
	do(job.Release(ctx, 0))
	job = pop()
	do(errOf(job.Retry(ctx, qless.Because("tour-group", "why"))))
	do(pop().Fail(ctx, "tour-group", "why"))
	moved, err := queue.Unfail(ctx, "tour-group", 10)
	do(err)
	require.Equal(t, 1, moved)
	job = pop()
	do(job.Fail(ctx, "tour-group", "why"))
	do(job.Unfail(ctx))
	do(pop().Fail(ctx, "tour-group", "why"))
	moved, err = c.Unfail(ctx, "tour-group", 10)
	do(err)
	require.Equal(t, 1, moved)
	do(pop().Timeout(ctx))
	do(pop().Complete(ctx))
	do(waiting.Untrack(ctx))
	do(waiting.Cancel(ctx))

	jid, err := queue.Recur(ctx, "K", nil, time.Hour, qless.Tags("red"))
	do(err)
	do(pop().Complete(ctx)) // or the child of that
	recurring, err := c.RecurringJob(ctx, jid)
	do(err)
	do(recurring.SetPriority(ctx, 4))
	do(recurring.Tag(ctx, "blue"))
	do(recurring.Untag(ctx, "blue"))
	do(recurring.Move(ctx, "elsewhere"))
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
	do(c.Withdraw(ctx, unwanted))
	t.Cleanup(func() { _ = c.Close() }) // which ends the subscription of the waits

	batch, err := c.NewBatch(ctx, "batches", "K", nil, qless.OnFailureRun)
	do(err)
	members, err := batch.Add(ctx, "batches", []qless.JobSpec{{Klass: "K"}, {Klass: "K"}})
	do(err)
	jobs, err = c.Queue("batches").Pop(ctx, 1)
	do(err)
	do(jobs[0].Complete(ctx))
	do(batch.Commit(ctx))
	do(errOf(batch.Status(ctx)))
	do(errOf(batch.Pending(ctx, qless.Range{})))
	do(errOf(c.Results(ctx, jobs[0].JID)))
	require.Contains(t, members, jobs[0].JID)
	do(batch.Cancel(ctx))

	do(queue.Pause(ctx))
	do(queue.Unpause(ctx))
	_, err = queue.Put(ctx, "K", nil, qless.Unique("tour"), qless.Fair("tour"))
	do(err)
	holder, err := c.Holder(ctx, "tour")
	do(err)
	for range 2 { // the second follows the first, which is running by then
		do(errOf(queue.Put(ctx, "K", nil, qless.Unique("tour").Replace(), qless.Priority(100))))
		pop()
	}
	follower, err := c.Holder(ctx, "tour")
	do(err)
	do(c.Cancel(ctx, follower))
	do(c.Cancel(ctx, holder))
	_, err = queue.Put(ctx, "K", nil, qless.TTL(time.Millisecond), qless.KeepFor(time.Hour))
	do(err)
	_, err = c.Sweep(ctx)
	do(err)
	do(c.Queue("elsewhere").Forget(ctx))
	lostLock(t, c)
	do(c.Deregister(ctx, c.WorkerName()))
}

// lostLock pops a job, and again when its lock has ended.
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
