package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/compat/workqueue"
	"github.com/qless/qless-go/qlesstest"
)

// The protocol's test suite passes the server as host:port.
func TestCleansAsTheInputSays(t *testing.T) {
	server := qlesstest.New(t)
	rdb := server.Redis()
	rdb.Set(t.Context(), "P:item:lost", "data", 0)
	rdb.LPush(t.Context(), "P:processing", "ghost")
	var out bytes.Buffer
	in := strings.NewReader("light:P\ndeep:P\n")
	require.NoError(t, run(t.Context(), []string{"-stdin", server.Addr()}, in, &out))
	require.Equal(t, "light cleaned P\ndeep cleaned P\n", out.String())
	require.Equal(t, []string{"lost"}, rdb.LRange(t.Context(), "P:queue", 0, -1).Val())
	require.Zero(t, rdb.Exists(t.Context(), "P:processing").Val())
}

func TestCleansAtIntervals(t *testing.T) {
	server := qlesstest.New(t)
	rdb := server.Redis()
	rdb.Set(t.Context(), "P:item:lost", "data", 0)
	t.Setenv("REDIS_URL", "redis://"+server.Addr())
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{"P"}, nil, nil)
	}()
	item, err := workqueue.New("P").Lease(t.Context(), rdb, true, 30*time.Second, time.Minute)
	require.NoError(t, err)
	require.Equal(t, "lost", item.ID)
	stop()
	require.NoError(t, <-done)
}

func TestTheServerIsAnArgumentOrInTheEnvironment(t *testing.T) {
	for _, test := range []struct{ host, env, want string }{
		{"redis.example", "redis://other", "redis.example:6379"},
		{"redis.example:7000", "", "redis.example:7000"},
		{"redis://redis.example:7000/1", "", "redis.example:7000"},
		{"[::1]", "", "[::1]:6379"},
		{"", "redis://other:7000", "other:7000"},
		{"", "", "localhost:6379"},
	} {
		t.Setenv("REDIS_URL", test.env)
		rdb, err := connect(test.host)
		require.NoError(t, err)
		require.Equal(t, test.want, rdb.Options().Addr, "%+v", test)
		require.NoError(t, rdb.Close())
	}
}

func TestArgumentsThatMakeNoSense(t *testing.T) {
	for _, args := range [][]string{{}, {"-stdin", "a", "b"}, {"-unknown"}, {"-light", "x", "P"}} {
		require.ErrorIs(t, run(t.Context(), args, nil, nil), errUsage, args)
	}
	_, err := connect("http://localhost")
	require.Error(t, err)
}
