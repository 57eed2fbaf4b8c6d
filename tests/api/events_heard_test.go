package api

import (
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// publishes puts and completes n jobs, each with one call, and returns the number of published
// messages.
func (e *env) publishes(n int) int {
	e.T.Helper()
	jobs := specs(n)
	commands := e.Server.Commands(e.T, func() {
		jids := e.puts("q", jobs...)
		require.Len(e.T, e.run("reserve", "w1", n, "10", "0", "q"), 5+n)
		e.run("finish", append([]any{"w1", "completed", "q", n}, anys(jids)...)...)
	})
	return strings.Count(strings.Join(commands, " "), "publish")
}

func TestManyEventsAreSentOnlyIfAClientListens(t *testing.T) {
	e := newEnvOn(t, testkit.Start(t, "--repl-backlog-ttl", "3600"))
	ctx := t.Context()
	log, relays := e.Namespace()+"log", e.Namespace()+"x:listen"
	confirmed := func(sub *redis.PubSub) *redis.PubSub {
		require.NoError(t, errOf(sub.Receive(ctx)))
		return sub
	}
	e.publishes(1) // makes the queue known

	require.Zero(t, e.publishes(5))
	require.Equal(t, 8, e.publishes(4), "so few are sent without a question")
	relay := confirmed(e.Redis.Subscribe(ctx, log, relays))
	require.Zero(t, e.publishes(5), "relays need none of these")
	other := confirmed(e.Redis.Subscribe(ctx, log))
	require.Equal(t, 10, e.publishes(5))
	require.NoError(t, other.Close())
	require.NoError(t, relay.Close())
	testkit.Until(t, "the server notices that", func() bool { return e.publishes(5) == 0 })
	pattern := confirmed(e.Redis.PSubscribe(ctx, "*log"))
	require.Equal(t, 10, e.publishes(5))
	require.NoError(t, pattern.Close())
	testkit.Until(t, "the server notices that", func() bool { return e.publishes(5) == 0 })

	replica := testkit.Start(t, "--repl-diskless-load", "disabled").Client(t)
	host, port, err := net.SplitHostPort(e.Server.Addr())
	require.NoError(t, err)
	require.NoError(t, replica.ReplicaOf(ctx, host, port).Err())
	testkit.Until(t, "the replica is there", func() bool {
		return strings.Contains(replica.Info(ctx, "replication").Val(), "master_link_status:up")
	})
	there := confirmed(replica.Subscribe(ctx, log))
	defer func() { require.NoError(t, there.Close()) }()
	require.Equal(t, 10, e.publishes(5))
	require.Contains(t, must(there.ReceiveMessage(ctx))(t).Payload, "put")
	require.NoError(t, replica.ReplicaOf(ctx, "no", "one").Err())
}

// anys converts a list to a list of any.
func anys[T any](list []T) []any {
	all := make([]any, len(list))
	for i, element := range list {
		all[i] = element
	}
	return all
}
