package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/testkit"
)

// A server is a Redis for measurements.
type server struct {
	process *testkit.Server
	admin   *redis.Client // used to measure, not measured itself
	counter *counter      // nil unless instructions are counted
	steady  bool          // phases begin with the garbage of earlier phases
}

// startServer starts a server, and counts its instructions if a counter is given.
func startServer(ctx context.Context, c *counter, args ...string) (*server, error) {
	all := []string{
		"--maxclients", "19900", "--tcp-backlog", "4096",
		"--slowlog-log-slower-than", "1000", "--slowlog-max-len", "4096",
	}
	if c != nil {
		all = append(all, quietSettings...)
	}
	process, err := testkit.LaunchUnder(c.command(), append(all, args...)...)
	if err != nil {
		c.remove()
		return nil, err
	}
	s := &server{process: process, counter: c}
	s.admin = s.dial(1)
	err = s.admin.Ping(ctx).Err()
	if err == nil && c != nil {
		err = s.weighMarker(ctx)
	}
	if err != nil {
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

// dial returns a client with a connection for each of the given number of goroutines or, for 0,
// with the default pool. The client waits for a busy server.
func (s *server) dial(goroutines int) *redis.Client {
	options := &redis.Options{
		Addr: s.addr(), DialTimeout: slowest, ReadTimeout: slowest, WriteTimeout: slowest,
	}
	if goroutines > 0 {
		options.PoolSize, options.PoolTimeout = poolSize(goroutines), slowest
	}
	return redis.NewClient(options)
}

// slowest is the longest time for a server to answer: callgrind makes servers 50 times slower.
const slowest = time.Minute

// poolSize returns the pool size for a client of that many goroutines: one connection each, and a
// few for other uses.
func poolSize(goroutines int) int { return goroutines + 4 }

// empty deletes everything, and waits for the end of the deletion.
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

// about returns a field of the server's INFO.
func (s *server) about(ctx context.Context, field string) (string, error) {
	text, err := s.admin.Info(ctx, "server").Result()
	return infoField(text, field), err
}

// A cost is the cost of an operation to the server.
type cost struct {
	elapsed      time.Duration
	longest      time.Duration // the longest call, or 0 if all calls are under a millisecond
	instructions int64         // replaces times if instructions are counted
	reading
}

// core returns the server's use of a core, in percent.
func (c cost) core() float64 { return 100 * c.CPU.Seconds() / c.elapsed.Seconds() }

// perScript returns the number of commands per script, or 0 without scripts.
func (c cost) perScript() float64 { return over(float64(c.Commands), float64(c.Scripts)) }

// measure returns the cost of do to the server, including the growth of memory, and the peak since
// the server's start.
func (s *server) measure(ctx context.Context, do func() error) (cost, error) {
	return s.measurePhase(ctx, "", do)
}

func (s *server) measurePhase(ctx context.Context, phase string, do func() error) (cost, error) {
	before, err := s.read(ctx)
	if err != nil {
		return cost{}, err
	}
	if err := s.startCounting(ctx); err != nil {
		return cost{}, err
	}
	start := time.Now()
	if err := do(); err != nil {
		return cost{}, err
	}
	c := cost{elapsed: time.Since(start)}
	if c.instructions, err = s.stopCounting(ctx, phase); err != nil {
		return cost{}, err
	}
	if c.longest, err = s.longest(ctx); err != nil {
		return cost{}, err
	}
	c.reading, err = s.read(ctx)
	c.CPU -= before.CPU
	c.Commands -= before.Commands
	c.Scripts -= before.Scripts
	c.Memory -= before.Memory
	c.Connections -= before.Connections
	c.Connected -= before.Connected
	c.Channels -= before.Channels
	c.Sent -= before.Sent
	if s.counter != nil {
		c.elapsed, c.CPU = 0, 0 // the times would be callgrind's, not the server's
	}
	return c, err
}

// sample measures do, for the given number of jobs.
func (s *server) sample(
	ctx context.Context, phase string, jobs int, do func() error,
) (sample, error) {
	c, err := s.measurePhase(ctx, phase, do)
	if err != nil {
		return sample{}, fmt.Errorf("%s: %w", phase, err)
	}
	return sample{phase: phase, jobs: jobs, cost: c}, nil
}

// read empties the server's slow log, and returns a reading.
func (s *server) read(ctx context.Context) (reading, error) {
	if err := s.admin.SlowLogReset(ctx).Err(); err != nil {
		return reading{}, err
	}
	return readServer(ctx, s.admin)
}

// weigh returns the growth of the server's memory during do, without connections: their buffers
// shrink after being idle for a while. It closes the connections.
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

// weight closes all other connections, and returns the memory of the server.
func (s *server) weight(ctx context.Context) (int64, error) {
	for _, kind := range []string{"normal", "pubsub"} {
		if err := s.admin.ClientKillByFilter(ctx, "TYPE", kind).Err(); err != nil {
			return 0, err
		}
	}
	now, err := s.read(ctx)
	return now.Memory, err
}

// longest returns the duration of the longest call in the slow log, apart from the bench's own.
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

// A sample holds the costs of one phase of a run. Figures that do not apply are 0.
type sample struct {
	phase string
	jobs  int
	cost
	client time.Duration // CPU time of this process, or of a gateway
	memory int64
	waits  []time.Duration // from put to handler
}

// over divides, but returns 0 if whole is 0.
func over(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return part / whole
}
