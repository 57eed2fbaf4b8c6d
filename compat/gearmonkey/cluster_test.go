package gearmonkey_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/compat/gearmonkey"
	"github.com/qless/qless-go/internal/testkit"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	server := testkit.Start(t, "--cluster-enabled", "yes")
	node := server.Client(t)
	e := &env{t: t, server: server, rdb: node}
	require.NoError(t, node.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	e.eventually(func() bool {
		info, err := node.ClusterInfo(t.Context()).Result()
		require.NoError(t, err)
		return info[:len("cluster_state:ok")] == "cluster_state:ok"
	})
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr()}})
	defer rdb.Close()
	client := gearmonkey.NewClient(rdb)

	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	worker := gearmonkey.NewWorker(client, config())
	worker.Accept("{F}", echo)
	worker.Accept("{F}2", echo)
	done := make(chan error, 1)
	go func() { done <- worker.Work(ctx) }()
	for _, fn := range []string{"{F}", "{F}2"} {
		for _, option := range []gearmonkey.RunOption{gearmonkey.Low, gearmonkey.At(now)} {
			id, err := client.Run(ctx, fn, []byte("x"), option, gearmonkey.Blocking(patience))
			require.NoError(t, err)
			state, err := client.Get(ctx, fn, id)
			require.NoError(t, err)
			require.Equal(t, "x", string(state.Output))
		}
	}
	stop()
	require.NoError(t, receive(t, done, "the end of the worker"))
	require.Equal(t, "0", e.cli("GET count:{F}2"))

	clock := now
	cfg := sweeping(&clock)
	cfg.Functions = []string{"{F}"}
	sweeper := gearmonkey.NewSweeper(client, cfg)
	e.cli("HMSET job:{F}:9 status busy input y")
	e.sweeps(0, sweeper)
	clock = clock.Add(time.Minute)
	e.sweeps(1, sweeper)
	put, moved := keep()
	_, err := client.Move(t.Context(), "{F}", put)
	require.NoError(t, err)
	require.EqualValues(t, 9, (*moved)[0].ID)
}

// Clients of an unknown kind wait on a connection from the pool.
func TestOtherClients(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	client := gearmonkey.NewClient(struct{ redis.UniversalClient }{e.rdb})
	e.cli("LPUSH lock:F:1 OK")
	_, err := client.Run(t.Context(), "F", nil, gearmonkey.Blocking(patience))
	require.NoError(t, err)
	_, err = client.Run(t.Context(), "F", nil, gearmonkey.Blocking(time.Second))
	requireCode(t, gearmonkey.ErrTimeout, err)
}
