package web

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/web/internal/words"
)

// A serverData describes the server.
type serverData struct {
	Namespace string `json:"namespace"`
	Time      string `json:"time,omitempty"` // by the server's clock

	// Skew is how far the server's clock is ahead of this program's, in seconds, with an error of up
	// to half a round trip.
	Skew    float64 `json:"clock_skew"`
	HasSkew bool    `json:"-"`
	Ping    float64 `json:"ping"` // the round trip, in seconds

	// Refused is why the server does not report its INFO, or empty.
	Refused string            `json:"refused,omitempty"`
	Info    map[string]string `json:"info,omitempty"`
	Reasons []doctor.Reason   `json:"reasons"`  // dangers also found by the doctor
	Advice  []string          `json:"advice"`   // other advice
	NoRedis bool              `json:"no_redis"` // the Source has no Redis
}

// infoFields are the useful fields of INFO, without paths.
var infoFields = []string{
	"redis_version", "valkey_version", "server_name", "redis_mode", "os", "uptime_in_seconds",
	"role", "master_link_status", "connected_slaves", "cluster_enabled",
	"used_memory", "used_memory_peak", "maxmemory", "maxmemory_policy", "mem_fragmentation_ratio",
	"connected_clients", "blocked_clients", "maxclients", "rejected_connections",
	"instantaneous_ops_per_sec", "evicted_keys", "expired_keys",
	"aof_enabled", "aof_last_write_status", "rdb_last_bgsave_status", "rdb_last_save_time",
	"rdb_changes_since_last_save", "loading",
}

// serverKeep is how long a reading of INFO is kept.
const serverKeep = 5 * time.Second

// server shows the state of the server.
func (s *site) server(ctx context.Context, _ query) (*view, error) {
	data, err := sampledFor(ctx, &s.samples, serverKeep, "server", s.readServer)
	return &view{Title: "Server", Data: data}, err
}

func (s *site) readServer(ctx context.Context) (*serverData, error) {
	data := &serverData{
		Namespace: s.Client.Namespace(), Advice: []string{}, Reasons: []doctor.Reason{},
	}
	if s.Redis == nil {
		data.NoRedis = true
		return data, nil
	}
	server, err := redisx.ServerOf(ctx, s.Redis, data.Namespace)
	if err != nil {
		return nil, err
	}
	data.readClock(ctx, server)
	text, err := server.Info(ctx).Result()
	if err != nil {
		data.Refused = err.Error()
		return data, nil
	}
	data.Info = redisx.ParseInfo(text)
	maps.DeleteFunc(data.Info, func(name, _ string) bool { return !slices.Contains(infoFields, name) })
	data.advise()
	data.Reasons = append(data.Reasons, doctor.ServerReasons(data.Info, saves(ctx, server))...)
	return data, nil
}

// readClock compares the clocks. The result is unknown if the server does not report its time.
func (d *serverData) readClock(ctx context.Context, rdb redis.UniversalClient) {
	before := time.Now()
	there, err := rdb.Time(ctx).Result()
	took := time.Since(before)
	if err != nil {
		return
	}
	d.HasSkew = true
	d.Time = there.UTC().Format(time.RFC3339Nano)
	d.Ping = took.Seconds()
	d.Skew = there.Sub(before.Add(took / 2)).Seconds()
}

// maxClockSkew is the difference between the clocks from which the page warns.
const maxClockSkew = 2.0

// advise reports settings likely to do harm.
func (d *serverData) advise() {
	advise := func(when bool, text string) {
		if when {
			d.Advice = append(d.Advice, text)
		}
	}
	advise(d.Info["role"] == "slave", "The server is a replica: it can't be written to.")
	advise(d.Info["loading"] == "1", "The server is loading its data.")
	advise(d.Info["evicted_keys"] != "" && d.Info["evicted_keys"] != "0",
		"The server has evicted "+d.Info["evicted_keys"]+" keys since it was started.")
	skew := strconv.FormatFloat(d.Skew, 'f', 1, 64)
	advise(d.Skew > maxClockSkew || d.Skew < -maxClockSkew, "The clock of the server is "+skew+
		" seconds ahead of this program's. Times on these pages are off by that.")
}

// saves returns the setting save of a server, or nil if unknown.
func saves(ctx context.Context, rdb redis.UniversalClient) map[string]string {
	return rdb.ConfigGet(ctx, "save").Val()
}

func (d *serverData) number(field string) float64 {
	n, _ := strconv.ParseFloat(d.Info[field], 64)
	return n
}

// Count formats a number of INFO, or returns "" if missing.
func (d *serverData) Count(field string) string {
	if d.Info[field] == "" {
		return ""
	}
	return words.Number(int(d.number(field)))
}

// Bytes formats an amount of memory of INFO, or returns "" for 0.
func (d *serverData) Bytes(field string) string {
	if n := d.number(field); n > 0 {
		return units.Bytes(n)
	}
	return ""
}

// Replicas returns the number of replicas of the server.
func (d *serverData) Replicas() int { return int(d.number("connected_slaves")) }

// Uptime returns the time since the start of the server.
func (d *serverData) Uptime() time.Duration {
	return time.Duration(d.number("uptime_in_seconds")) * time.Second
}

// Clock describes the difference between the clocks.
func (d *serverData) Clock() string {
	skew := time.Duration(d.Skew * float64(time.Second))
	switch {
	case skew.Abs() < 50*time.Millisecond:
		return "in sync"
	case skew < 0:
		return words.Took(-skew) + " behind the dashboard's"
	}
	return words.Took(skew) + " ahead of the dashboard's"
}

// Took describes the time of a round trip.
func (d *serverData) Took() string {
	return words.Took(time.Duration(d.Ping * float64(time.Second)))
}
