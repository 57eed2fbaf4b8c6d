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
	"github.com/qless/qless-go/events"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/repairs"
)

// hangs is the time after which a test that still waits fails.
const hangs = 20 * time.Second

// listen subscribes a client until the test ends.
func listen(t *testing.T, client *qless.Client) <-chan events.Event {
	t.Helper()
	return must(events.Listen(t.Context(), client))(t)
}

// next waits for an event, and returns its public fields.
func next(t *testing.T, heard <-chan events.Event) events.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()
	select {
	case event, open := <-heard:
		require.True(t, open, "the subscription has ended")
		return events.Event{
			Kind: event.Kind, Tracked: event.Tracked, JID: event.JID, Queue: event.Queue, To: event.To,
			Worker: event.Worker, Group: event.Group, Message: event.Message, Count: event.Count,
			Option: event.Option, Value: event.Value,
		}
	case <-ctx.Done():
		t.Fatal("no event came")
		return events.Event{}
	}
}

// requireEvents requires that these events arrive next, in order.
func requireEvents(t *testing.T, heard <-chan events.Event, want ...events.Event) {
	t.Helper()
	for i, event := range want {
		require.Equal(t, event, next(t, heard), "event %d", i)
	}
}

// requireEnd requires that a subscription ends after its context.
func requireEnd(t *testing.T, heard <-chan events.Event) {
	t.Helper()
	late := time.After(hangs)
	for {
		select {
		case _, open := <-heard:
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
	heard := listen(t, e.Client)
	ctx := t.Context()

	e.Put("q", qless.JID("a"))
	requireEvents(t, heard, events.Event{Kind: events.Put, JID: "a", Queue: "q"})
	job := e.Pop("q")
	require.NoError(t, errOf(job.Heartbeat(ctx)))
	require.NoError(t, errOf(job.Retry(ctx, 0, "", "")))
	job = e.Pop("q")
	require.NoError(t, job.Next(ctx, "next"))
	requireEvents(t, heard, events.Event{Kind: events.Advanced, JID: "a", Queue: "q", To: "next"})
	job = e.Pop("next")
	require.NoError(t, job.Complete(ctx))
	requireEvents(t, heard, events.Event{Kind: events.Completed, JID: "a", Queue: "next"})

	e.Put("q", qless.JID("b"), qless.Retries(0))
	require.NoError(t, repairs.TimeOut(ctx, e.Client, e.Pop("q").JID))
	job = e.Pop("q")
	require.NoError(t, job.Fail(ctx, "g", "m\n"))
	requireEvents(t, heard,
		events.Event{Kind: events.Put, JID: "b", Queue: "q"},
		events.Event{Kind: events.LockLost, JID: "b", Worker: "w1"},
		events.Event{Kind: events.Failed, JID: "b", Worker: "w1", Group: "g", Message: "m\n"})

	require.NoError(t, errOf(repairs.UnfailInto(ctx, e.Client, "q", "g", 1)))
	e.Pop("q")
	e.Clock.Advance(2 * time.Minute)
	require.Empty(t, e.Pops("q", 1))
	requireEvents(t, heard,
		events.Event{Kind: events.Unfailed, JID: "b", Queue: "q", Group: "g", Count: 1},
		events.Event{Kind: events.LockLost, JID: "b", Worker: "w1"},
		events.Event{Kind: events.Failed, JID: "b", Worker: "w1", Group: "failed-retries-q", Message: `Job exhausted retries in queue "q"`})

	require.NoError(t, e.Cancel(ctx, "b", "unknown"))
	require.NoError(t, e.Config().Set(ctx, "heartbeat", 5))
	require.NoError(t, e.Config().Unset(ctx, "heartbeat"))
	requireEvents(t, heard,
		events.Event{Kind: events.Canceled, JID: "b", Queue: "q"},
		events.Event{Kind: events.Canceled, JID: "unknown"},
		events.Event{Kind: events.ConfigSet, Option: "heartbeat", Value: "5"},
		events.Event{Kind: events.ConfigUnset, Option: "heartbeat"})

	e.Put("q", qless.JID("c"))
	e.Pop("q")
	require.NoError(t, e.Cancel(ctx, "c"))
	requireEvents(t, heard,
		events.Event{Kind: events.Put, JID: "c", Queue: "q"},
		events.Event{Kind: events.Canceled, JID: "c", Queue: "q", Worker: "w1"})
}

func TestEventsOfTrackedJobs(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	heard := listen(t, e.Client)
	ctx := t.Context()
	tracked := func(kinds ...events.Kind) {
		t.Helper()
		for _, kind := range kinds {
			event := next(t, heard)
			for !event.Tracked { // skip the log events of the same job
				event = next(t, heard)
			}
			require.Equal(t, events.Event{Kind: kind, Tracked: true, JID: jid}, event)
		}
	}
	require.NoError(t, e.Read(jid).Track(ctx))
	tracked(events.Tracked)
	e.Put("q", qless.JID(jid))
	tracked(events.Put)
	e.Pop("q")
	tracked(events.Popped)
	e.Clock.Advance(2 * time.Minute)
	require.Empty(t, e.Pops("q", 1))
	tracked(events.Stalled)
	require.NoError(t, e.Read(jid).Fail(ctx, "g", "m"))
	tracked(events.Failed)
	e.Put("q", qless.JID(jid))
	require.NoError(t, e.Pop("q").Complete(ctx))
	tracked(events.Put, events.Popped, events.Completed)
	e.Put("q", qless.JID(jid))
	require.NoError(t, e.Cancel(ctx, jid))
	tracked(events.Put, events.Canceled)
	e.Put("q", qless.JID(jid))
	require.NoError(t, e.Read(jid).Untrack(ctx))
	tracked(events.Put, events.Untracked)
}

func TestABrokenSubscriptionIsRestoredWithAGap(t *testing.T) {
	e, proxy, client := proxied(t)
	heard := listen(t, client)
	for range 3 {
		e.Put("q", qless.JID("before"))
		require.Equal(t, "before", next(t, heard).JID)
		proxy.CutAll()
		require.Equal(t, events.Event{Kind: events.Gap}, next(t, heard))
	}
	e.Put("q", qless.JID("after"))
	require.Equal(t, "after", next(t, heard).JID)
}

func TestASubscriptionOutlivesItsServer(t *testing.T) {
	e := newEnv(t)
	var log bytes.Buffer
	client := e.NewClient(e.Redis, qless.ClientConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ctx, cancel := context.WithCancel(t.Context())
	heard := must(events.Listen(ctx, client))(t)
	e.Server.Restart()
	require.Equal(t, events.Gap, next(t, heard).Kind)
	e.Put("q", qless.JID("a"))
	require.Equal(t, "a", next(t, heard).JID)
	cancel()
	requireEnd(t, heard)
	require.Contains(t, log.String(), "the subscription to events broke")
}

func TestASubscriptionEndsWithoutAReader(t *testing.T) {
	e := newEnv(t)
	ctx, cancel := context.WithCancel(t.Context())
	heard := must(events.Listen(ctx, e.Client))(t)
	for range 1000 {
		e.Put("q")
	}
	cancel()
	requireEnd(t, heard)
}

func TestTheContextEndsASubscription(t *testing.T) {
	e := newEnv(t)
	ctx, cancel := context.WithCancel(t.Context())
	heard := must(events.Listen(ctx, e.Client))(t)
	cancel()
	requireEnd(t, heard)
	_, err := events.Listen(ctx, e.Client)
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
	requireCode(t, qless.ErrUnavailable, errOf(events.Listen(t.Context(), client)))
}

func TestSubscriptionsLeaveNoGoroutines(t *testing.T) {
	server := testkit.Start(t)
	rdb := redis.NewClient(testkit.Options(server.Addr()))
	client := must(qless.New(rdb, nil))(t)
	require.NoError(t, rdb.Ping(t.Context()).Err())
	before := goleak.IgnoreCurrent()
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		one := must(events.Listen(ctx, client))(t)
		two := must(events.Listen(ctx, client))(t)
		cancel()
		requireEnd(t, two)
		requireEnd(t, one)
	}
	goleak.VerifyNone(t, before)
	require.NoError(t, rdb.Close())
}

func TestMessagesOfOthersOnTheChannels(t *testing.T) {
	e := newEnv(t)
	heard := listen(t, e.Client)
	for _, payload := range []string{"", "not JSON", "[]", "5", "null", `{"event":5,"jid":{},"queue":false}`, "\xff"} {
		require.NoError(t, e.Redis.Publish(t.Context(), "ql:log", payload).Err())
		require.NoError(t, e.Redis.Publish(t.Context(), "ql:put", payload).Err())
	}
	e.Put("q", qless.JID("a"))
	for {
		event := next(t, heard)
		if event.JID == "a" {
			require.Equal(t, events.Event{Kind: events.Put, JID: "a", Queue: "q"}, event)
			return
		}
		require.Contains(t, []events.Kind{"", "5", events.Put}, event.Kind)
	}
}
