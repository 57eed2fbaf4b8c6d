package worker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/shards"
)

func TestAGroupWorksAllShards(t *testing.T) {
	e := newLiveEnv(t)
	ctx := t.Context()
	var clients []*qless.Client
	for i := range 3 {
		clients = append(clients, e.NewLiveClient(e.Redis, qless.ClientConfig{Namespace: fmt.Sprintf("s%d:", i)}))
	}
	sharded, err := shards.New(shards.ByJID, clients...)
	require.NoError(t, err)
	group, err := qless.NewWorkerGroup(sharded.Clients(), qless.WorkerConfig{
		Queues: []string{"q"}, PollInterval: time.Hour,
		Schedules: []qless.Schedule{newSchedule("tick", "@every 1s", "q", "Tick", nil)},
	})
	require.NoError(t, err)
	worked, ticks := make(chan string, 1000), make(chan string, 1000)
	group.Handle("K", qless.Typed(func(_ context.Context, job *qless.Job, n int) error { worked <- job.JID; return nil }))
	group.Handle("Tick", func(_ context.Context, job *qless.Job) error { ticks <- job.JID; return nil })
	for _, w := range group {
		require.Error(t, w.Healthy())
	}
	done := make(chan error, 1)
	go func() { done <- group.Run(ctx) }()
	wanted := map[string]bool{}
	for i := range 60 {
		jid, err := sharded.Queue("q").Put(ctx, "K", i)
		require.NoError(t, err)
		wanted[jid] = true
	}
	for range 60 {
		delete(wanted, soon(t, "a job", worked))
	}
	require.Empty(t, wanted)
	first, second := soon(t, "a tick", ticks), soon(t, "a tick", ticks)
	require.NotEqual(t, first, second, "each time has one job in all shards")
	for _, w := range group {
		require.NoError(t, w.Healthy())
	}
	require.NoError(t, group.Drain(ctx))
	require.NoError(t, soon(t, "the end", done))
	for _, w := range group {
		require.NotZero(t, w.Stats().Completed)
	}
}

func TestAGroupStartsWhollyOrNotAtAll(t *testing.T) {
	e := newLiveEnv(t)
	clients := []*qless.Client{e.NewClient(e.Redis, qless.ClientConfig{}), e.NewClient(e.Redis, qless.ClientConfig{})}
	group, err := qless.NewWorkerGroup(clients, qless.WorkerConfig{Queues: []string{"q"}})
	require.NoError(t, err)
	group.Handle("K", nothing)
	require.NoError(t, group[1].Stop(t.Context()))
	requireCode(t, qless.ErrInvalid, group.Start(t.Context()))
	soon(t, "the end of the first", group[0].Closed())
}
