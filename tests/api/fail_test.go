package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func TestFailKeepsAJobInItsGroup(t *testing.T) {
	e := newEnv(t)
	jid := e.put("q")
	job := e.pop("q")
	require.NoError(t, job.SetData("at the end"))
	require.NoError(t, job.Fail(t.Context(), "io error", "line 1\nline 2 \xff"))

	read := e.job(jid)
	require.Equal(t, qless.StateFailed, read.State)
	require.Equal(t, "q", read.Queue)
	require.Empty(t, read.Worker)
	require.Equal(t, `"at the end"`, string(read.Data))
	require.Equal(t, &qless.Failure{
		Group: "io error", Message: "line 1\nline 2 \uFFFD", When: noon.Local(), Worker: "w1",
	}, read.Failure)
	last := read.History[len(read.History)-1]
	require.Equal(t, qless.HistoryEntry{When: noon.Local(), What: "failed", Worker: "w1", Group: "io error"}, last)

	groups, err := e.Failed(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int{"io error": 1}, groups)
	require.Empty(t, e.pops("q", 1))
	require.Equal(t, qless.QueueCounts{Name: "q"}, e.counts("q"))
}

func TestFailedInGivesTheLatestFailuresFirst(t *testing.T) {
	e := newEnv(t)
	for i := range 30 {
		e.put("q", qless.JID(fmt.Sprint(i)))
		require.NoError(t, e.pop("q").Fail(t.Context(), "g", "m"))
	}
	page, err := e.FailedIn(t.Context(), "g", qless.Page{})
	require.NoError(t, err)
	require.Equal(t, 30, page.Total)
	require.Len(t, page.JIDs, 25)
	require.Equal(t, "29", page.JIDs[0])
	page, err = e.FailedIn(t.Context(), "g", qless.Page{Offset: 28, Count: 25})
	require.NoError(t, err)
	require.Equal(t, qless.JIDs{Total: 30, JIDs: []string{"1", "0"}}, page)
	page, err = e.FailedIn(t.Context(), "unknown", qless.Page{})
	require.NoError(t, err)
	require.Equal(t, qless.JIDs{}, page)
}

func TestNoFailureGroups(t *testing.T) {
	e := newEnv(t)
	groups, err := e.Failed(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]int{}, groups)
}

func TestUnfailMovesTheOldestFailures(t *testing.T) {
	e := newEnv(t)
	for i := range 5 {
		e.put("q", qless.JID(fmt.Sprint(i)), qless.Retries(2))
		job := e.pop("q")
		require.NoError(t, errOf(job.Retry(t.Context())))
		require.NoError(t, e.pop("q").Fail(t.Context(), "g", "m"))
	}
	moved, err := e.Queue("other").Unfail(t.Context(), "g", 2)
	require.NoError(t, err)
	require.Equal(t, 2, moved)
	page, err := e.FailedIn(t.Context(), "g", qless.Page{})
	require.NoError(t, err)
	require.Equal(t, []string{"4", "3", "2"}, page.JIDs)
	require.ElementsMatch(t, []string{"0", "1"}, jids(e.pops("other", 5)))
	require.Equal(t, 2, e.job("0").Remaining)

	moved, err = e.Queue("q").Unfail(t.Context(), "g", 25)
	require.NoError(t, err)
	require.Equal(t, 3, moved)
	groups, err := e.Failed(t.Context())
	require.NoError(t, err)
	require.Empty(t, groups)
	moved, err = e.Queue("q").Unfail(t.Context(), "g", 25)
	require.NoError(t, err)
	require.Zero(t, moved)
}

func TestRetryCostsARetry(t *testing.T) {
	e := newEnv(t)
	jid := e.put("q", qless.Retries(2), qless.Priority(1))
	job := e.pop("q")
	require.NoError(t, job.SetData("saved"))
	remaining, err := job.Retry(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, remaining)

	read := e.job(jid)
	require.Equal(t, qless.StateWaiting, read.State)
	require.Equal(t, 1, read.Remaining)
	require.Equal(t, `"saved"`, string(read.Data))
	require.Nil(t, read.Failure)
	require.Equal(t, jid, e.pop("q").JID)
}

func TestRetryAfterADelay(t *testing.T) {
	e := newEnv(t)
	jid := e.put("q")
	job := e.pop("q")
	require.NoError(t, errOf(job.Retry(t.Context(), qless.Delay(time.Minute))))
	require.Equal(t, qless.StateScheduled, e.job(jid).State)
	require.Empty(t, e.pops("q", 1))
	e.clock.Advance(time.Minute)
	require.Equal(t, jid, e.pop("q").JID)
}

func TestRetryRecordsWhy(t *testing.T) {
	e := newEnv(t)
	jid := e.put("q")
	job := e.pop("q")
	require.NoError(t, errOf(job.Retry(t.Context(), qless.Because("busy", "try later"))))
	require.Equal(t, &qless.Failure{Group: "busy", Message: "try later", When: noon.Local(), Worker: "w1"},
		e.job(jid).Failure)
	require.NoError(t, e.pop("q").Complete(t.Context()))
	require.Nil(t, e.job(jid).Failure, "completing clears it")
}

func TestTheLastRetryFailsTheJob(t *testing.T) {
	for name, c := range map[string]struct {
		options []qless.RetryOption
		group   string
		message string
		worker  string
	}{
		"in a group of the queue": {nil, "failed-retries-q", `Job exhausted retries in queue "q"`, ""},
		"in the group given":      {[]qless.RetryOption{qless.Because("busy", "m")}, "busy", "m", "w1"},
		"for the reason given":    {[]qless.RetryOption{qless.Because("", "m")}, "failed-retries-q", "m", "w1"},
		"in spite of a delay":     {[]qless.RetryOption{qless.Delay(time.Hour)}, "failed-retries-q", `Job exhausted retries in queue "q"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			jid := e.put("q", qless.Retries(0))
			job := e.pop("q")
			require.NoError(t, job.SetData("saved"))
			remaining, err := job.Retry(t.Context(), c.options...)
			require.NoError(t, err)
			require.Equal(t, -1, remaining)

			read := e.job(jid)
			require.Equal(t, qless.StateFailed, read.State)
			require.Equal(t, `"saved"`, string(read.Data))
			require.Equal(t, c.group, read.Failure.Group)
			require.Equal(t, c.message, read.Failure.Message)
			require.Equal(t, c.worker, read.Failure.Worker)
			require.WithinDuration(t, noon, read.Failure.When, time.Second)
			page, err := e.FailedIn(t.Context(), c.group, qless.Page{})
			require.NoError(t, err)
			require.Equal(t, []string{jid}, page.JIDs)
			require.Equal(t, qless.QueueCounts{Name: "q"}, e.counts("q"))
		})
	}
}
