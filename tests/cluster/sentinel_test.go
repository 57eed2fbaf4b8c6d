package cluster

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// A master is killed while jobs are put and run. Jobs acknowledged by its replica are completed
// under the new master.
func TestSentinelsReplaceAKilledMaster(t *testing.T) {
	g := startGuarded(t)
	k := startCrew(t, replicated(t, g.client(), "ql:", time.Second))
	k.await(500)
	g.master.Kill()
	killed := time.Now()
	g.promoted()
	promoted := time.Now()
	k.await(1)
	t.Logf("the replica took over after %v, and work continued %v later",
		promoted.Sub(killed).Round(time.Millisecond), time.Since(promoted).Round(time.Millisecond))
	k.await(3)
	k.done()
}

// A stopped master returns and still considers itself the master until a sentinel corrects it: for
// a moment there are two.
func TestSentinelsReplaceAStoppedMaster(t *testing.T) {
	g := startGuarded(t)
	k := startCrew(t, replicated(t, g.client(), "ql:", time.Second))
	k.await(500)
	g.master.Suspend()
	stopped := time.Now()
	g.promoted()
	promoted := time.Now()
	k.await(1)
	t.Logf("the replica took over after %v, and work continued %v later",
		promoted.Sub(stopped).Round(time.Millisecond), time.Since(promoted).Round(time.Millisecond))
	g.master.Resume()
	old := g.master.Client(t)
	until(t, "an old master that follows", func(ctx context.Context) bool {
		return strings.Contains(old.Info(ctx, "replication").Val(), "master_link_status:up")
	})
	k.await(500)
	k.done()
}

func TestSentinelsReplaceAMasterOnRequest(t *testing.T) {
	g := startGuarded(t)
	k := startCrew(t, replicated(t, g.client(), "ql:", time.Second))
	k.await(500)
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: g.sentinels[0]})
	defer func() { _ = sentinel.Close() }()
	require.NoError(t, sentinel.Failover(t.Context(), testkit.MasterName).Err())
	g.promoted()
	k.await(500)
	k.done()
}

func TestWorkersAreWokenAfterSentinelsFailedOver(t *testing.T) {
	g := startGuarded(t)
	ql := client(t, g.client(), "ql:")
	w, worked := startWorker(t, ql, 2*time.Second)
	wakes(t, ql, g.master.Client(t), w, worked)
	g.master.Kill()
	g.promoted()
	wakes(t, ql, g.replica.Client(t), w, worked)
}
