package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/repairs"
)

// many is more arguments than a server's Lua can pass in one call.
const many = 8_500

// newLargeEnv returns an env that gives the server time for long scripts.
func newLargeEnv(t *testing.T) *env {
	t.Helper()
	e := newEnvOn(t, testkit.Start(t, "--lua-time-limit", "60000"))
	e.Redis = e.Redis.WithTimeout(patience)
	e.Client = e.NewClient(e.Redis, qless.ClientConfig{})
	return e
}

// putMany puts many jobs into a queue, through a recurring job that is behind, and returns their
// jids.
func (e *env) putMany(queue string) []string {
	e.T.Helper()
	_, err := e.Queue(queue).Recur(e.T.Context(), "K", nil, time.Second, qless.JID(queue))
	require.NoError(e.T, err)
	e.Clock.Advance((many - 1) * time.Second)
	e.run("peek", queue, many)
	require.Equal(e.T, many, e.Counts(queue).Waiting)
	require.NoError(e.T, e.recurring(queue).Cancel(e.T.Context()))
	all := make([]string, many)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%d", queue, i+1)
	}
	return all
}

// runMany pops many jobs without reading them.
func (e *env) runMany(queue string) {
	e.T.Helper()
	e.run("pop", queue, "w1", many)
	require.Equal(e.T, qless.QueueCounts{Name: queue, Running: many}, e.Counts(queue))
}

// finishAll ends many running jobs in the same way.
func (e *env) finishAll(queue, action string, jids []string, args ...any) {
	e.T.Helper()
	for part := range slices.Chunk(jids, 500) {
		line := []any{"w1"}
		for _, jid := range part {
			line = append(line, action, jid, queue, "", len(args))
			line = append(line, args...)
		}
		require.NotContains(e.T, fmt.Sprint(e.run("finish", line...)), "!")
	}
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

func TestAMegabyteOfData(t *testing.T) {
	e := newLargeEnv(t)
	data := `{"text": "` + strings.Repeat("é\\n", 1<<18) + `"}`
	require.Greater(t, len(data), 1<<20)
	jid := must(e.Queue("q").Put(t.Context(), "K", raw(data)))(t)
	job := e.Pop("q")
	require.True(t, data == string(job.Data))
	require.NoError(t, errOf(job.Heartbeat(t.Context())))
	require.NoError(t, errOf(job.Retry(t.Context(), 0, "g", data)))
	require.NoError(t, e.Pop("q").Complete(t.Context()))
	require.True(t, data == string(e.Read(jid).Data))
}

func TestManyTags(t *testing.T) {
	e := newLargeEnv(t)
	tags := make([]string, many)
	for i := range tags {
		tags[i] = fmt.Sprint("tag", i)
	}
	jid := e.Put("q", qless.Tags(tags))
	require.Equal(t, qless.Tags(tags), e.Read(jid).Tags)
	job := e.Pop("q")
	require.Equal(t, qless.Tags(tags), job.Tags)
	require.NoError(t, job.Untag(t.Context(), tags[1:]...))
	require.NoError(t, job.Tag(t.Context(), tags...))
	require.Equal(t, qless.Tags(tags), e.Read(jid).Tags)
	require.NoError(t, job.Next(t.Context(), "q"))
	require.NoError(t, e.Cancel(t.Context(), jid))
	require.NotContains(t, e.Dump(), "ql:tags")
}

func TestManyDependencies(t *testing.T) {
	e := newLargeEnv(t)
	all := e.putMany("deps")
	e.Put("q", qless.JID("j"), qless.DependsOn(all))
	require.Equal(t, sorted(all), sorted(e.Read("j").Dependencies))

	e.runMany("deps")
	e.finishAll("deps", "complete", all[1:])
	require.Equal(t, all[:1], e.Read("j").Dependencies)
	require.Empty(t, e.Pops("q", 1))
	e.finishAll("deps", "complete", all[:1])
	require.Equal(t, "j", e.Pop("q").JID)
}

func TestManyDependents(t *testing.T) {
	e := newLargeEnv(t)
	e.Put("q", qless.JID("j"))
	all := e.putMany("children")
	e.runMany("children")
	e.finishAll("children", "complete", all, "next", "children", "depends", `["j"]`)
	job := e.Pop("q")
	require.Equal(t, sorted(all), sorted(job.Dependents))
	require.Equal(t, many, e.Counts("children").Depends)
	require.NoError(t, job.Complete(t.Context()))
	for range many / 500 {
		e.sweep()
	}
	require.Equal(t, many, e.Counts("children").Waiting)
}

func TestManyJobsAtOnce(t *testing.T) {
	e := newLargeEnv(t)
	e.Set("grace-period", 0)
	all := e.putMany("q")
	require.Equal(t, all, jids(e.Pops("q", many)))
	require.Equal(t, many, e.Counts("q").Running)
	require.Equal(t, many, e.stats("q", e.Clock.Now()).Wait.Count)
	read := must(e.Jobs(t.Context(), all...))(t)
	require.Equal(t, all, jids(read))
	running := must(e.inspect().Queue("q", inspect.Running).JIDs(t.Context(), inspect.Range{Limit: many}))(t)
	require.Len(t, running.Items, many)

	e.Clock.Advance(2 * time.Minute)
	require.Equal(t, many, e.Counts("q").Stalled)
	e.runMany("q")
	require.Equal(t, many, e.stats("q", e.Clock.Now()).Retries)
	for some := range slices.Chunk(all, 500) {
		require.NoError(t, repairs.TimeOut(t.Context(), e.Client, some...))
	}
	e.runMany("q")

	e.finishAll("q", "retry", all, "delay", 60)
	require.Equal(t, many, e.Counts("q").Scheduled)
	e.Clock.Advance(2 * time.Minute)
	e.runMany("q")

	e.finishAll("q", "fail", all, "group", "g", "message", "m")
	page := must(e.inspect().Failed("g").JIDs(t.Context(), inspect.Range{Limit: many}))(t)
	require.Len(t, page.Items, many)
	require.Equal(t, many, must(repairs.UnfailInto(t.Context(), e.Client, "other", "g", many))(t))
	require.Equal(t, many, e.Counts("other").Waiting)

	require.Equal(t, many, must(e.inspect().JIDs(all...).Cancel(t.Context()))(t).Changed)
	require.Zero(t, e.Counts("other").Waiting)
	for key := range e.Dump() {
		require.NotContains(t, key, "ql:j:")
	}
}

func TestManyQueuesAndWorkers(t *testing.T) {
	e := newLargeEnv(t)
	const few = 1500
	for i := range few {
		name := fmt.Sprintf("%04d", i)
		e.run("put", name, name, name, "K", "{}", "0")
		e.run("pop", name, name, "1")
	}
	require.Len(t, must(e.Queues(t.Context()))(t), few)
	workers := must(e.inspect().Workers(t.Context()))(t)
	require.Len(t, workers, few)
	e.Clock.Advance(48 * time.Hour)
	for range 2 {
		workers = must(e.inspect().Workers(t.Context()))(t)
	}
	require.Empty(t, workers, "they are forgotten by the thousand")
}
