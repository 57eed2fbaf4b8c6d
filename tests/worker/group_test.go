package worker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func TestAGroupWorksAllShards(t *testing.T) {
	e := newLiveEnv(t)
	ctx := t.Context()
	var clients []*qless.Client
	for i := range 3 {
		clients = append(clients, e.client(e.rdb, qless.WithClock(nil), qless.WithNamespace(fmt.Sprintf("s%d:", i))))
	}
	shards, err := qless.Shard(qless.ByJID, clients...)
	require.NoError(t, err)
	group, err := qless.NewWorkerGroup(shards.Clients(), qless.WorkerConfig{
		Queues: []string{"q"}, PollInterval: time.Hour,
		Schedules: []qless.Schedule{newSchedule("tick", "@every 1s", "q", "Tick", nil)},
	})
	require.NoError(t, err)
	worked, ticks := make(chan string, 1000), make(chan string, 1000)
	group.Handle("K", qless.Typed(func(_ context.Context, job *qless.Job, n int) error { worked <- job.JID; return nil }))
	group.Handle("Tick", func(_ context.Context, job *qless.Job) error { ticks <- job.JID; return nil })
	require.Error(t, group.Healthy())
	done := make(chan error, 1)
	go func() { done <- group.Run(ctx) }()
	wanted := map[string]bool{}
	for i := range 60 {
		jid, err := shards.Queue("q").Put(ctx, "K", i)
		require.NoError(t, err)
		wanted[jid] = true
	}
	for range 60 {
		delete(wanted, soon(t, "a job", worked))
	}
	require.Empty(t, wanted)
	first, second := soon(t, "a tick", ticks), soon(t, "a tick", ticks)
	require.NotEqual(t, first, second, "each time has one job in all shards")
	require.NoError(t, group.Healthy())
	require.NoError(t, group.Drain(ctx))
	require.NoError(t, soon(t, "the end", done))
	for _, w := range group.Workers() {
		require.NotZero(t, w.Stats().Completed)
	}
}

func TestAGroupStartsWhollyOrNotAtAll(t *testing.T) {
	e := newLiveEnv(t)
	group, err := qless.NewWorkerGroup([]*qless.Client{e.client(e.rdb), e.client(e.rdb)}, qless.WorkerConfig{Queues: []string{"q"}})
	require.NoError(t, err)
	group.Handle("K", nothing)
	require.NoError(t, group.Workers()[1].Stop(t.Context()))
	requireCode(t, qless.ErrInvalid, group.Start(t.Context()))
	soon(t, "the end of the first", group.Workers()[0].Closed())
}
