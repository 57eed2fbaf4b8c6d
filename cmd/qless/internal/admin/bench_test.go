package admin

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSettingsThatCostAreWarnedOf(t *testing.T) {
	require.Empty(t, warnings(map[string]string{}, 0.0001), "nothing is known")
	require.Empty(t, warnings(map[string]string{
		"redis_version": "8.2.1", "appendonly": "yes", "appendfsync": "everysec", "maxmemory": "1000",
		"maxmemory-policy": "noeviction", "slowlog-log-slower-than": "10000",
		"latency-monitor-threshold": "0",
	}, 0.0001))
	require.Empty(t, warnings(map[string]string{
		"appendonly": "no", "appendfsync": "always", "maxmemory": "0", "maxmemory-policy": "allkeys-lru",
		"slowlog-log-slower-than": "-1",
	}, 0.0001))
	found := warnings(map[string]string{
		"redis_version": "6.2.14", "appendonly": "yes", "appendfsync": "always", "maxmemory": "1000",
		"maxmemory-policy": "allkeys-lru", "slowlog-log-slower-than": "0",
		"latency-monitor-threshold": "1",
	}, 0.05)
	require.Len(t, found, 6)
	require.Contains(t, found[0], "6.2.14")
	require.Contains(t, found[5], "50.00 ms")
	require.Len(t, warnings(map[string]string{"maxmemory": "1", "maxmemory-policy": "volatile-ttl"}, 0), 1)
}

func TestQuantiles(t *testing.T) {
	var times []time.Duration
	for i := range 100 {
		times = append(times, time.Duration(100-i)*time.Millisecond)
	}
	p50, p99 := quantiles(times)
	require.Equal(t, []float64{0.051, 0.1}, []float64{p50, p99})
	p50, p99 = quantiles(nil)
	require.Zero(t, p50+p99)
}
