package gearmonkey_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/compat/gearmonkey"
	"github.com/qless/qless-go/internal/testkit"
)

func TestEventsComeInOrder(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	events, err := e.Events(t.Context(), "F", "G:1", "F")
	require.NoError(t, err)
	e.run("F", "")
	e.run("H", "")
	e.run("G:1", "")
	e.cli("PUBLISH channel:F rubbish")
	e.cli("PUBLISH channel:F finish:x")
	e.works(1, echo)
	for _, want := range []gearmonkey.Event{
		{Kind: gearmonkey.EventCreate, Function: "F", ID: 1},
		{Kind: gearmonkey.EventCreate, Function: "G:1", ID: 1},
		{Kind: gearmonkey.EventStart, Function: "F", ID: 1},
		{Kind: gearmonkey.EventFinish, Function: "F", ID: 1},
	} {
		require.Equal(t, want, receive(t, events.C(), string(want.Kind)))
	}
	require.NoError(t, events.Close())
	require.NoError(t, events.Close())
	_, open := <-events.C()
	require.False(t, open)
}

func TestEventsEndWithTheContext(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx, cancel := context.WithCancel(t.Context())
	events, err := e.Events(ctx, "F")
	require.NoError(t, err)
	cancel()
	for range events.C() {
	}
	require.NoError(t, events.Close())
}

func TestEventsReportAGap(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	proxy := testkit.NewProxy(t, e.server.Addr())
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
	defer rdb.Close()
	events, err := gearmonkey.NewClient(rdb).Events(t.Context(), "F")
	require.NoError(t, err)
	defer events.Close()
	proxy.CutAll()
	require.Equal(t, gearmonkey.Event{Kind: gearmonkey.EventGap}, receive(t, events.C(), "the gap"))
	e.run("F", "")
	require.Equal(t, gearmonkey.EventCreate, receive(t, events.C(), "create").Kind)
}
