package main

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

func TestCallsAreCounted(t *testing.T) {
	commands, scripts, err := countCalls("# Commandstats\r\ncmdstat_hset:calls=3,usec=9\r\n" +
		"cmdstat_evalsha:calls=2,usec=9\r\ncmdstat_config|set:calls=7,usec=9\r\n" +
		"cmdstat_info:calls=1,usec=9\r\n")
	require.NoError(t, err)
	require.Equal(t, []int64{3, 2}, []int64{commands, scripts})
}

func TestAServerIsreadServer(t *testing.T) {
	server, err := testkit.Launch()
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { require.NoError(t, rdb.Close()) })
	before, err := readServer(t.Context(), rdb)
	require.NoError(t, err)
	require.Positive(t, before.CPU)

	subscription := rdb.Subscribe(t.Context(), "channel")
	t.Cleanup(func() { require.NoError(t, subscription.Close()) })
	_, err = subscription.Receive(t.Context())
	require.NoError(t, err)
	call := "redis.call('time') return redis.call('set', KEYS[1], ARGV[1])"
	require.NoError(t, rdb.Eval(t.Context(), call, []string{"key"}, "value").Err())

	after, err := readServer(t.Context(), rdb)
	require.NoError(t, err)
	require.Equal(t, int64(1), after.Scripts-before.Scripts)
	require.GreaterOrEqual(t, after.Commands-before.Commands, int64(3), "time, set, subscribe")
	require.Equal(t, int64(1), after.Channels)
	require.Greater(t, after.Connections, before.Connections)
	require.Greater(t, after.Connected, before.Connected)
	require.Greater(t, after.Sent, before.Sent)
	require.Positive(t, after.Peak)
}
