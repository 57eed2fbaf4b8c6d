package api

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// An observer records the calls that it receives.
type observer struct {
	mu    sync.Mutex
	calls []qless.Call
}

func (o *observer) observe(_ context.Context, call qless.Call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, call)
}

// take returns the calls since the last take.
func (o *observer) take() []qless.Call {
	o.mu.Lock()
	defer o.mu.Unlock()
	calls := o.calls
	o.calls = nil
	return calls
}

func TestTheObserverIsToldOfEachCall(t *testing.T) {
	var seen observer
	e := newEnv(t, qless.WithObserver(seen.observe))
	ctx, q := t.Context(), e.Queue("q")
	for _, c := range []struct {
		do   func() error
		want qless.Call
	}{
		{func() error { _, err := q.Put(ctx, "K", nil, qless.JID("a")); return err },
			qless.Call{Command: "put", Queue: "q", Klass: "K", JID: "a", Count: 1}},
		{func() error {
			_, err := q.PutMany(ctx, []qless.JobSpec{
				{Klass: "K", Options: []qless.PutOption{qless.Tags("t")}}, {Klass: "L"}, {Klass: "K"},
			})
			return err
		}, qless.Call{Command: "put.many", Queue: "q", Count: 3}},
		{func() error {
			_, err := q.PutMany(ctx, []qless.JobSpec{
				{Klass: "K", Options: []qless.PutOption{qless.JID("b")}},
			})
			return err
		}, qless.Call{Command: "put.many", Queue: "q", Klass: "K", JID: "b", Count: 1}},
		{func() error { _, err := q.Peek(ctx, 2); return err },
			qless.Call{Command: "peek", Queue: "q", Count: 2}},
		{func() error { _, err := q.Pop(ctx, 10); return err },
			qless.Call{Command: "pop", Queue: "q", Count: 5}},
		{func() error { _, err := q.Pop(ctx, 10); return err },
			qless.Call{Command: "pop", Queue: "q"}},
		{func() error { _, err := e.Job(ctx, "a"); return err },
			qless.Call{Command: "get", JID: "a", Count: 1}},
		{func() error { _, err := e.Jobs(ctx, "a", "b", "c"); return err },
			qless.Call{Command: "multiget", Count: 2}},
		{func() error { _, err := q.JIDs(ctx, qless.ListWaiting, qless.Range{}); return err },
			qless.Call{Command: "jobs", Queue: "q"}},
		{func() error { _, err := e.Completed(ctx, qless.Range{}); return err },
			qless.Call{Command: "jobs"}},
		{func() error { _, err := e.Queues(ctx); return err }, qless.Call{Command: "queues"}},
		{func() error { return e.Cancel(ctx, "x", "y") }, qless.Call{Command: "cancel", Count: 2}},
		{func() error { _, err := q.Unfail(ctx, "g", 5); return err },
			qless.Call{Command: "unfail", Queue: "q"}},
		{func() error { _, err := q.MaxConcurrency(ctx); return err },
			qless.Call{Command: "config.get"}},
		{func() error {
			events, err := e.Events(ctx)
			if err == nil {
				err = events.Close()
			}
			return err
		}, qless.Call{Command: "subscribe"}},
		{func() error {
			popped := e.job("a")
			seen.take()
			return popped.Complete(ctx)
		}, qless.Call{Command: "complete", Queue: "q", JID: "a", Count: 1}},
	} {
		seen.take()
		require.NoError(t, c.do())
		calls := seen.take()
		require.Len(t, calls, 1, c.want.Command)
		require.Positive(t, calls[0].Duration)
		calls[0].Duration = 0
		require.Equal(t, c.want, calls[0])
	}
}

func TestTheObserverIsToldOfErrors(t *testing.T) {
	var seen observer
	e := newEnv(t, qless.WithObserver(seen.observe))
	require.Error(t, e.Timeout(t.Context(), "nobody"))
	calls := seen.take()
	require.Len(t, calls, 1)
	requireCode(t, qless.ErrNotFound, calls[0].Err)
	require.Equal(t, "nobody", calls[0].JID)

	_, err := e.Queue("").Len(t.Context())
	require.Error(t, err)
	require.Empty(t, seen.take(), "nothing was sent")
}
