package qless_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/redistest"
)

// everything calls every method once, each of which must succeed.
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
		return func() error { _, err := q.Put(ctx, "K", nil, options...); return err }
	}
	for i, call := range []func() error{
		put(qless.JID("a"), qless.Tags("t")), put(qless.JID("b"), qless.DependsOn("a")), pop,
		func() error { return errOf(job.Heartbeat(ctx)) },
		func() error { return job.Log(ctx, "m", nil) },
		func() error { return job.Tag(ctx, "u") },
		func() error { return job.Untag(ctx, "u") },
		func() error { return job.SetPriority(ctx, 1) },
		func() error { return job.Track(ctx) },
		func() error { return job.Refresh(ctx) },
		func() error { return errOf(job.Retry(ctx)) }, pop,
		func() error { return job.Timeout(ctx) }, pop,
		func() error { return job.Fail(ctx, "g", "m") },
		func() error { _, err := q.Unfail(ctx, "g", 1); return err }, pop,
		func() error { return job.Move(ctx, "q") },
		func() error { _, err := q.Peek(ctx, 1); return err }, pop,
		func() error { job, err := e.Job(ctx, "b"); require.NoError(t, err); return job.Depend(ctx, "a") },
		func() error { job, err := e.Job(ctx, "b"); require.NoError(t, err); return job.UndependAll(ctx) },
		func() error { return job.Complete(ctx) },
		func() error { return e.Cancel(ctx, "b") },
		func() error { _, err := e.Jobs(ctx, "a", "b"); return err },
		func() error { _, err := e.Completed(ctx, qless.Page{}); return err },
		func() error { _, err := e.Failed(ctx); return err },
		func() error { _, err := e.Tracked(ctx); return err },
		func() error { _, err := e.Tags(ctx, qless.Page{}); return err },
		func() error { _, err := q.Counts(ctx); return err },
		func() error { _, err := q.Len(ctx); return err },
		func() error { _, err := q.Stats(ctx, noon); return err },
		func() error { _, err := e.Workers(ctx); return err },
		func() error { return e.Deregister(ctx, "w1") },
		func() error { return q.Pause(ctx) },
		func() error { return q.Unpause(ctx) },
		func() error { return q.Forget(ctx) },
		func() error { return e.Config().Set(ctx, "heartbeat", 5) },
		func() error { _, err := e.Config().All(ctx); return err },
		func() error { return e.Config().Unset(ctx, "heartbeat") },
		func() error { _, err := q.Recur(ctx, "K", nil, time.Hour, qless.JID("r")); return err },
		func() (err error) { recurring, err = e.RecurringJob(ctx, "r"); return err },
		func() error { return recurring.Tag(ctx, "t") },
		func() error { return recurring.Untag(ctx, "t") },
		func() error { return recurring.SetKlass(ctx, "K2") },
		func() error { return recurring.Cancel(ctx) },
	} {
		before()
		require.NoError(t, call(), "call %d", i)
	}
}

func TestAServerThatForgotTheScriptsIsGivenThem(t *testing.T) {
	e := newEnv(t)
	everything(t, e, func() { require.NoError(t, e.rdb.ScriptFlush(t.Context()).Err()) })
}

func TestARestartedServerIsGivenTheScripts(t *testing.T) {
	e := newEnvOn(t, redistest.Start(t, "--appendonly", "yes"))
	jid := e.put("q")
	e.server.Restart()
	require.Equal(t, jid, e.pop("q").JID)
	e.server.Restart()
	require.NoError(t, e.job(jid).Complete(t.Context()))
}

func TestErrorsOfAScriptThatWasForgotten(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, e.rdb.ScriptFlush(t.Context()).Err())
	requireCode(t, qless.ErrNotFound, e.Timeout(t.Context(), "unknown"))
	require.NoError(t, e.rdb.ScriptFlush(t.Context()).Err())
	_, err := e.Job(t.Context(), "unknown")
	requireCode(t, qless.ErrNotFound, err)
}

// lines are commands for a pipeline, with what each replies.
var lines = []struct {
	command string
	args    []any
	reply   any
}{
	{"put", []any{"w1", "q", "a", "K", "{}", "0"}, "a"},
	{"put", []any{"w1", "q", "b", "K", "{}", "0"}, "b"},
	{"length", []any{"q"}, int64(2)},
	{"recur.get", []any{"unknown"}, nil},
	{"put", []any{"w1", "q", "c", "K", "{}", "0"}, "c"},
	{"length", []any{"q"}, int64(3)},
	{"config.get", []any{"application"}, "qless"},
}

// TestAPipelineWhoseScriptsTheServerDoesNotKnow has the first, some or all scripts unknown.
func TestAPipelineWhoseScriptsTheServerDoesNotKnow(t *testing.T) {
	for _, known := range [][]string{
		{"put", "length", "recur.get", "config.get"}, {"length", "recur.get", "config.get"}, {"put", "recur.get"},
		{"put", "length", "recur.get"}, {"config.get"}, {},
	} {
		t.Run(fmt.Sprint(known), func(t *testing.T) {
			e := newEnv(t)
			for _, command := range known {
				require.NoError(t, e.rdb.ScriptLoad(t.Context(), qless.ScriptText(command)).Err())
			}
			pipeline := e.Pipeline()
			for _, line := range lines {
				pipeline.Add(line.command, line.args...)
			}
			commands := e.server.Commands(t, func() {
				replies, errs := pipeline.Exec(t.Context())
				for i, line := range lines {
					require.NoError(t, errs[i])
					if line.command != "length" || len(known) == 4 {
						require.Equal(t, line.reply, replies[i], "the reply of call %d", i)
					}
				}
			})
			require.Equal(t, 3, count(commands, "rpush"), "each put ran once")
			require.Equal(t, 1, count(commands, "hget"), "config.get ran once")
			require.Equal(t, []string{"a", "b", "c"}, jids(e.pops("q", 5)))
		})
	}
}

// count returns how often a list has an item.
func count(list []string, item string) int {
	n := 0
	for _, other := range list {
		if other == item {
			n++
		}
	}
	return n
}

func TestErrorsInAPipelineStayWithTheirCommands(t *testing.T) {
	e := newEnv(t)
	pipeline := e.Pipeline()
	pipeline.Add("length")
	pipeline.Add("length", "q")
	pipeline.Add("timeout", "unknown")
	pipeline.Add("put", "w1", "q", "a", "K", "{}", "0")
	replies, errs := pipeline.Exec(t.Context())
	require.Error(t, errs[0])
	require.NoError(t, errs[1])
	require.Equal(t, int64(0), replies[1])
	require.ErrorIs(t, qless.Wrap("timeout", "", errs[2]), qless.ErrNotFound)
	require.NoError(t, errs[3])
	require.Equal(t, "a", replies[3])

	replies, errs = e.Pipeline().Exec(t.Context())
	require.Empty(t, replies)
	require.Empty(t, errs)
}

// With one slot in the queue, a reserve that overtakes an outcome finds nothing.
func TestAWorkerWhoseServerForgotTheScriptsTellsOutcomesBeforeItAsks(t *testing.T) {
	for _, when := range []string{"before its start", "idle", "busy"} {
		t.Run(when, func(t *testing.T) {
			e := newLiveEnv(t)
			e.set("q-max-concurrency", 1)
			forget := func(now string) {
				if now == when {
					require.NoError(t, e.rdb.ScriptFlush(t.Context()).Err())
				}
			}
			forget("before its start")
			w := e.worker(qless.WorkerConfig{Concurrency: 1})
			handler, running, end := hold()
			w.Handle("K", handler)
			w.start()
			forget("idle")
			first := e.put("q")
			soon(t, "a job", running)
			e.put("q")
			forget("busy")
			asked := w.count(of("reserve"))
			end <- nil
			soon(t, "the next job", running)
			require.Equal(t, told{"complete", "complete"}, w.outcome(first))
			require.Equal(t, asked+1, w.count(of("reserve")))
		})
	}
}
