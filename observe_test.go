package qless_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// An observer keeps the calls that it is told of.
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
			_, err := q.PutMany(ctx, []qless.NewJob{
				{Klass: "K", Options: []qless.PutOption{qless.Tags("t")}}, {Klass: "L"}, {Klass: "K"},
			})
			return err
		}, qless.Call{Command: "put.many", Queue: "q", Count: 3}},
		{func() error {
			_, err := q.PutMany(ctx, []qless.NewJob{
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

func TestTheObserverIsToldOfAWorkersExchanges(t *testing.T) {
	var seen observer
	e := newLiveEnv(t)
	client := e.client(e.rdb, qless.WithClock(nil), qless.WithObserver(seen.observe))
	worker := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"q"}, PollInterval: time.Hour})
	worker.HandleFunc("K", func(context.Context, *qless.Job) error { return nil })
	require.NoError(t, worker.Start(t.Context()))
	e.put("q", qless.JID("a"))
	until(t, "the job is complete", func() bool { return e.job("a").State == qless.StateComplete })
	require.NoError(t, worker.Stop(t.Context()))
	reserved, finished := 0, []qless.Call{}
	for _, call := range seen.take() {
		switch call.Command {
		case "reserve":
			require.NoError(t, call.Err)
			reserved += call.Count
		case "finish":
			call.Duration = 0
			finished = append(finished, call)
		}
	}
	require.Equal(t, 1, reserved)
	require.Equal(t, []qless.Call{{Command: "finish", Queue: "q", JID: "a", Count: 1}}, finished)
}

// A client without an observer is as cheap as one of before there were any.
func TestNoObserverCostsNothing(t *testing.T) {
	client := offline(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	args := []any{"q"}
	without := testing.AllocsPerRun(100, func() { _, _ = client.Send(ctx, "length", "", args) })
	with := testing.AllocsPerRun(100, func() { _, _ = client.Run(ctx, "length", "", args...) })
	require.LessOrEqual(t, with, without)
}
