package admin

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/qless/qless-go/internal/redisx"
)

// look reads the version and the settings of the server. A user without read permission receives no
// warnings.
func (b *bench) look(ctx context.Context) error {
	info, _ := b.redis.Info(ctx, "server").Result()
	fields := redisx.ParseInfo(info)
	for _, name := range []string{
		"appendonly", "appendfsync", "maxmemory", "maxmemory-policy", "slowlog-log-slower-than",
		"latency-monitor-threshold",
	} {
		values, _ := b.redis.ConfigGet(ctx, name).Result()
		fields[name] = values[name]
	}
	version := fields["redis_version"]
	if version == "" {
		version = "of an unknown version"
	}
	b.found.Server = "Redis " + version
	b.found.Warnings = warnings(fields, b.found.RoundTripP50)
	return ctx.Err()
}

// warnings returns warnings about settings that cost time or jobs. An empty setting is unknown.
func warnings(settings map[string]string, roundTrip float64) []string {
	found := []string{}
	warn := func(isSo bool, format string, values ...any) {
		if isSo {
			found = append(found, fmt.Sprintf(format, values...))
		}
	}
	number := func(name string) int {
		n, err := strconv.Atoi(settings[name])
		if err != nil {
			return -1
		}
		return n
	}
	version := settings["redis_version"]
	major, err := strconv.Atoi(strings.Split(version, ".")[0])
	warn(err == nil && major < 7, "Redis %s is old, and gets no more repairs", version)
	warn(settings["appendonly"] == "yes" && settings["appendfsync"] == "always",
		"appendfsync is always: each write waits for the disk; everysec loses a second at most")
	policy := settings["maxmemory-policy"]
	warn(number("maxmemory") > 0 && strings.HasPrefix(policy, "allkeys"),
		"maxmemory-policy is %s: jobs are dropped when the memory is full; noeviction keeps them", policy)
	warn(number("maxmemory") > 0 && strings.HasPrefix(policy, "volatile"),
		"maxmemory-policy is %s: keys with a time to live are dropped when the memory is full", policy)
	const quick = 1000 // microseconds
	slow := number("slowlog-log-slower-than")
	warn(slow >= 0 && slow < quick,
		"slowlog-log-slower-than is %d microseconds: the slow log has commands that are not slow", slow)
	latency := number("latency-monitor-threshold")
	warn(latency > 0 && latency < 10,
		"latency-monitor-threshold is %d ms: the latency monitor has events that are not slow", latency)
	const far = 0.002
	warn(roundTrip > far, "the round trip takes %s: put in bulk, and run workers nearer to the server",
		milliseconds(roundTrip))
	return found
}
