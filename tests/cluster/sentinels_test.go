package cluster

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// guarded is a master with a replica, and three monitoring sentinels.
type guarded struct {
	t         testing.TB
	master    *testkit.Server
	replica   *testkit.Server
	sentinels []string // their addresses
}

// startGuarded starts servers and sentinels, and waits until they know each other.
func startGuarded(t testing.TB) *guarded {
	t.Helper()
	g := &guarded{t: t, master: testkit.Start(t)}
	host, port, err := net.SplitHostPort(g.master.Addr())
	require.NoError(t, err)
	g.replica = testkit.Start(t, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	master := g.master.Client(t)
	until(t, "a replica that follows", func(ctx context.Context) bool {
		return strings.Contains(master.Info(ctx, "replication").Val(), "state=online")
	})
	for range 3 {
		g.sentinels = append(g.sentinels, testkit.StartSentinel(t, nil, "", g.master.Addr()))
	}
	until(t, "sentinels that know each other and the replica", func(ctx context.Context) bool {
		for _, addr := range g.sentinels {
			sentinel := redis.NewSentinelClient(&redis.Options{Addr: addr})
			state := sentinel.Master(ctx, testkit.MasterName).Val()
			_ = sentinel.Close()
			if state["num-other-sentinels"] != "2" || state["num-slaves"] != "1" {
				return false
			}
		}
		return true
	})
	return g
}

// client returns a client that asks the sentinels for the master.
func (g *guarded) client() *redis.Client {
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: testkit.MasterName, SentinelAddrs: g.sentinels})
	g.t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// promoted waits until the replica is the master.
func (g *guarded) promoted() {
	g.t.Helper()
	replica := g.replica.Client(g.t)
	until(g.t, "a replica that takes over", func(ctx context.Context) bool {
		return strings.Contains(replica.Info(ctx, "replication").Val(), "role:master")
	})
}
