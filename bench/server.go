package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/bench/internal/info"
	"github.com/qless/qless-go/internal/testkit"
)

// server is the Redis that all peers are measured on.
type server struct {
	process *testkit.Server
	admin   *redis.Client // used to measure, not measured itself
	counter *counter      // nil unless it counts instructions
}

func startServer(ctx context.Context, args ...string) (*server, error) {
	return launch(ctx, nil, args)
}

func launch(ctx context.Context, c *counter, args []string) (*server, error) {
	process, err := testkit.LaunchUnder(c.command(), args...)
	if err != nil {
		return nil, err
	}
	s := &server{process: process, counter: c}
	s.admin = s.dial(1)
	if err := s.admin.Ping(ctx).Err(); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *server) stop() {
	_ = s.admin.Close()
	s.process.Stop()
	s.counter.remove()
}

func (s *server) addr() string { return s.process.Addr() }

// dial returns a client with a connection for each of the given number of goroutines.
func (s *server) dial(goroutines int) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: s.addr(), PoolSize: poolSize(goroutines), PoolTimeout: slowest,
		DialTimeout: slowest, ReadTimeout: slowest, WriteTimeout: slowest,
	})
}

// slowest is how long a server may take to answer: one under callgrind is 50 times slower.
const slowest = time.Minute

// poolSize is how many connections a client of that many goroutines may have: one each, and a few
// for other uses.
func poolSize(goroutines int) int { return goroutines + 4 }

// empty deletes everything, and returns once that is done.
func (s *server) empty(ctx context.Context) error {
	return s.admin.Do(ctx, "flushall", "sync").Err()
}

// set changes a setting of the server, and returns a function that restores it.
func (s *server) set(ctx context.Context, name, value string) (func() error, error) {
	old, err := s.admin.ConfigGet(ctx, name).Result()
	if err != nil {
		return nil, err
	}
	before, known := old[name]
	if !known {
		return nil, fmt.Errorf("unknown server setting %s", name)
	}
	restore := func() error {
		return s.admin.ConfigSet(context.WithoutCancel(ctx), name, before).Err()
	}
	return restore, s.admin.ConfigSet(ctx, name, value).Err()
}

// version returns the server's version.
func (s *server) version(ctx context.Context) (string, error) {
	text, err := s.admin.Info(ctx, "server").Result()
	return info.Field(text, "redis_version"), err
}

// build returns the server's version, and what tells apart programs of that version.
func (s *server) build(ctx context.Context) (string, error) {
	text, err := s.admin.Info(ctx, "server").Result()
	return info.Field(text, "redis_version") + " " + info.Field(text, "redis_build_id"), err
}
