package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/lease"
	"github.com/qless/qless-go/tests/repairs"
)

func TestCompleteEndsAJob(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q", qless.Retries(2))
	job := e.Pop("q")
	require.NoError(t, job.SetData(raw(`{"done": true}`)))
	require.NoError(t, job.Complete(t.Context()))

	read := e.Read(jid)
	require.Equal(t, qless.StateComplete, read.State)
	require.Empty(t, read.Queue)
	require.Empty(t, read.Worker)
	require.True(t, read.Expires.IsZero())
	require.Equal(t, 2, read.Remaining)
	require.Equal(t, `{"done": true}`, string(read.Data))
	require.Equal(t, []string{"put", "popped", "done"}, whats(read.History))
	require.Zero(t, e.Counts("q").Running)
	require.Empty(t, must(repairs.HeldBy(t.Context(), e.Client, "w1"))(t))
}

func TestACompletedJobCannotBeEndedAgain(t *testing.T) {
	e := newEnv(t)
	e.Put("q")
	job := e.Pop("q")
	require.NoError(t, job.Complete(t.Context()))
	e.Unchanged(func() {
		requireCode(t, qless.ErrNotRunning, job.Complete(t.Context()))
		requireCode(t, qless.ErrNotRunning, job.Next(t.Context(), "q"))
		requireCode(t, qless.ErrNotRunning, job.Fail(t.Context(), "g", "m"))
		requireCode(t, qless.ErrNotRunning, errOf(job.Retry(t.Context(), 0, "", "")))
		requireCode(t, qless.ErrNotRunning, errOf(job.Heartbeat(t.Context())))
		requireCode(t, qless.ErrNotRunning, repairs.TimeOut(t.Context(), e.Client, job.JID))
	})
}

func TestCompleteSendsAJobOn(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q", qless.Retries(2), qless.Priority(3))
	require.NoError(t, errOf(e.Pop("q").Retry(t.Context(), 0, "", "")))
	job := e.Pop("q")
	require.Equal(t, 1, job.Remaining)
	require.NoError(t, job.Next(t.Context(), "next"))

	next := e.Pop("next")
	require.Equal(t, jid, next.JID)
	require.Equal(t, 2, next.Remaining, "retries are per queue")
	require.Equal(t, 3, next.Priority)
	require.Equal(t, []string{"put", "popped", "popped", "done", "put", "popped"}, whats(next.History))
	require.Equal(t, "next", next.History[4].Queue)
}

func TestCompleteSendsAJobOnAfterADelay(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	require.NoError(t, e.Pop("q").Next(t.Context(), "q", qless.Delay(time.Minute)))
	require.Equal(t, qless.StateScheduled, e.Read(jid).State)
	require.Empty(t, e.Pops("q", 1))
	e.Clock.Advance(time.Minute)
	require.Equal(t, jid, e.Pop("q").JID)
}

func TestCompleteSendsAJobOnWhenOthersAreComplete(t *testing.T) {
	e := newEnv(t)
	e.Put("others", qless.JID("a"))
	jid := e.Put("q")
	require.NoError(t, e.Pop("q").Next(t.Context(), "next", qless.DependsOn{"a", "unknown"}))
	require.Equal(t, qless.StateDepends, e.Read(jid).State)
	require.Equal(t, []string{"a"}, e.Read(jid).Dependencies)
	require.Empty(t, e.Pops("next", 1))

	require.NoError(t, e.Pop("others").Complete(t.Context()))
	require.Equal(t, jid, e.Pop("next").JID)
}

// As in other languages, the delay of a job that moves to its next queue is ignored if the job has
// dependencies that are all complete.
func TestADelayAndDependenciesThatAreComplete(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("done"))
	require.NoError(t, e.Pop("q").Complete(t.Context()))
	both := []qless.NextOption{qless.Delay(time.Hour), qless.DependsOn{"done"}}

	e.Put("q", qless.JID("completed"))
	require.NoError(t, e.Pop("q").Next(t.Context(), "next", both...))
	require.Equal(t, qless.StateWaiting, e.Read("completed").State)
	e.Put("q", qless.JID("put"), qless.Delay(time.Hour), qless.DependsOn{"done"})
	require.Equal(t, qless.StateScheduled, e.Read("put").State)
}

func TestCompletedJobsAreListedTheLatestFirst(t *testing.T) {
	e := newEnv(t)
	for i := range 30 {
		e.Put("q", qless.JID(fmt.Sprint(i)))
		require.NoError(t, e.Pop("q").Complete(t.Context()))
	}
	page := must(e.inspect().Completed().JIDs(t.Context(), inspect.Range{}))(t)
	require.Len(t, page.Items, 25, "the default")
	require.Equal(t, "29", page.Items[0])
	page = must(e.inspect().Completed().JIDs(t.Context(), inspect.Range{Offset: 28, Limit: 5}))(t)
	require.Equal(t, []string{"1", "0"}, page.Items)
}

func TestCompletedJobsAreKeptForATime(t *testing.T) {
	e := newEnv(t)
	e.Set("jobs-history", time.Hour)
	e.Put("q", qless.JID("old"), qless.Tags{"a"})
	require.NoError(t, e.Pop("q").Complete(t.Context()))
	e.Clock.Advance(59 * time.Minute)
	e.Put("q", qless.JID("kept"))
	require.NoError(t, e.Pop("q").Complete(t.Context()))
	e.Clock.Advance(2 * time.Minute)
	e.Put("q", qless.JID("new"))
	require.NoError(t, e.Pop("q").Complete(t.Context()))

	completed := must(e.inspect().Completed().JIDs(t.Context(), inspect.Range{}))(t)
	require.Equal(t, []string{"new", "kept"}, completed.Items)
	require.Equal(t, "old", requireCode(t, qless.ErrNotFound, errOf(e.Job(t.Context(), "old"))).JID)
	tagged := must(e.inspect().Tagged("a").JIDs(t.Context(), inspect.Range{}))(t)
	require.Zero(t, tagged.Total, "a deleted job has no tags")
	for key := range e.Dump() {
		require.NotContains(t, key, "old")
	}
}

func TestCompletedJobsAreKeptUpToANumber(t *testing.T) {
	e := newEnv(t)
	for i := range 150 {
		e.Put("q", qless.JID(fmt.Sprint(i)))
	}
	for _, job := range e.Pops("q", 150) {
		require.NoError(t, job.Complete(t.Context()))
	}
	e.Set("jobs-history-count", 3)
	e.Put("q", qless.JID("x"))
	require.NoError(t, e.Pop("q").Complete(t.Context()))
	completed := must(e.inspect().Completed().JIDs(t.Context(), inspect.Range{Limit: 200}))(t)
	require.InDelta(t, 50, len(completed.Items), 1, "a call deletes a hundred or so at most")

	e.Put("q", qless.JID("y"))
	require.NoError(t, e.Pop("q").Complete(t.Context()))
	completed = must(e.inspect().Completed().JIDs(t.Context(), inspect.Range{Limit: 200}))(t)
	require.Equal(t, []string{"y", "x", "149"}, completed.Items)
}

func TestJobsReadsThoseThatExistInTheirOrder(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("a"))
	e.Put("q", qless.JID("b"))
	jobs := must(e.Jobs(t.Context(), "b", "unknown", "a", "b"))(t)
	require.Equal(t, []string{"b", "a", "b"}, jids(jobs))
	jobs = must(e.Jobs(t.Context()))(t)
	require.Empty(t, jobs)
	jobs = must(e.Jobs(t.Context(), "unknown"))(t)
	require.Empty(t, jobs)
}

func TestRefreshReadsAJobAnew(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	job := e.Read(jid)
	e.Pop("q")
	require.Equal(t, qless.StateWaiting, job.State)
	require.NoError(t, job.Refresh(t.Context()))
	require.Equal(t, qless.StateRunning, job.State)
	require.NoError(t, job.Complete(t.Context()), "a job that was read works as one that was popped")
	require.NoError(t, job.Refresh(t.Context()))
	require.Equal(t, qless.StateComplete, job.State)
}

func TestCancelDeletesAJobInAnyStateButComplete(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("running"))
	running := e.Pop("q")
	e.Put("q", qless.JID("bad"))
	require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
	e.Put("q", qless.JID("done"))
	require.NoError(t, e.Pop("q").Complete(t.Context()))
	e.Put("q", qless.JID("scheduled"), qless.Delay(time.Hour))
	e.Put("q", qless.JID("depends"), qless.DependsOn{"running"})
	e.Put("q", qless.JID("waiting"), qless.Tags{"a", "b"})
	all := []string{"running", "bad", "done", "scheduled", "depends", "waiting", "unknown"}

	require.NoError(t, e.Cancel(t.Context(), all...))
	require.Equal(t, []string{"done"}, jids(must(e.Jobs(t.Context(), all...))(t)))
	requireCode(t, qless.ErrNotFound, running.Complete(t.Context()))
	require.Equal(t, qless.QueueCounts{Name: "q"}, e.Counts("q"))
	for key := range e.Dump() {
		require.NotRegexp(t, "ql:(j:(running|bad|scheduled|depends|waiting)|t:|f|tags|w:)", key)
	}
	require.NoError(t, e.Cancel(t.Context(), all...), "twice is fine")
}

func TestLogAddsToTheHistory(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	job := e.Read(jid)
	e.Clock.Advance(time.Second)
	require.NoError(t, job.Log(t.Context(), "plain", nil))
	require.NoError(t, job.Log(t.Context(), `odd "\ é`+"\n", raw(`{"n": 12345678901234567890, "list": []}`)))
	require.NoError(t, job.Log(t.Context(), "all", map[string]string{"q": "x", "worker": "y", "group": "z"}))
	require.NoError(t, job.Log(t.Context(), "list", []int{1}))

	history := e.Read(jid).History
	require.Len(t, history, 5)
	require.Equal(t, qless.HistoryEntry{When: noon.Add(time.Second).Local(), What: "plain"}, history[1])
	require.Equal(t, `odd "\ é`+"\n", history[2].What)
	require.Len(t, history[2].Details, 2)
	require.NotEmpty(t, history[2].Details["n"])
	require.Equal(t, [3]string{"x", "y", "z"}, [3]string{history[3].Queue, history[3].Worker, history[3].Group})
	require.Equal(t, "list", history[4].What)
}

func TestManyJobsAreCompletedByTheirJIDs(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	const n = 450 // more than a script completes
	specs := make([]qless.JobSpec, n)
	for i := range specs {
		specs[i] = qless.JobSpec{Klass: "K", Data: raw(`{"a": 1}`)}
	}
	jids := must(e.Queue("q").PutMany(ctx, specs))(t)
	require.NoError(t, errOf(e.Queue("q").Pop(ctx, n)))
	for _, err := range lease.New(e.Client).Complete(ctx, "q", jids...) {
		require.NoError(t, err)
	}
	require.Zero(t, e.Counts("q").Running)
	for _, jid := range []string{jids[0], jids[n-1]} {
		job := e.Read(jid)
		require.Equal(t, qless.StateComplete, job.State)
		require.Equal(t, `{"a": 1}`, string(job.Data))
	}
	require.Empty(t, lease.New(e.Client).Complete(ctx, "q"))
}

func TestJobsThatCannotBeCompletedLeaveOthersAlone(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	mine := e.Put("q")
	e.Pop("q")
	waiting, elsewhere := e.Put("q"), e.Put("p")
	e.Pop("p")
	errs := lease.New(e.Client).Complete(ctx, "q", waiting, "missing", mine, elsewhere, "", mine)
	require.Len(t, errs, 6)
	for i, want := range map[int]error{
		0: qless.ErrNotRunning, 1: qless.ErrNotFound, 3: qless.ErrWrongQueue, 4: qless.ErrInvalid,
		5: qless.ErrNotRunning,
	} {
		require.ErrorIs(t, errs[i], want, i)
	}
	require.NoError(t, errs[2])
	require.Equal(t, qless.StateComplete, e.Read(mine).State)
	require.Equal(t, qless.StateWaiting, e.Read(waiting).State)
	require.Equal(t, qless.StateRunning, e.Read(elsewhere).State)

	errs = lease.New(e.As("w2")).Complete(ctx, "q", e.Pop("q").JID)
	require.ErrorIs(t, errs[0], qless.ErrLockLost)
}
