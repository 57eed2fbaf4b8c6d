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

func TestCleansAsTheInputSays(t *testing.T) {
	server := qlesstest.New(t)
	rdb := server.Redis()
	rdb.Set(t.Context(), "P:item:lost", "data", 0)
	rdb.LPush(t.Context(), "P:processing", "ghost")
	var out bytes.Buffer
	in := strings.NewReader("light:P\ndeep:P\n")
	require.NoError(t, run(t.Context(), "redis://"+server.Addr(), workqueue.CleanerConfig{}, nil, in, &out))
	require.Equal(t, "light cleaned P\ndeep cleaned P\n", out.String())
	require.Equal(t, []string{"lost"}, rdb.LRange(t.Context(), "P:queue", 0, -1).Val())
	require.Zero(t, rdb.Exists(t.Context(), "P:processing").Val())
}

func TestCleansAtIntervals(t *testing.T) {
	server := qlesstest.New(t)
	rdb := server.Redis()
	rdb.Set(t.Context(), "P:item:lost", "data", 0)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, "redis://"+server.Addr(), workqueue.CleanerConfig{}, []string{"P"}, nil, nil)
	}()
	item, err := workqueue.New("P").Lease(t.Context(), rdb, true, 30*time.Second, time.Minute)
	require.NoError(t, err)
	require.Equal(t, "lost", item.ID)
	stop()
	require.NoError(t, <-done)
}
