package main

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/bench/internal/info"
	"github.com/qless/qless-go/internal/testkit"
)

// server is the Redis of a workload.
type server struct {
	process *testkit.Server
	admin   *redis.Client // used to measure, not measured itself
}

// startServer starts a server for a large fleet, with further arguments.
func startServer(ctx context.Context, o *options, args ...string) (*server, error) {
	all := []string{
		"--maxclients", "19900", "--tcp-backlog", "4096",
		"--slowlog-log-slower-than", "1000", "--slowlog-max-len", "4096",
	}
	for _, setting := range o.redis {
		name, value, _ := strings.Cut(setting, "=")
		all = append(all, "--"+name, value)
	}
	process, err := testkit.Launch(append(all, args...)...)
	if err != nil {
		return nil, err
	}
	s := &server{process: process}
	s.admin = s.dial()
	if err := s.admin.Ping(ctx).Err(); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *server) stop() {
	_ = s.admin.Close()
	s.process.Stop()
}

// dial returns a client as users have it, except that it waits for a server that is kept busy.
func (s *server) dial() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.process.Addr(), ReadTimeout: time.Minute})
}

// empty deletes everything.
func (s *server) empty(ctx context.Context) error {
	return s.admin.FlushAll(ctx).Err()
}

// cost is what something took of the server.
type cost struct {
	elapsed time.Duration
	longest time.Duration // of its calls, 0 if all are under a millisecond
	info.Reading
}

// core returns which part of a core the server kept busy, in percent.
func (c cost) core() float64 { return 100 * c.CPU.Seconds() / c.elapsed.Seconds() }

// measure returns what do takes of the server: the memory that it has more then, and the peak since
// it was started.
func (s *server) measure(ctx context.Context, do func() error) (cost, error) {
	before, err := s.read(ctx)
	if err != nil {
		return cost{}, err
	}
	start := time.Now()
	if err := do(); err != nil {
		return cost{}, err
	}
	elapsed := time.Since(start)
	longest, err := s.longest(ctx)
	if err != nil {
		return cost{}, err
	}
	after, err := s.read(ctx)
	if err != nil {
		return cost{}, err
	}
	after.CPU -= before.CPU
	after.Commands -= before.Commands
	after.Scripts -= before.Scripts
	after.Memory -= before.Memory
	after.Connections -= before.Connections
	after.Connected -= before.Connected
	after.Channels -= before.Channels
	after.Sent -= before.Sent
	return cost{elapsed: elapsed, longest: longest, Reading: after}, nil
}

// read returns a reading, after the server has forgotten what was slow.
func (s *server) read(ctx context.Context) (info.Reading, error) {
	if err := s.admin.SlowLogReset(ctx).Err(); err != nil {
		return info.Reading{}, err
	}
	return info.Read(ctx, s.admin)
}

// weigh returns how much more memory the server has after do, not counting its connections: their
// buffers shrink when they are idle for a while. It ends them.
func (s *server) weigh(ctx context.Context, do func() error) (int64, error) {
	before, err := s.weight(ctx)
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := s.weight(ctx)
	return after - before, err
}

// weight returns the memory of the server without connections but its own.
func (s *server) weight(ctx context.Context) (int64, error) {
	for _, kind := range []string{"normal", "pubsub"} {
		if err := s.admin.ClientKillByFilter(ctx, "TYPE", kind).Err(); err != nil {
			return 0, err
		}
	}
	reading, err := s.read(ctx)
	return reading.Memory, err
}

// longest returns how long the longest of the noted calls took. Those of the bench do not count.
func (s *server) longest(ctx context.Context) (time.Duration, error) {
	entries, err := s.admin.SlowLogGet(ctx, 4096).Result()
	if err != nil {
		return 0, err
	}
	var longest time.Duration
	for _, entry := range entries {
		switch strings.ToLower(entry.Args[0]) {
		case "client", "flushall", "info", "script", "slowlog":
		default:
			longest = max(longest, entry.Duration)
		}
	}
	return longest, nil
}
