package api

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/repairs"
)

// hangs is the time after which a test that still waits fails.
const hangs = 20 * time.Second

// listen subscribes a client until the test ends.
func listen(t *testing.T, client *qless.Client) <-chan qless.Event {
	t.Helper()
	events, err := client.Events(t.Context())
	require.NoError(t, err)
	return events
}

// next waits for an event, and returns its public fields.
func next(t *testing.T, events <-chan qless.Event) qless.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()
	select {
	case event, open := <-events:
		require.True(t, open, "the subscription has ended")
		return qless.Event{
			Kind: event.Kind, Tracked: event.Tracked, JID: event.JID, Queue: event.Queue, To: event.To,
			Worker: event.Worker, Group: event.Group, Message: event.Message, Count: event.Count,
			Option: event.Option, Value: event.Value,
		}
	case <-ctx.Done():
		t.Fatal("no event came")
		return qless.Event{}
	}
}

// requireEvents requires that these events arrive next, in order.
func requireEvents(t *testing.T, events <-chan qless.Event, want ...qless.Event) {
	t.Helper()
	for i, event := range want {
		require.Equal(t, event, next(t, events), "event %d", i)
	}
}

// requireEnd requires that a subscription ends after its context.
func requireEnd(t *testing.T, events <-chan qless.Event) {
	t.Helper()
	late := time.After(hangs)
	for {
		select {
		case _, open := <-events:
			if !open {
				return
			}
		case <-late:
			t.Fatal("the subscription continues")
		}
	}
}

func TestEventsOfAnyJob(t *testing.T) {
	e := newEnv(t)
	e.Set("grace-period", 0)
	events := listen(t, e.Client)
	ctx := t.Context()

	e.Put("q", qless.JID("a"))
	requireEvents(t, events, qless.Event{Kind: qless.EventPut, JID: "a", Queue: "q"})
	job := e.Pop("q")
	require.NoError(t, errOf(job.Heartbeat(ctx)))
	require.NoError(t, errOf(job.Retry(ctx, 0, "", "")))
	job = e.Pop("q")
	require.NoError(t, job.Next(ctx, "next"))
	requireEvents(t, events, qless.Event{Kind: qless.EventAdvanced, JID: "a", Queue: "q", To: "next"})
	job = e.Pop("next")
	require.NoError(t, job.Complete(ctx))
	requireEvents(t, events, qless.Event{Kind: qless.EventCompleted, JID: "a", Queue: "next"})

	e.Put("q", qless.JID("b"), qless.Retries(0))
	require.NoError(t, repairs.TimeOut(ctx, e.Client, e.Pop("q").JID))
	job = e.Pop("q")
	require.NoError(t, job.Fail(ctx, "g", "m\n"))
	requireEvents(t, events,
		qless.Event{Kind: qless.EventPut, JID: "b", Queue: "q"},
		qless.Event{Kind: qless.EventLockLost, JID: "b", Worker: "w1"},
		qless.Event{Kind: qless.EventFailed, JID: "b", Worker: "w1", Group: "g", Message: "m\n"})

	_, err := repairs.UnfailInto(ctx, e.Client, "q", "g", 1)
	require.NoError(t, err)
	e.Pop("q")
	e.Clock.Advance(2 * time.Minute)
	require.Empty(t, e.Pops("q", 1))
	requireEvents(t, events,
		qless.Event{Kind: qless.EventUnfailed, JID: "b", Queue: "q", Group: "g", Count: 1},
		qless.Event{Kind: qless.EventLockLost, JID: "b", Worker: "w1"},
		qless.Event{Kind: qless.EventFailed, JID: "b", Worker: "w1", Group: "failed-retries-q", Message: `Job exhausted retries in queue "q"`})

	require.NoError(t, e.Cancel(ctx, "b", "unknown"))
	require.NoError(t, e.Config().Set(ctx, "heartbeat", 5))
	require.NoError(t, e.Config().Unset(ctx, "heartbeat"))
	requireEvents(t, events,
		qless.Event{Kind: qless.EventCanceled, JID: "b", Queue: "q"},
		qless.Event{Kind: qless.EventCanceled, JID: "unknown"},
		qless.Event{Kind: qless.EventConfigSet, Option: "heartbeat", Value: "5"},
		qless.Event{Kind: qless.EventConfigUnset, Option: "heartbeat"})

	e.Put("q", qless.JID("c"))
	e.Pop("q")
	require.NoError(t, e.Cancel(ctx, "c"))
	requireEvents(t, events,
		qless.Event{Kind: qless.EventPut, JID: "c", Queue: "q"},
		qless.Event{Kind: qless.EventCanceled, JID: "c", Queue: "q", Worker: "w1"})
}

func TestEventsOfTrackedJobs(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	events := listen(t, e.Client)
	ctx := t.Context()
	tracked := func(kinds ...qless.EventKind) {
		t.Helper()
		for _, kind := range kinds {
			event := next(t, events)
			for !event.Tracked { // skip the log events of the same job
				event = next(t, events)
			}
			require.Equal(t, qless.Event{Kind: kind, Tracked: true, JID: jid}, event)
		}
	}
	require.NoError(t, e.Read(jid).Track(ctx))
	tracked(qless.EventTracked)
	e.Put("q", qless.JID(jid))
	tracked(qless.EventPut)
	e.Pop("q")
	tracked(qless.EventPopped)
	e.Clock.Advance(2 * time.Minute)
	require.Empty(t, e.Pops("q", 1))
	tracked(qless.EventStalled)
	require.NoError(t, e.Read(jid).Fail(ctx, "g", "m"))
	tracked(qless.EventFailed)
	e.Put("q", qless.JID(jid))
	require.NoError(t, e.Pop("q").Complete(ctx))
	tracked(qless.EventPut, qless.EventPopped, qless.EventCompleted)
	e.Put("q", qless.JID(jid))
	require.NoError(t, e.Cancel(ctx, jid))
	tracked(qless.EventPut, qless.EventCanceled)
	e.Put("q", qless.JID(jid))
	require.NoError(t, e.Read(jid).Untrack(ctx))
	tracked(qless.EventPut, qless.EventUntracked)
}

func TestABrokenSubscriptionIsRestoredWithAGap(t *testing.T) {
	e, proxy, client := proxied(t)
	events := listen(t, client)
	for range 3 {
		e.Put("q", qless.JID("before"))
		require.Equal(t, "before", next(t, events).JID)
		proxy.CutAll()
		require.Equal(t, qless.Event{Kind: qless.EventGap}, next(t, events))
	}
	e.Put("q", qless.JID("after"))
	require.Equal(t, "after", next(t, events).JID)
}

func TestASubscriptionOutlivesItsServer(t *testing.T) {
	e := newEnv(t)
	var log bytes.Buffer
	client := e.NewClient(e.Redis, qless.ClientConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ctx, cancel := context.WithCancel(t.Context())
	events, err := client.Events(ctx)
	require.NoError(t, err)
	e.Server.Restart()
	require.Equal(t, qless.EventGap, next(t, events).Kind)
	e.Put("q", qless.JID("a"))
	require.Equal(t, "a", next(t, events).JID)
	cancel()
	requireEnd(t, events)
	require.Contains(t, log.String(), "the subscription to events broke")
}

func TestASubscriptionEndsWithoutAReader(t *testing.T) {
	e := newEnv(t)
	ctx, cancel := context.WithCancel(t.Context())
	events, err := e.Events(ctx)
	require.NoError(t, err)
	for range 1000 {
		e.Put("q")
	}
	cancel()
	requireEnd(t, events)
}

func TestTheContextEndsASubscription(t *testing.T) {
	e := newEnv(t)
	ctx, cancel := context.WithCancel(t.Context())
	events, err := e.Events(ctx)
	require.NoError(t, err)
	cancel()
	requireEnd(t, events)
	_, err = e.Events(ctx)
	requireCode(t, qless.ErrUnavailable, err)
	require.ErrorIs(t, err, context.Canceled)
}

func TestSubscriptionsThatCanNotBegin(t *testing.T) {
	e := newEnv(t)
	options := testkit.Options(e.Server.Addr())
	options.MaxRetries, options.DialerRetries = -1, 1
	rdb := redis.NewClient(options)
	defer rdb.Close()
	client := e.NewClient(rdb, qless.ClientConfig{})
	e.Server.Kill()
	_, err := client.Events(t.Context())
	requireCode(t, qless.ErrUnavailable, err)
}

func TestSubscriptionsLeaveNoGoroutines(t *testing.T) {
	server := testkit.Start(t)
	rdb := redis.NewClient(testkit.Options(server.Addr()))
	client, err := qless.New(rdb, nil)
	require.NoError(t, err)
	require.NoError(t, rdb.Ping(t.Context()).Err())
	before := goleak.IgnoreCurrent()
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		one, err := client.Events(ctx)
		require.NoError(t, err)
		two, err := client.Events(ctx)
		require.NoError(t, err)
		cancel()
		requireEnd(t, two)
		requireEnd(t, one)
	}
	goleak.VerifyNone(t, before)
	require.NoError(t, rdb.Close())
}

func TestMessagesOfOthersOnTheChannels(t *testing.T) {
	e := newEnv(t)
	events := listen(t, e.Client)
	for _, payload := range []string{"", "not JSON", "[]", "5", "null", `{"event":5,"jid":{},"queue":false}`, "\xff"} {
		require.NoError(t, e.Redis.Publish(t.Context(), "ql:log", payload).Err())
		require.NoError(t, e.Redis.Publish(t.Context(), "ql:put", payload).Err())
	}
	e.Put("q", qless.JID("a"))
	for {
		event := next(t, events)
		if event.JID == "a" {
			require.Equal(t, qless.Event{Kind: qless.EventPut, JID: "a", Queue: "q"}, event)
			return
		}
		require.Contains(t, []qless.EventKind{"", "5", qless.EventPut}, event.Kind)
	}
}
