package api

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/tests/repairs"
)

func TestHeartbeatRenewsALock(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	job := e.Pop("q")
	e.Clock.Advance(50 * time.Second)
	require.NoError(t, job.SetData("half done"))
	expires := must(job.Heartbeat(t.Context()))(t)
	require.WithinDuration(t, noon.Add(110*time.Second), expires, time.Second)

	e.Clock.Advance(50 * time.Second)
	require.Empty(t, e.Pops("q", 1))
	read := e.Read(jid)
	require.Equal(t, `"half done"`, string(read.Data))
	require.WithinDuration(t, noon.Add(110*time.Second), read.Expires, time.Millisecond)
	running := must(e.inspect().Queue("q", inspect.Running).JIDs(t.Context(), inspect.Range{}))(t)
	require.Equal(t, []string{jid}, running.Items)
	require.NoError(t, job.Complete(t.Context()))
}

func TestALostLockIsHandedOutAfterTheGracePeriod(t *testing.T) {
	e := newEnv(t)
	w2 := e.As("w2").Queue("q")
	jid := e.Put("q", qless.Retries(3))
	job := e.Pop("q")

	e.Clock.Advance(61 * time.Second)
	require.Equal(t, 1, e.Counts("q").Stalled)
	jobs := must(w2.Pop(t.Context(), 1))(t)
	require.Empty(t, jobs, "the worker is warned first")
	require.Equal(t, 3, e.Read(jid).Remaining)
	require.Equal(t, []string{"put", "popped", "timed-out"}, whats(e.Read(jid).History))

	e.Clock.Advance(9 * time.Second)
	jobs = must(w2.Pop(t.Context(), 1))(t)
	require.Empty(t, jobs, "the grace period lasts 10 s")

	e.Clock.Advance(2 * time.Second)
	jobs = must(w2.Pop(t.Context(), 1))(t)
	require.Len(t, jobs, 1)
	require.Equal(t, jid, jobs[0].JID)
	require.Equal(t, 2, jobs[0].Remaining)
	require.Equal(t, "w2", jobs[0].Worker)

	e.Unchanged(func() {
		for _, err := range []error{
			job.Complete(t.Context()), errOf(job.Heartbeat(t.Context())), job.Fail(t.Context(), "g", "m"), errOf(job.Retry(t.Context(), 0, "", "")),
		} {
			require.Equal(t, jid, requireCode(t, qless.ErrLockLost, err).JID)
		}
	})
	require.NoError(t, jobs[0].Complete(t.Context()))
}

func TestAWorkerMayAnswerInTheGracePeriod(t *testing.T) {
	e := newEnv(t)
	e.Put("q")
	job := e.Pop("q")
	e.Clock.Advance(61 * time.Second)
	require.Empty(t, e.Pops("q", 1))
	require.NoError(t, errOf(job.Heartbeat(t.Context())))
	e.Clock.Advance(59 * time.Second)
	require.Empty(t, e.Pops("q", 1))

	e.Clock.Advance(2 * time.Second)
	require.Empty(t, e.Pops("q", 1), "there is a new grace period")
	e.Clock.Advance(11 * time.Second)
	again := e.Pop("q")
	require.Equal(t, 4, again.Remaining)
	require.NoError(t, again.Complete(t.Context()))
}

func TestWithoutAGracePeriodALostLockIsHandedOutAtOnce(t *testing.T) {
	for _, grace := range []string{"0", "-1"} {
		e := newEnv(t)
		require.NoError(t, errOf(e.Do(t.Context(), "config.set", "grace-period", grace)))
		jid := e.Put("q")
		e.Pop("q")
		e.Clock.Advance(61 * time.Second)
		job := e.Pop("q")
		require.Equal(t, jid, job.JID)
		require.Equal(t, 4, job.Remaining)
	}
}

func TestLostJobsArePoppedBeforeAnyPriority(t *testing.T) {
	e := newEnv(t)
	e.Set("grace-period", 0)
	lost := e.Put("q", qless.Priority(-5))
	e.Pop("q")
	e.Put("q", qless.Priority(100))
	e.Clock.Advance(61 * time.Second)
	require.Equal(t, lost, e.Pop("q").JID)
}

func TestAJobLostTooOftenFails(t *testing.T) {
	e := newEnv(t)
	e.Set("grace-period", 0)
	jid := e.Put("q", qless.Retries(1))
	for range 2 {
		require.Equal(t, jid, e.Pop("q").JID)
		e.Clock.Advance(61 * time.Second)
	}
	require.Empty(t, e.Pops("q", 1))

	job := e.Read(jid)
	require.Equal(t, qless.StateFailed, job.State)
	require.Equal(t, -1, job.Remaining)
	require.Empty(t, job.Worker)
	require.Equal(t, "failed-retries-q", job.Failure.Group)
	require.Equal(t, `Job exhausted retries in queue "q"`, job.Failure.Message)
	page := must(e.inspect().Failed("failed-retries-q").JIDs(t.Context(), inspect.Range{}))(t)
	require.Equal(t, []string{jid}, page.Items)
	require.Equal(t, qless.QueueCounts{Name: "q"}, e.Counts("q"))
}

func TestTimeoutTakesAJobFromItsWorker(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q", qless.Priority(-5))
	job := e.Pop("q")
	e.Put("q", qless.Priority(100))
	require.NoError(t, repairs.TimeOut(t.Context(), e.Client, job.JID))

	read := e.Read(jid)
	require.Equal(t, qless.StateTimedOut, read.State)
	require.True(t, read.Expires.IsZero())
	require.Equal(t, "w1", read.Worker)
	require.Equal(t, 5, read.Remaining)
	requireCode(t, qless.ErrNotRunning, errOf(job.Heartbeat(t.Context())))
	requireCode(t, qless.ErrNotRunning, repairs.TimeOut(t.Context(), e.Client, job.JID))
	require.Equal(t, jid, e.Pop("q").JID, "it is the next to be popped")
}

func TestTimeoutOfSeveralIsAllOrNothing(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("a"))
	e.Put("q", qless.JID("b"))
	e.Pops("q", 2)
	e.Put("q", qless.JID("waiting"))
	e.Unchanged(func() {
		requireCode(t, qless.ErrNotRunning, repairs.TimeOut(t.Context(), e.Client, "a", "waiting"))
		requireCode(t, qless.ErrNotFound, repairs.TimeOut(t.Context(), e.Client, "a", "unknown"))
	})
	require.NoError(t, repairs.TimeOut(t.Context(), e.Client, "a", "b"))
	require.Equal(t, 3, e.Counts("q").Waiting)
}

func TestWorkersReportWhatTheyHold(t *testing.T) {
	e := newEnv(t)
	e.Set("slow-heartbeat", time.Hour)
	short, long := e.Put("q"), e.Put("slow")
	e.Pop("q")
	e.Pop("slow")
	e.Clock.Advance(time.Second)
	require.NoError(t, errOf(e.As("w2").Queue("q").Pop(t.Context(), 1)))

	workers := must(e.inspect().Workers(t.Context()))(t)
	require.Equal(t, []inspect.WorkerStatus{{Name: "w2"}, {Name: "w1", Jobs: 2}}, workers)
	e.Clock.Advance(2 * time.Minute)
	workers = must(e.inspect().Workers(t.Context()))(t)
	require.Equal(t, []inspect.WorkerStatus{{Name: "w2"}, {Name: "w1", Jobs: 1, Stalled: 1}}, workers)
	held := must(repairs.HeldBy(t.Context(), e.Client, "w1"))(t)
	require.Equal(t, []string{short, long}, held)
	held = must(repairs.HeldBy(t.Context(), e.Client, "unknown"))(t)
	require.Empty(t, held)
}

func TestDeregisterTakesWorkersOffTheList(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	job := e.Pop("q")
	require.NoError(t, e.inspect().ForgetWorkers(t.Context(), "w1", "unknown"))
	workers := must(e.inspect().Workers(t.Context()))(t)
	require.Empty(t, workers)
	held := must(repairs.HeldBy(t.Context(), e.Client, "w1"))(t)
	require.Equal(t, []string{jid}, held, "the lock stays")
	require.NoError(t, errOf(job.Heartbeat(t.Context())))
	workers = must(e.inspect().Workers(t.Context()))(t)
	require.Len(t, workers, 1, "a heartbeat registers the worker again")
}

func TestSilentWorkersAreForgotten(t *testing.T) {
	e := newEnv(t)
	e.Pops("q", 1)
	e.Clock.Advance(23 * time.Hour)
	workers := must(e.inspect().Workers(t.Context()))(t)
	require.Len(t, workers, 1)
	e.Clock.Advance(2 * time.Hour)
	workers = must(e.inspect().Workers(t.Context()))(t)
	require.Empty(t, workers)

	e.Set("max-worker-age", time.Minute)
	e.Pops("q", 1)
	e.Clock.Advance(61 * time.Second)
	workers = must(e.inspect().Workers(t.Context()))(t)
	require.Empty(t, workers)
}

// A client that has lost a job may have taken it again in another goroutine. The first run does not
// renew, change or end the second.
func TestARunThatIsLostTouchesNoLaterOne(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, job *qless.Job) error{
		"heartbeat": func(ctx context.Context, job *qless.Job) error {
			return errOf(job.Heartbeat(ctx))
		},
		"complete": func(ctx context.Context, job *qless.Job) error { return job.Complete(ctx) },
		"complete with a result": func(ctx context.Context, job *qless.Job) error {
			if err := job.SetResult(1); err != nil {
				return err
			}
			return job.Complete(ctx)
		},
		"next": func(ctx context.Context, job *qless.Job) error { return job.Next(ctx, "other") },
		"fail": func(ctx context.Context, job *qless.Job) error { return job.Fail(ctx, "group", "message") },
		"fail with a result": func(ctx context.Context, job *qless.Job) error {
			if err := job.SetResult(1); err != nil {
				return err
			}
			return job.Fail(ctx, "group", "message")
		},
		"release": func(ctx context.Context, job *qless.Job) error { return job.Release(ctx, 0) },
		"retry": func(ctx context.Context, job *qless.Job) error {
			return errOf(job.Retry(ctx, 0, "", ""))
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.Put("q")
			first := e.Pop("q")
			require.NoError(t, repairs.TimeOut(t.Context(), e.Client, first.JID))
			e.Clock.Advance(time.Second)
			second := e.Pop("q")
			require.Equal(t, first.JID, second.JID)
			e.Unchanged(func() { requireCode(t, qless.ErrLockLost, call(t.Context(), first)) })
			require.NoError(t, call(t.Context(), second))
		})
	}
}
