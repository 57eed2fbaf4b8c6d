package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/tests/repairs"
)

func TestFailKeepsAJobInItsGroup(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	job := e.Pop("q")
	require.NoError(t, job.SetData("at the end"))
	require.NoError(t, job.Fail(t.Context(), "io error", "line 1\nline 2 \xff"))

	read := e.Read(jid)
	require.Equal(t, qless.StateFailed, read.State)
	require.Equal(t, "q", read.Queue)
	require.Empty(t, read.Worker)
	require.Equal(t, `"at the end"`, string(read.Data))
	require.Equal(t, &qless.Failure{
		Group: "io error", Message: "line 1\nline 2 \uFFFD", When: noon.Local(), Worker: "w1",
	}, read.Failure)
	last := read.History[len(read.History)-1]
	require.Equal(t, qless.HistoryEntry{When: noon.Local(), What: "failed", Worker: "w1", Group: "io error"}, last)

	require.Equal(t, map[string]int{"io error": 1}, must(e.inspect().FailureGroups(t.Context()))(t))
	require.Empty(t, e.Pops("q", 1))
	require.Equal(t, qless.QueueCounts{Name: "q"}, e.Counts("q"))
}

func TestFailedInGivesTheLatestFailuresFirst(t *testing.T) {
	e := newEnv(t)
	for i := range 30 {
		e.Put("q", qless.JID(fmt.Sprint(i)))
		require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
	}
	page := must(e.inspect().Failed("g").JIDs(t.Context(), inspect.Range{}))(t)
	require.Equal(t, 30, page.Total)
	require.Len(t, page.Items, 25)
	require.Equal(t, "29", page.Items[0])
	page = must(e.inspect().Failed("g").JIDs(t.Context(), inspect.Range{Offset: 28, Limit: 25}))(t)
	require.Equal(t, inspect.Page[string]{Total: 30, Items: []string{"1", "0"}}, page)
	page = must(e.inspect().Failed("unknown").JIDs(t.Context(), inspect.Range{}))(t)
	require.Equal(t, inspect.Page[string]{Items: []string{}}, page)
}

func TestNoFailureGroups(t *testing.T) {
	e := newEnv(t)
	require.Equal(t, map[string]int{}, must(e.inspect().FailureGroups(t.Context()))(t))
}

func TestUnfailMovesTheOldestFailures(t *testing.T) {
	e := newEnv(t)
	for i := range 5 {
		e.Put("q", qless.JID(fmt.Sprint(i)), qless.Retries(2))
		require.NoError(t, errOf(e.Pop("q").Retry(t.Context(), 0, "", "")))
		require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
	}
	moved := must(repairs.UnfailInto(t.Context(), e.Client, "other", "g", 2))(t)
	require.Equal(t, 2, moved)
	page := must(e.inspect().Failed("g").JIDs(t.Context(), inspect.Range{}))(t)
	require.Equal(t, []string{"4", "3", "2"}, page.Items)
	require.ElementsMatch(t, []string{"0", "1"}, jids(e.Pops("other", 5)))
	require.Equal(t, 2, e.Read("0").Remaining)

	moved = must(repairs.UnfailInto(t.Context(), e.Client, "q", "g", 25))(t)
	require.Equal(t, 3, moved)
	require.Empty(t, must(e.inspect().FailureGroups(t.Context()))(t))
	moved = must(repairs.UnfailInto(t.Context(), e.Client, "q", "g", 25))(t)
	require.Zero(t, moved)
}

func TestRetryCostsARetry(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q", qless.Retries(2), qless.Priority(1))
	job := e.Pop("q")
	require.NoError(t, job.SetData("saved"))
	require.Equal(t, 1, must(job.Retry(t.Context(), 0, "", ""))(t))

	read := e.Read(jid)
	require.Equal(t, qless.StateWaiting, read.State)
	require.Equal(t, 1, read.Remaining)
	require.Equal(t, `"saved"`, string(read.Data))
	require.Nil(t, read.Failure)
	require.Equal(t, jid, e.Pop("q").JID)
}

func TestRetryAfterADelay(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	require.NoError(t, errOf(e.Pop("q").Retry(t.Context(), time.Minute, "", "")))
	require.Equal(t, qless.StateScheduled, e.Read(jid).State)
	require.Empty(t, e.Pops("q", 1))
	e.Clock.Advance(time.Minute)
	require.Equal(t, jid, e.Pop("q").JID)
}

func TestRetryRecordsWhy(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	require.NoError(t, errOf(e.Pop("q").Retry(t.Context(), 0, "busy", "try later")))
	require.Equal(t, &qless.Failure{Group: "busy", Message: "try later", When: noon.Local(), Worker: "w1"},
		e.Read(jid).Failure)
	require.NoError(t, e.Pop("q").Complete(t.Context()))
	require.Nil(t, e.Read(jid).Failure, "completing clears it")
}

func TestTheLastRetryFailsTheJob(t *testing.T) {
	for name, c := range map[string]struct {
		delay          time.Duration
		reason         [2]string
		group, message string
		worker         string
	}{
		"in a group of the queue": {0, [2]string{}, "failed-retries-q", `Job exhausted retries in queue "q"`, ""},
		"in the group given":      {0, [2]string{"busy", "m"}, "busy", "m", "w1"},
		"for the reason given":    {0, [2]string{"", "m"}, "failed-retries-q", "m", "w1"},
		"in spite of a delay":     {time.Hour, [2]string{}, "failed-retries-q", `Job exhausted retries in queue "q"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			jid := e.Put("q", qless.Retries(0))
			job := e.Pop("q")
			require.NoError(t, job.SetData("saved"))
			require.Equal(t, -1, must(job.Retry(t.Context(), c.delay, c.reason[0], c.reason[1]))(t))

			read := e.Read(jid)
			require.Equal(t, qless.StateFailed, read.State)
			require.Equal(t, `"saved"`, string(read.Data))
			require.Equal(t, c.group, read.Failure.Group)
			require.Equal(t, c.message, read.Failure.Message)
			require.Equal(t, c.worker, read.Failure.Worker)
			require.WithinDuration(t, noon, read.Failure.When, time.Second)
			page := must(e.inspect().Failed(c.group).JIDs(t.Context(), inspect.Range{}))(t)
			require.Equal(t, []string{jid}, page.Items)
			require.Equal(t, qless.QueueCounts{Name: "q"}, e.Counts("q"))
		})
	}
}
