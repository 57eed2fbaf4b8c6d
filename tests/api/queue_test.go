package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// fillQueue puts jobs of every state into a queue, each named after its state.
func (e *env) fillQueue(queue string) {
	e.t.Helper()
	e.put(queue, qless.JID("stalled 1"))
	e.put(queue, qless.JID("stalled 2"))
	e.pops(queue, 2)
	e.set(queue+"-heartbeat", 3*time.Hour)
	e.put(queue, qless.JID("running"))
	e.pop(queue)
	e.clock.Advance(time.Hour)
	e.put(queue, qless.JID("waiting 1"), qless.Priority(1))
	e.put(queue, qless.JID("waiting 2"))
	e.put(queue, qless.JID("scheduled 2"), qless.Delay(2*time.Hour))
	e.put(queue, qless.JID("scheduled 1"), qless.Delay(time.Hour))
	e.put(queue, qless.JID("depends 1"), qless.DependsOn("running"))
	e.put(queue, qless.JID("depends 2"), qless.DependsOn("running"))
	_, err := e.Queue(queue).Recur(e.t.Context(), "K", nil, time.Hour, qless.JID("recurring"), qless.Offset(time.Hour))
	require.NoError(e.t, err)
}

func TestCountsByState(t *testing.T) {
	e := newEnv(t)
	e.fillQueue("q")
	want := qless.QueueCounts{Name: "q", Waiting: 2, Running: 1, Stalled: 2, Scheduled: 2, Depends: 2, Recurring: 1}
	require.Equal(t, want, e.counts("q"))
	length, err := e.Queue("q").Len(t.Context())
	require.NoError(t, err)
	require.Equal(t, 7, length, "locked, waiting and scheduled")
	require.Equal(t, qless.QueueCounts{Name: "unknown"}, e.counts("unknown"))
	length, err = e.Queue("unknown").Len(t.Context())
	require.NoError(t, err)
	require.Zero(t, length)
}

func TestJobsByState(t *testing.T) {
	e := newEnv(t)
	e.fillQueue("q")
	q := e.Queue("q")
	for state, want := range map[qless.State][]string{
		qless.StateWaiting:   {"waiting 1", "waiting 2"},
		qless.StateRunning:   {"running"},
		qless.StateTimedOut:  {"stalled 1", "stalled 2"},
		qless.StateScheduled: {"scheduled 1", "scheduled 2"},
		qless.StateDepends:   {"depends 1", "depends 2"},
	} {
		got, err := q.Jobs(t.Context(), state, qless.Page{})
		require.NoError(t, err)
		require.Equal(t, want, got, state)
		got, err = q.Jobs(t.Context(), state, qless.Page{Offset: len(want)})
		require.NoError(t, err)
		require.Empty(t, got, state)
	}
	recurring, err := q.Recurring(t.Context(), qless.Page{})
	require.NoError(t, err)
	require.Equal(t, []string{"recurring"}, recurring)
}

func TestPagesOfJobs(t *testing.T) {
	e := newEnv(t)
	for i := range 30 {
		e.put("q", qless.JID(fmt.Sprint(i)))
	}
	for _, c := range []struct {
		page  qless.Page
		first string
		count int
	}{
		{qless.Page{}, "0", 25},
		{qless.Page{Offset: 3, Count: 2}, "3", 2},
		{qless.Page{Offset: 25}, "25", 5},
		{qless.Page{Count: 1000}, "0", 30},
	} {
		got, err := e.Queue("q").Jobs(t.Context(), qless.StateWaiting, c.page)
		require.NoError(t, err)
		require.Len(t, got, c.count)
		require.Equal(t, c.first, got[0])
	}
}

func TestStatesThatAQueueHasNoListOf(t *testing.T) {
	e := newEnv(t)
	for _, state := range []qless.State{qless.StateComplete, qless.StateFailed, "recur", "recurring", "", "nonsense"} {
		_, err := e.Queue("q").Jobs(t.Context(), state, qless.Page{})
		requireCode(t, qless.ErrInvalid, err)
	}
}

func TestQueuesAreListedInTheOrderInWhichTheyWereSeen(t *testing.T) {
	e := newEnv(t)
	queues, err := e.Queues(t.Context())
	require.NoError(t, err)
	require.Empty(t, queues)
	e.put("b")
	e.put("a")
	e.put("b")
	_, err = e.Queue("r").Recur(t.Context(), "K", nil, time.Hour)
	require.NoError(t, err)
	require.NoError(t, e.pop("a").Next(t.Context(), "next"))

	queues, err = e.Queues(t.Context())
	require.NoError(t, err)
	require.Equal(t, []qless.QueueCounts{
		{Name: "b", Waiting: 2}, {Name: "a"}, {Name: "r", Recurring: 1}, {Name: "next", Waiting: 1},
	}, queues)
}

func TestForgetKeepsTheJobs(t *testing.T) {
	e := newEnv(t)
	e.put("q")
	require.NoError(t, e.Queue("q").Forget(t.Context()))
	require.NoError(t, e.Queue("q").Forget(t.Context()))
	queues, err := e.Queues(t.Context())
	require.NoError(t, err)
	require.Empty(t, queues)
	e.pop("q")
	e.put("q")
	queues, err = e.Queues(t.Context())
	require.NoError(t, err)
	require.Len(t, queues, 1)
}

func TestDueJobsAreCountedAsWaiting(t *testing.T) {
	e := newEnv(t)
	e.put("q", qless.JID("a"), qless.Delay(time.Minute))
	e.clock.Advance(time.Minute)
	require.Equal(t, qless.QueueCounts{Name: "q", Waiting: 1}, e.counts("q"))
	require.Equal(t, qless.StateWaiting, e.job("a").State)

	e.put("q2", qless.JID("b"), qless.Delay(time.Minute))
	e.clock.Advance(time.Minute)
	scheduled, err := e.Queue("q2").Jobs(t.Context(), qless.StateScheduled, qless.Page{})
	require.NoError(t, err)
	require.Empty(t, scheduled)
	require.Equal(t, qless.StateWaiting, e.job("b").State)
}

func TestQueueNameIsKept(t *testing.T) {
	e := newEnv(t)
	require.Equal(t, "q", e.Queue("q").Name())
	require.Equal(t, "q", e.counts("q").Name)
}
