package worker

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/events"
	"github.com/qless/qless-go/internal/testkit"
)

// Nothing reveals that a silent connection is gone: it has no end, and no reset.
func TestSubscriptionsSurviveConnectionsThatGoSilent(t *testing.T) {
	t.Parallel()
	e := newLiveEnv(t)
	w, proxy := e.proxiedWorker(qless.WorkerConfig{})
	rdb := redis.NewClient(testkit.Options(proxy.Addr()))
	defer rdb.Close()
	heard, err := events.Listen(t.Context(), e.NewClient(rdb, qless.ClientConfig{}))
	require.NoError(t, err)

	proxy.GoSilent()
	until(t, "the worker listens on another connection", func() bool {
		channel := "ql:x:wake:" + w.Name()
		return proxy.Seen(channel) == 2 && e.Redis.PubSubNumSub(t.Context(), channel).Val()[channel] == 1
	})
	require.Equal(t, events.Gap, soon(t, "the gap", heard).Kind)
	jid := e.Put("q")
	require.Equal(t, reported{"complete", "complete"}, w.outcome(jid), "an idle worker was woken")
	require.Equal(t, jid, soon(t, "an event", heard).JID)
}

func TestSubscribingToEventsHasADeadline(t *testing.T) {
	t.Parallel()
	server := testkit.Start(t)
	proxy := testkit.NewProxy(t, server.Addr())
	defer proxy.HoldReply("subscribe")()
	rdb := redis.NewClient(testkit.Options(proxy.Addr()))
	defer rdb.Close()
	client, err := qless.New(rdb, nil)
	require.NoError(t, err)
	failed := make(chan error, 1)
	go func() {
		_, err := events.Listen(t.Context(), client)
		failed <- err
	}()
	require.ErrorIs(t, soon(t, "the end of the call", failed), qless.ErrUnavailable)
}
