package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/lease"
)

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
	jids := e.puts("q", specs...)
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
