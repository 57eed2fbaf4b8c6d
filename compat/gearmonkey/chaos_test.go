package gearmonkey_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/compat/gearmonkey"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/testkit"
)

// The server refuses commands, loses answers and crashes, and workers come and go. Every queued job
// ends, except for the losses allowed by the protocol: one for each lost answer to a pop, and the
// jobs reported as lost by a stopping worker. No other keys are left.
func TestChaosOfRefusals(t *testing.T) {
	t.Parallel()
	for name, disturb := range map[string]func(c *testkit.Chaos, t testing.TB){
		"refusals": func(c *testkit.Chaos, t testing.TB) { c.Refusing(t, 16) },
		"everything": func(c *testkit.Chaos, t testing.TB) {
			c.Everything(t, 16, "finish:", "start:", "hmset", "brpop", "evalsha", "lpush")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newChaosEnv(t)
			working, stopWorkers := context.WithCancel(t.Context())
			defer stopWorkers()
			adding, stopAdders := context.WithCancel(t.Context())
			defer stopAdders()
			var workers, adders sync.WaitGroup
			for range 3 {
				client := c.chaos.Client(t, commandHook(c.pops))
				workers.Go(func() { c.works(working, client) })
				adders.Go(func() { c.adds(adding) })
			}
			disturb(c.chaos, t)
			stopAdders()
			adders.Wait()
			c.sweeps()
			stopWorkers()
			workers.Wait()
			c.check(name == "refusals")
		})
	}
}

// chaosEnv is the environment of a chaos test.
type chaosEnv struct {
	*env
	chaos *testkit.Chaos

	mu        sync.Mutex
	random    *rand.Rand
	queued    map[int64]bool // certainly queued
	created   map[int64]bool // perhaps not queued
	lostPops  int            // pops with a lost answer
	notBegun  int            // jobs reported as lost by a worker
	miscounts int            // reported by workers
}

func newChaosEnv(t testing.TB) *chaosEnv {
	t.Helper()
	seed := testkit.Seed(t)
	chaos, server := testkit.NewChaos(t, rand.New(rand.NewPCG(seed, 0)))
	rdb := server.Client(t)
	return &chaosEnv{
		env:     &env{Client: gearmonkey.NewClient(rdb), t: t, server: server, rdb: rdb},
		chaos:   chaos,
		random:  rand.New(rand.NewPCG(seed, 1)),
		queued:  map[int64]bool{},
		created: map[int64]bool{},
	}
}

func (c *chaosEnv) draw(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n)
}

func (c *chaosEnv) count(n *int, by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n += by
}

// works runs one worker after another until ctx ends.
func (c *chaosEnv) works(ctx context.Context, rdb *redis.Client) {
	cfg := config()
	cfg.Logger = slog.New(lossLog{cfg.Logger.Handler(), c})
	for ctx.Err() == nil {
		working, stop := context.WithCancel(ctx)
		worker := gearmonkey.NewWorker(gearmonkey.NewClient(rdb), cfg)
		worker.Accept("F", func(_ context.Context, job *gearmonkey.Job) ([]byte, error) {
			if c.draw(20) == 0 {
				stop()
			}
			return append([]byte("out of "), job.Input...), nil
		})
		if err := worker.Work(working); err != nil {
			var own *gearmonkey.Error
			if !errors.As(err, &own) || own.Op == "sign out" || !redisx.IsAnswer(err) {
				c.count(&c.miscounts, 1)
			}
			redisx.Sleep(ctx, 10*time.Millisecond)
		}
		stop()
	}
}

// lossLog counts the jobs reported as lost by a worker.
type lossLog struct {
	slog.Handler
	c *chaosEnv
}

func (lossLog) Enabled(context.Context, slog.Level) bool { return true }

func (l lossLog) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l lossLog) Handle(_ context.Context, record slog.Record) error {
	if strings.Contains(record.Message, "no longer in any queue") {
		l.c.count(&l.c.notBegun, 1)
	}
	return nil
}

// pops counts the pops with lost answers.
func (c *chaosEnv) pops(cmd redis.Cmder, next func() error) error {
	err := next()
	pop := cmd.Name() == "brpop" || cmd.Name() == "evalsha"
	if pop && err != nil && !redisx.IsAnswer(err) && !redisx.NeverRan(err) {
		c.count(&c.lostPops, 1)
	}
	return err
}

// adds queues jobs until ctx ends.
func (c *chaosEnv) adds(ctx context.Context) {
	client := gearmonkey.NewClient(c.chaos.Client(c.t, nil))
	backoff := redisx.Backoff{First: 2 * time.Millisecond, Longest: 30 * time.Millisecond}
	options := []gearmonkey.RunOption{gearmonkey.High, gearmonkey.Normal, gearmonkey.At(now)}
	for failures := 1; ctx.Err() == nil; failures++ {
		id, err := client.Run(c.t.Context(), "F", []byte("x"), options[c.draw(len(options))])
		c.mu.Lock()
		c.created[id] = id != 0
		if err == nil {
			c.queued[id] = true
			failures = 1
		}
		c.mu.Unlock()
		backoff.Wait(ctx, failures)
	}
}

// sweeps waits until no jobs wait, and sweeps until none is busy.
func (c *chaosEnv) sweeps() {
	c.t.Helper()
	clock := now
	sweeper := gearmonkey.NewSweeper(c.Client, sweeping(&clock))
	c.eventually(func() bool {
		_, err := sweeper.Sweep(c.t.Context())
		clock = clock.Add(time.Minute)
		queues, failed := c.rdb.Keys(c.t.Context(), "queue:F:*").Result()
		return err == nil && failed == nil && len(queues) == 0 && c.statuses()["busy"] == 0
	})
}

// statuses counts the jobs by status.
func (c *chaosEnv) statuses() map[string]int {
	all := map[string]int{}
	for _, key := range c.rdb.Keys(c.t.Context(), "job:F:*").Val() {
		all[c.rdb.HGet(c.t.Context(), key, "status").Val()]++
	}
	return all
}

// check requires that queued jobs have ended, except for the losses allowed by the protocol. If no
// answers were lost, no losses are allowed.
func (c *chaosEnv) check(answered bool) {
	c.t.Helper()
	lost := 0
	for id := range c.queued {
		state := must(c.Get(c.t.Context(), "F", id))(c.t)
		if state.Status == gearmonkey.StatusIdle {
			lost++
			continue
		}
		require.Equal(c.t, gearmonkey.StatusSuccess, state.Status, "%d", id)
		require.Equal(c.t, "out of x", string(state.Output))
		require.Positive(c.t, c.rdb.TTL(c.t.Context(), "job:F:"+formatID(id)).Val())
	}
	c.t.Logf("%d jobs queued, %d lost; %d answers to pops lost, %d said to be lost, %d miscounts; %v",
		len(c.queued), lost, c.lostPops, c.notBegun, c.miscounts, c.statuses())
	require.NotEmpty(c.t, c.queued)
	require.LessOrEqual(c.t, lost, c.lostPops+c.notBegun)
	if answered {
		require.Zero(c.t, lost)
	}
	workers := must(strconv.Atoi(fmt.Sprint(c.cli("GET count:F"))))(c.t)
	require.LessOrEqual(c.t, max(workers, -workers), c.miscounts)
	for _, key := range c.rdb.Keys(c.t.Context(), "*").Val() {
		kind, _, _ := strings.Cut(key, ":")
		require.Contains(c.t, []string{"uid", "count", "job", "lock"}, kind, key)
	}
}
