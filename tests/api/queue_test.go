package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// fillQueue puts jobs of every state into a queue, each named after its state.
func (e *env) fillQueue(queue string) {
	e.T.Helper()
	e.Put(queue, qless.JID("stalled 1"))
	e.Put(queue, qless.JID("stalled 2"))
	e.Pops(queue, 2)
	e.Set(queue+"-heartbeat", 3*time.Hour)
	e.Put(queue, qless.JID("running"))
	e.Pop(queue)
	e.Clock.Advance(time.Hour)
	e.Put(queue, qless.JID("waiting 1"), qless.Priority(1))
	e.Put(queue, qless.JID("waiting 2"))
	e.Put(queue, qless.JID("scheduled 2"), qless.Delay(2*time.Hour))
	e.Put(queue, qless.JID("scheduled 1"), qless.Delay(time.Hour))
	e.Put(queue, qless.JID("depends 1"), qless.DependsOn{"running"})
	e.Put(queue, qless.JID("depends 2"), qless.DependsOn{"running"})
	_, err := e.Queue(queue).Recur(e.T.Context(), "K", nil, time.Hour, qless.JID("recurring"), qless.Offset(time.Hour))
	require.NoError(e.T, err)
}

func TestCountsByState(t *testing.T) {
	e := newEnv(t)
	e.fillQueue("q")
	want := qless.QueueCounts{Name: "q", Waiting: 2, Running: 1, Stalled: 2, Scheduled: 2, Depends: 2, Recurring: 1}
	require.Equal(t, want, e.Counts("q"))
	length := must(e.Do(t.Context(), "length", "q"))(t)
	require.EqualValues(t, 7, length, "locked, waiting and scheduled")
	require.Equal(t, qless.QueueCounts{Name: "unknown"}, e.Counts("unknown"))
	length = must(e.Do(t.Context(), "length", "unknown"))(t)
	require.Zero(t, length)
}

func TestListsOfAQueue(t *testing.T) {
	e := newEnv(t)
	e.fillQueue("q")
	q := e.Queue("q")
	for list, want := range map[inspect.List][]string{
		inspect.Waiting:   {"waiting 1", "waiting 2"},
		inspect.Running:   {"running"},
		inspect.Stalled:   {"stalled 1", "stalled 2"},
		inspect.Scheduled: {"scheduled 1", "scheduled 2"},
		inspect.Depends:   {"depends 1", "depends 2"},
		inspect.Recurring: {"recurring"},
	} {
		got, err := e.inspect().Queue(q.Name(), list).JIDs(t.Context(), inspect.Range{})
		require.NoError(t, err)
		require.Equal(t, want, got.Items, list)
		got, err = e.inspect().Queue(q.Name(), list).JIDs(t.Context(), inspect.Range{Offset: len(want)})
		require.NoError(t, err)
		require.Empty(t, got.Items, list)
	}
}

func TestQueuesAreListedInTheOrderInWhichTheyWereSeen(t *testing.T) {
	e := newEnv(t)
	queues := must(e.Queues(t.Context()))(t)
	require.Empty(t, queues)
	e.Put("b")
	e.Put("a")
	e.Put("b")
	require.NoError(t, errOf(e.Queue("r").Recur(t.Context(), "K", nil, time.Hour)))
	require.NoError(t, e.Pop("a").Next(t.Context(), "next"))

	queues = must(e.Queues(t.Context()))(t)
	require.Equal(t, []qless.QueueCounts{
		{Name: "b", Waiting: 2}, {Name: "a"}, {Name: "r", Recurring: 1}, {Name: "next", Waiting: 1},
	}, queues)
}

func TestForgetRefusesAQueueWithJobs(t *testing.T) {
	for state, fill := range map[string]func(e *env){
		"waiting":   func(e *env) { e.Put("q") },
		"running":   func(e *env) { e.Put("q"); e.Pop("q") },
		"stalled":   func(e *env) { e.Put("q"); e.Pop("q"); e.Clock.Advance(time.Hour) },
		"scheduled": func(e *env) { e.Put("q", qless.Delay(time.Hour)) },
		"depends":   func(e *env) { e.Put("q", qless.DependsOn{e.Put("others")}) },
		"limited": func(e *env) {
			e.limit("one", qless.LimitConfig{Concurrency: 1})
			e.Put("others", qless.Limits{"one"})
			e.Pop("others")
			e.Put("q", qless.Limits{"one"})
			require.Empty(e.T, e.Pops("q", 1))
		},
		"recurring": func(e *env) {
			require.NoError(e.T, errOf(e.Queue("q").Recur(e.T.Context(), "K", nil, time.Hour, qless.Offset(time.Hour))))
		},
	} {
		t.Run(state, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				fill(e)
				e.Unchanged(func() {
					err := e.ForgetQueue(t.Context(), "q")
					require.Equal(t, "Queue q has 1 job", requireCode(t, qless.ErrInvalid, err).Message)
				})
				e.asPHP("queue.forget|q") // other clients forget the queue, and keep its jobs
				for _, queue := range must(e.Queues(t.Context()))(t) {
					require.NotEqual(t, "q", queue.Name)
				}
			})
		})
	}
}

func TestForgetRemovesAnEmptyQueue(t *testing.T) {
	e := newEnv(t)
	e.Put("q")
	require.NoError(t, e.Pop("q").Complete(t.Context()))
	require.NoError(t, e.ForgetQueue(t.Context(), "q"))
	require.NoError(t, e.ForgetQueue(t.Context(), "q"))
	queues := must(e.Queues(t.Context()))(t)
	require.Empty(t, queues)
	e.Put("q")
	queues = must(e.Queues(t.Context()))(t)
	require.Len(t, queues, 1)
}

func TestDueJobsAreCountedAsWaiting(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("a"), qless.Delay(time.Minute))
	e.Clock.Advance(time.Minute)
	require.Equal(t, qless.QueueCounts{Name: "q", Waiting: 1}, e.Counts("q"))
	require.Equal(t, qless.StateWaiting, e.Read("a").State)

	e.Put("q2", qless.JID("b"), qless.Delay(time.Minute))
	e.Clock.Advance(time.Minute)
	scheduled, err := e.Do(t.Context(), "jobs", "scheduled", "q2") // like clients in other languages
	require.NoError(t, err)
	require.Empty(t, scheduled)
	require.Equal(t, qless.StateWaiting, e.Read("b").State)
}

func TestQueueNameIsKept(t *testing.T) {
	e := newEnv(t)
	require.Equal(t, "q", e.Queue("q").Name())
	require.Equal(t, "q", e.Counts("q").Name)
}
