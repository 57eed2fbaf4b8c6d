package api

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/tests/repairs"
)

// result returns the result of a job that has ended.
func (e *env) result(jid string) qless.Result {
	e.T.Helper()
	return must(e.Result(e.T.Context(), jid))(e.T)
}

// popWith pops the next job of q and sets its result.
func (e *env) popWith(result any) *qless.Job {
	e.T.Helper()
	job := e.Pop("q")
	require.NoError(e.T, job.SetResult(result))
	return job
}

func TestAResultIsStoredWithTheEndOfAJob(t *testing.T) {
	for name, c := range map[string]struct {
		retries int
		end     func(job *qless.Job, ctx context.Context) error
		state   qless.State
		group   string
	}{
		"complete": {end: (*qless.Job).Complete, state: qless.StateComplete},
		"failed": {
			end:   func(job *qless.Job, ctx context.Context) error { return job.Fail(ctx, "g", "m") },
			state: qless.StateFailed, group: "g",
		},
		"out of retries": {
			end:   func(job *qless.Job, ctx context.Context) error { return errOf(job.Retry(ctx, 0, "", "")) },
			state: qless.StateFailed, group: "failed-retries-q",
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				jid := e.Put("q", qless.Retries(0))
				job := e.popWith("first")
				require.NoError(t, job.SetResult(map[string]int{"sum": 7}))
				require.NoError(t, job.SetData("with data"))
				require.NoError(t, c.end(job, t.Context()))
				result := e.result(jid)
				require.Equal(t, c.state, result.State)
				require.Equal(t, `{"sum":7}`, string(result.Data))
				var value struct{ Sum int }
				require.NoError(t, result.Unmarshal(&value))
				require.Equal(t, 7, value.Sum)
				if c.group == "" {
					require.Nil(t, result.Failure)
				} else {
					require.Equal(t, c.group, result.Failure.Group)
				}
				require.Equal(t, `"with data"`, string(e.Read(jid).Data))
			})
		})
	}
}

func TestAJobWithoutAResultHasTheStateOfItsEnd(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		jid := e.Put("q")
		require.NoError(t, e.Pop("q").Complete(t.Context()))
		result := e.result(jid)
		require.Equal(t, qless.StateComplete, result.State)
		require.Nil(t, result.Data)
		requireCode(t, qless.ErrInvalid, result.Unmarshal(new(int)))

		jid = e.Put("q")
		require.NoError(t, e.popWith(nil).Complete(t.Context()))
		result = e.result(jid)
		require.Equal(t, "null", string(result.Data))
		result.Data = raw(`"text"`)
		requireCode(t, qless.ErrInvalid, result.Unmarshal(new(int)))
	})
}

func TestJobsWithoutAnEndHaveNoResult(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		ctx := t.Context()
		unfinished := func(jid string) {
			t.Helper()
			requireCode(t, qless.ErrUnfinished, errOf(e.Result(ctx, jid)))
		}
		requireCode(t, qless.ErrNotFound, errOf(e.Result(ctx, "unknown")))
		for _, bad := range []string{"", "j-history", "\xff"} {
			requireCode(t, qless.ErrInvalid, errOf(e.Result(ctx, bad)))
		}
		jid := e.Put("q", qless.Retries(9))
		unfinished(jid)
		job := e.popWith(1)
		unfinished(jid)
		require.NoError(t, errOf(job.Retry(ctx, 0, "", "")))
		unfinished(jid)
		require.NoError(t, e.popWith(2).Release(ctx, 0))
		unfinished(jid)
		require.NoError(t, repairs.TimeOut(ctx, e.Client, e.popWith(3).JID))
		unfinished(jid)
		require.NoError(t, e.Pop("q").Complete(ctx))
		require.Nil(t, e.result(jid).Data, "results of earlier runs are dropped")
	})
}

func TestAResultThatIsNoJSONIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		jid := e.Put("q")
		job := e.popWith("good")
		deep := strings.Repeat("[", 2000) + strings.Repeat("]", 2000)
		for _, bad := range []any{raw("{"), []byte("x"), make(chan int), raw(deep)} {
			requireCode(t, qless.ErrInvalid, job.SetResult(bad))
		}
		require.NoError(t, job.Complete(t.Context()))
		require.Equal(t, `"good"`, string(e.result(jid).Data))
	})
}

func TestADamagedResultCountsAsNone(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		jid := e.Put("q")
		require.NoError(t, e.popWith(1).Complete(t.Context()))
		for _, damaged := range []string{"", "x", "complete|", "failed|0|1", "complete|0|1"} {
			require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:"+jid, "x:result", damaged).Err())
			require.Nil(t, e.result(jid).Data, damaged)
		}
	})
}

// Storing a result takes no commands beyond those for ending a job.
func TestAResultCostsNoCommand(t *testing.T) {
	e := newEnv(t)
	cost := func(set bool, end func(job *qless.Job) error) int {
		e.Put("q", qless.JID("j"), qless.Retries(0))
		job := e.Pop("q")
		if set {
			require.NoError(t, job.SetResult(1))
		}
		return len(e.Server.Commands(t, func() { require.NoError(t, end(job)) }))
	}
	for name, end := range map[string]func(job *qless.Job) error{
		"complete": func(job *qless.Job) error { return job.Complete(t.Context()) },
		"fail":     func(job *qless.Job) error { return job.Fail(t.Context(), "g", "m") },
		"retry":    func(job *qless.Job) error { return errOf(job.Retry(t.Context(), 0, "", "")) },
	} {
		cost(false, end)
		require.Equal(t, cost(false, end), cost(true, end), name)
	}
	commands := e.Server.Commands(t, func() { e.result("j") })
	require.Len(t, commands, 1)
}
