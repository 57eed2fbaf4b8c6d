package cluster

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// BenchmarkTenants measures the puts of 1,000 tenants with ten queues each, and the resources of
// their idle workers, on one server and on a cluster of three.
func BenchmarkTenants(b *testing.B) {
	b.Run("one server", func(b *testing.B) {
		server := testkit.Start(b)
		benchmarkTenants(b, server.Client(b), []*redis.Client{server.Client(b)})
	})
	b.Run("a cluster", func(b *testing.B) {
		c := startNodes(b, false)
		var servers []*redis.Client
		for _, n := range c.all {
			servers = append(servers, n.rdb)
		}
		benchmarkTenants(b, c.client(), servers)
	})
}

func benchmarkTenants(b *testing.B, rdb redis.UniversalClient, servers []*redis.Client) {
	const tenants, queues, watched = 1000, 10, 20 * time.Second
	names := make([]string, queues)
	for i := range names {
		names[i] = fmt.Sprintf("queue-%d", i)
	}
	var clients []*qless.Client
	for i := range tenants {
		clients = append(clients, client(b, rdb, fmt.Sprintf("{tenant-%d}:ql:", i)))
	}
	heap := heapInUse()
	group, err := qless.NewWorkerGroup(clients, qless.WorkerConfig{Queues: names, Concurrency: 1})
	require.NoError(b, err)
	group.Handle("K", func(context.Context, *qless.Job) error { return nil })
	require.NoError(b, group.Start(context.Background()))
	defer func() { require.NoError(b, group.Stop(context.Background())) }()
	idle := func(context.Context) bool {
		for _, w := range group {
			if !w.Stats().Idle {
				return false
			}
		}
		return true
	}
	until(b, "all are idle", idle)
	before := cpuOf(b, servers)
	time.Sleep(watched) // the measured time
	resting := (cpuOf(b, servers) - before) / watched.Seconds()
	used := heapInUse() - heap

	before = cpuOf(b, servers)
	b.ResetTimer()
	for i := range b.N {
		_, err := clients[i%tenants].Queue(names[i/tenants%queues]).Put(context.Background(), "K", nil)
		require.NoError(b, err)
	}
	until(b, "all are complete", func(context.Context) bool {
		completed := 0
		for _, w := range group {
			completed += w.Stats().Completed
		}
		return completed == b.N
	})
	b.StopTimer()
	b.ReportMetric(1e6*(cpuOf(b, servers)-before)/float64(b.N), "server-us/job")
	b.ReportMetric(100*resting, "%core-idle")
	b.ReportMetric(used/tenants/1e3, "heap-KB/tenant")
	b.ReportMetric(sumOf(b, servers, "clients", "connected_clients"), "connections")
}

// heapInUse returns the bytes of the heap in use after a garbage collection.
func heapInUse() float64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}

// cpuOf returns the CPU time of servers, in seconds.
func cpuOf(t testing.TB, servers []*redis.Client) float64 {
	t.Helper()
	return sumOf(t, servers, "cpu", "used_cpu_user") + sumOf(t, servers, "cpu", "used_cpu_sys")
}

// sumOf returns the sum of a number in each server's INFO.
func sumOf(t testing.TB, servers []*redis.Client, section, field string) (sum float64) {
	t.Helper()
	for _, server := range servers {
		_, after, found := strings.Cut(server.Info(t.Context(), section).Val(), "\n"+field+":")
		require.True(t, found, field)
		var number float64
		_, err := fmt.Sscan(after, &number)
		require.NoError(t, err)
		sum += number
	}
	return sum
}
