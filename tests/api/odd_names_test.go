package api

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/tests/repairs"
)

// oddNames are unusual, but valid as names of anything.
var oddNames = []string{
	" ", "a b", "a:b", ":", "é中😀", "a\nb\r\n", "a\x00b", "\x00", "%s%d%n", "*", "[a-z]?", "{tag}", "}{", `"quoted"`, `back\slash`,
	"a/b", "it's", "-work", "q-work", "null", "false", "0", "-1", "nan", "all", "\u2028", "\ufeff", "\ufffd", "<&>", "]]", "--",
	"..", "\t", strings.Repeat("long ", 2000), "$(x)", "`x`", "a\u0301",
}

// Jobs whose names are all odd go through their whole lives.
func TestOddNames(t *testing.T) {
	e := newEnv(t)
	for i, name := range oddNames {
		ctx := t.Context()
		other := oddNames[(i+1)%len(oddNames)]
		worker := e.As(name)
		q := worker.Queue(name)
		jid, err := q.Put(ctx, name, map[string]string{name: name}, qless.JID(name), qless.Tags{name, other})
		require.NoError(t, err, "%q", name)
		require.Equal(t, name, jid)

		jobs, err := q.Pop(ctx, 1)
		require.NoError(t, err, "%q", name)
		require.Equal(t, []string{name}, jids(jobs))
		job := jobs[0]
		require.Equal(t, name, job.Klass)
		require.Equal(t, name, job.Queue)
		require.Equal(t, name, job.Worker)
		require.Equal(t, qless.Tags{name, other}, job.Tags)
		require.Equal(t, name, job.History[0].Queue)
		require.Equal(t, name, job.History[1].Worker)
		var data map[string]string
		require.NoError(t, job.Unmarshal(&data))
		require.Equal(t, map[string]string{name: name}, data)

		require.NoError(t, job.Log(ctx, name, map[string]string{name: name}))
		require.NoError(t, errOf(job.Heartbeat(ctx)))
		require.NoError(t, job.Fail(ctx, name, name))
		failed := must(e.inspect().Failed(name).JIDs(ctx, inspect.Range{}))(t)
		require.Equal(t, inspect.Page[string]{Total: 1, Items: []string{name}}, failed)
		require.Equal(t, map[string]int{name: 1}, must(e.inspect().FailureGroups(ctx))(t))
		require.Equal(t, name, e.Read(name).Failure.Message)
		require.Equal(t, name, e.Read(name).History[2].What)

		require.Equal(t, 1, must(repairs.UnfailInto(ctx, e.Client, q.Name(), name, 1))(t))
		_, err = e.Queue(name).Put(ctx, "K", nil, qless.JID(name+" child"), qless.DependsOn{name})
		require.NoError(t, err)
		require.Equal(t, []string{name + " child"}, e.Read(name).Dependents)
		jobs = must(q.Pop(ctx, 1))(t)
		require.NoError(t, jobs[0].Complete(ctx))
		require.Equal(t, 1, e.Counts(name).Waiting, "%q", name)

		require.NoError(t, q.Pause(ctx))
		require.True(t, e.Counts(name).Paused)
		tagged := must(e.inspect().Tagged(name).JIDs(ctx, inspect.Range{}))(t)
		require.Contains(t, tagged.Items, name)
		_, err = q.Recur(ctx, name, name, time.Hour, qless.JID(name), qless.Tags{name})
		require.NoError(t, err)
		require.Equal(t, name, e.recurring(name).Queue)
		require.NoError(t, errOf(e.Do(ctx, "config.set", name, name)))
		value := must(e.Config().Get(ctx, name))(t)
		require.Equal(t, name, value)
		require.Equal(t, 2, e.stats(name, noon).Wait.Count, "%q", name)
	}

	queues := must(e.Queues(t.Context()))(t)
	for i, queue := range queues {
		require.Equal(t, oddNames[i], queue.Name)
	}
	require.Len(t, queues, len(oddNames))
	require.Len(t, must(e.inspect().Workers(t.Context()))(t), len(oddNames))
	settings := must(e.Config().All(t.Context()))(t)
	for _, name := range oddNames {
		require.Equal(t, name, settings[name])
	}
	completed := must(e.inspect().Completed().JIDs(t.Context(), inspect.Range{Limit: 100}))(t)
	require.ElementsMatch(t, oddNames, completed.Items)
}

// The key of such a job would be the key of another job's list.
func TestJIDsThatAreKeysOfOtherJobs(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("a"))
	job := e.Read(e.Put("q", qless.JID("b"), qless.DependsOn{"a"}))
	e.Unchanged(func() {
		for _, jid := range []string{"a-history", "a-dependents", "b-dependencies", "c-history", "-history"} {
			_, err := e.Queue("q").Put(t.Context(), "K", nil, qless.JID(jid))
			require.Equal(t, jid, requireCode(t, qless.ErrInvalid, err).JID)
			_, err = e.Queue("q").PutMany(t.Context(), []qless.JobSpec{spec(qless.JID(jid))})
			requireCode(t, qless.ErrInvalid, err)
		}
		requireCode(t, qless.ErrServer, errOf(e.Job(t.Context(), "a-history")))
		requireCode(t, qless.ErrInvalid, job.Depend(t.Context(), "a-dependents"))
	})
}
