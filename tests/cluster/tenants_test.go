package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/shards"
)

// Fifty tenants are spread over all masters. One group of workers serves each tenant separately.
func TestAGroupServesManyTenants(t *testing.T) {
	c := startNodes(t, false)
	const tenants, jobs = 50, 20
	rdb := c.client()
	var clients []*qless.Client
	homes := map[*node]int{}
	for i := range tenants {
		tag := fmt.Sprintf("tenant-%d", i)
		clients = append(clients, client(t, rdb, "{"+tag+"}:ql:"))
		homes[c.masterOf(c.slotOf(tag))]++
	}
	require.Len(t, homes, 3, "all masters have tenants")
	group, err := qless.NewWorkerGroup(clients, qless.WorkerConfig{
		Queues: []string{"q"}, Concurrency: 2, PollInterval: time.Hour,
	})
	require.NoError(t, err)
	worked := make(chan string, tenants*jobs)
	group.Handle("K", func(_ context.Context, job *qless.Job) error { worked <- job.JID; return nil })
	require.NoError(t, group.Start(context.Background()))
	defer func() { _ = group.Stop(context.Background()) }()
	wanted := map[string]bool{}
	for i := range jobs {
		for n, c := range clients {
			jid := fmt.Sprintf("%d-%d", n, i)
			_, err := c.Queue("q").Put(t.Context(), "K", nil, qless.JID(jid))
			require.NoError(t, err)
			wanted[jid] = true
		}
	}
	for range tenants * jobs {
		delete(wanted, testkit.Soon(t, "a job", worked))
	}
	require.Empty(t, wanted)
	require.NoError(t, group.Drain(t.Context()))
	for _, w := range group {
		require.Equal(t, jobs, w.Stats().Completed)
	}
}

// A queue spread over all masters keeps working while one of its shards is moved to another master.
func TestAQueueSpreadOverAllMasters(t *testing.T) {
	c := startNodes(t, false)
	rdb := c.client()
	var clients []*qless.Client
	for _, master := range c.all {
		clients = append(clients, client(t, rdb, "{"+c.tag(master, 0)+"}:ql:"))
	}
	sharded, err := shards.New(shards.ByJID, clients...)
	require.NoError(t, err)
	group, err := qless.NewWorkerGroup(sharded.Clients(), qless.WorkerConfig{Queues: []string{"q"}, PollInterval: time.Second})
	require.NoError(t, err)
	worked := make(chan string, 10000)
	group.Handle("K", func(_ context.Context, job *qless.Job) error { worked <- job.JID; return nil })
	require.NoError(t, group.Start(context.Background()))
	defer func() { _ = group.Stop(context.Background()) }()
	wanted := map[string]bool{}
	put := func() {
		t.Helper()
		many := make([]qless.JobSpec, 300)
		for i := range many {
			many[i].Klass = "K"
		}
		jids, err := sharded.Queue("q").PutMany(t.Context(), many)
		require.NoError(t, err)
		for _, jid := range jids {
			wanted[jid] = true
		}
	}
	put()
	slot := c.slotOf(clients[0].Namespace())
	c.moveSlot(slot, c.otherMaster(slot), func() {})
	put()
	for len(wanted) > 0 {
		delete(wanted, testkit.Soon(t, "a job", worked))
	}
	require.NoError(t, group.Drain(t.Context()))
	counts, err := sharded.Queue("q").Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, qless.QueueCounts{Name: "q"}, counts)
}
