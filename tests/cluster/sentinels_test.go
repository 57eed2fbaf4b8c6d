package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// masterName is the name of the master that sentinels look after.
const masterName = "jobs"

// guarded is a master and its replica, and three sentinels that look after them.
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
		g.sentinels = append(g.sentinels, startSentinel(t, host, port))
	}
	until(t, "sentinels that know each other and the replica", func(ctx context.Context) bool {
		for _, addr := range g.sentinels {
			sentinel := redis.NewSentinelClient(&redis.Options{Addr: addr})
			state := sentinel.Master(ctx, masterName).Val()
			_ = sentinel.Close()
			if state["num-other-sentinels"] != "2" || state["num-slaves"] != "1" {
				return false
			}
		}
		return true
	})
	return g
}

// startSentinel starts a sentinel on a free port, and ends it with the test.
func startSentinel(t testing.TB, host, port string) string {
	t.Helper()
	binary := os.Getenv("QLESS_REDIS_SERVER")
	if binary == "" {
		binary = "redis-server"
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, own, _ := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, listener.Close())
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	require.NoError(t, os.WriteFile(file, []byte(fmt.Sprintf(`bind 127.0.0.1
port %s
sentinel monitor %[2]s %[3]s %[4]s 2
sentinel down-after-milliseconds %[2]s 1000
sentinel failover-timeout %[2]s 5000
`, own, masterName, host, port)), 0o600))
	sentinel := exec.Command(binary, file, "--sentinel")
	require.NoError(t, sentinel.Start())
	t.Cleanup(func() {
		_ = sentinel.Process.Kill()
		_ = sentinel.Wait()
	})
	return "127.0.0.1:" + own
}

// client returns a client that asks the sentinels for the master.
func (g *guarded) client() *redis.Client {
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: masterName, SentinelAddrs: g.sentinels})
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
