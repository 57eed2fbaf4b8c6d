package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/repairs"
)

// everything calls every method once. Each call must succeed.
func everything(t *testing.T, e *env, before func()) {
	t.Helper()
	ctx := t.Context()
	q := e.Queue("q")
	var job *qless.Job
	var recurring *qless.RecurringJob
	pop := func() error {
		jobs, err := q.Pop(ctx, 1)
		if err == nil {
			job = jobs[0]
		}
		return err
	}
	put := func(options ...qless.PutOption) func() error {
		return func() error { return errOf(q.Put(ctx, "K", nil, options...)) }
	}
	for i, call := range []func() error{
		put(qless.JID("a"), qless.Tags{"t"}), put(qless.JID("b"), qless.DependsOn{"a"}), pop,
		func() error { return errOf(job.Heartbeat(ctx)) },
		func() error { return job.Log(ctx, "m", nil) },
		func() error { return job.Tag(ctx, "u") },
		func() error { return job.Untag(ctx, "u") },
		func() error { return job.SetPriority(ctx, 1) },
		func() error { return job.Track(ctx) },
		func() error { return job.Refresh(ctx) },
		func() error { return errOf(job.Retry(ctx, 0, "", "")) }, pop,
		func() error { return job.Release(ctx, 0) }, pop,
		func() error { return job.Fail(ctx, "g", "m") },
		func() error { return job.Unfail(ctx) }, pop,
		func() error { return job.Fail(ctx, "g", "m") },
		func() error { return errOf(repairs.Unfail(ctx, e.Client, "g", 1)) }, pop,
		func() error { return repairs.TimeOut(ctx, e.Client, job.JID) }, pop,
		func() error { return job.Fail(ctx, "g", "m") },
		func() error { return errOf(repairs.UnfailInto(ctx, e.Client, q.Name(), "g", 1)) }, pop,
		func() error { return job.Move(ctx, "q") },
		func() error { return errOf(q.Peek(ctx, 1)) }, pop,
		func() error { return must(e.Job(ctx, "b"))(t).Depend(ctx, "a") },
		func() error { return must(e.Job(ctx, "b"))(t).UndependAll(ctx) },
		func() error { return job.Complete(ctx) },
		func() error { return e.Cancel(ctx, "b") },
		func() error { return errOf(e.Jobs(ctx, "a", "b")) },
		func() error { return errOf(e.inspect().Completed().JIDs(ctx, inspect.Range{})) },
		func() error { return errOf(e.inspect().FailureGroups(ctx)) },
		func() error { return errOf(e.inspect().Tracked().JIDs(ctx, inspect.Range{})) },
		func() error { return errOf(e.inspect().Tags(ctx, inspect.Range{})) },
		func() error { return errOf(q.Counts(ctx)) },
		func() error { return errOf(q.Settings(ctx)) },
		func() error { return errOf(q.Stats(ctx, noon)) },
		func() error { return errOf(e.inspect().Workers(ctx)) },
		func() error { return e.inspect().ForgetWorkers(ctx, "w1") },
		func() error { return q.Pause(ctx) },
		func() error { return q.Resume(ctx) },
		func() error { return e.ForgetQueue(ctx, "q") },
		func() error { return e.Config().Set(ctx, "heartbeat", 5) },
		func() error { return errOf(e.Config().All(ctx)) },
		func() error { return e.Config().Unset(ctx, "heartbeat") },
		func() error { return errOf(q.Recur(ctx, "K", nil, time.Hour, qless.JID("r"))) },
		func() (err error) { recurring, err = e.RecurringJob(ctx, "r"); return err },
		func() error { recurring.Klass = "K2"; return recurring.Update(ctx) },
		func() error { return recurring.Cancel(ctx) },
	} {
		before()
		require.NoError(t, call(), "call %d", i)
	}
}

func TestAServerThatForgotTheScriptsIsGivenThem(t *testing.T) {
	e := newEnv(t)
	everything(t, e, func() { require.NoError(t, e.Redis.ScriptFlush(t.Context()).Err()) })
}

func TestARestartedServerIsGivenTheScripts(t *testing.T) {
	e := newEnvOn(t, testkit.Start(t, "--appendonly", "yes"))
	jid := e.Put("q")
	e.Server.Restart()
	require.Equal(t, jid, e.Pop("q").JID)
	e.Server.Restart()
	require.NoError(t, e.Read(jid).Complete(t.Context()))
}

func TestErrorsOfAScriptThatWasForgotten(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, e.Redis.ScriptFlush(t.Context()).Err())
	requireCode(t, qless.ErrNotFound, repairs.TimeOut(t.Context(), e.Client, "unknown"))
	require.NoError(t, e.Redis.ScriptFlush(t.Context()).Err())
	requireCode(t, qless.ErrNotFound, errOf(e.Job(t.Context(), "unknown")))
}
