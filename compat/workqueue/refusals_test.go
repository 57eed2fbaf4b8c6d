package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/compat/workqueue"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/testkit"
)

// The server refuses commands, loses answers and crashes. Every item whose adding was confirmed is
// run and completed, no item is completed twice, and no key is left.
func TestChaosOfRefusals(t *testing.T) {
	for name, disturb := range map[string]func(c *testkit.Chaos, t testing.TB){
		"refusals": func(c *testkit.Chaos, t testing.TB) { c.Refusing(t, 16) },
		"everything": func(c *testkit.Chaos, t testing.TB) {
			c.Everything(t, 16, workqueue.LeaseSHA, workqueue.CompleteSHA, "brpoplpush")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newRefusals(t)
			stops := []func(){}
			for range 2 {
				config := workqueue.WorkerConfig{Concurrency: 4, Lease: time.Second}
				stops = append(stops, c.start(c.chaos.Client(t, commandHook(c.completes)), config, c.work))
			}
			ctx, stop := context.WithCancel(t.Context())
			var others sync.WaitGroup
			for adder := range 3 {
				others.Go(func() { c.adds(ctx, adder) })
			}
			others.Go(func() { c.cleans(ctx) })
			disturb(c.chaos, t)
			stop()
			others.Wait()
			c.eventually(func() bool {
				_, _ = c.LightClean(t.Context(), c.rdb)
				_, _ = c.DeepClean(t.Context(), c.rdb)
				n, err := c.rdb.DBSize(t.Context()).Result()
				return err == nil && n == 0
			}, "keys are left")
			for _, stop := range stops {
				stop()
			}
			require.Empty(t, c.dump())
			c.check(name == "refusals")
		})
	}
}

// refusalsEnv is the environment of a chaos test with refusals.
type refusalsEnv struct {
	*env
	chaos *testkit.Chaos

	mu        sync.Mutex
	added     map[string]bool // certainly added
	run       map[string]int
	completed map[string]int
}

func newRefusals(t testing.TB) *refusalsEnv {
	t.Helper()
	chaos, server := testkit.NewChaos(t, newRand(t))
	return &refusalsEnv{
		env:       &env{Queue: workqueue.New("P"), t: t, server: server, rdb: server.Client(t)},
		chaos:     chaos,
		added:     map[string]bool{},
		run:       map[string]int{},
		completed: map[string]int{},
	}
}

func (c *refusalsEnv) work(_ context.Context, item *workqueue.Item) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run[item.ID]++
	if c.run[item.ID] == 1 && len(c.run)%20 == 0 {
		return errors.New("once more")
	}
	return nil
}

// completes counts completed items.
func (c *refusalsEnv) completes(cmd redis.Cmder, done bool) {
	reply, ok := cmd.(interface{ Val() any })
	complete := runs(cmd, workqueue.CompleteSHA) || runs(cmd, workqueue.CompleteText)
	if !done || !ok || !complete || cmd.Err() != nil || reply.Val() != int64(1) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.completed[fmt.Sprint(cmd.Args()[8])]++
}

// adds adds items until ctx ends.
func (c *refusalsEnv) adds(ctx context.Context, adder int) {
	client := c.chaos.Client(c.t, nil)
	backoff := redisx.Backoff{First: 2 * time.Millisecond, Longest: 30 * time.Millisecond}
	failures := 0
	for i := 0; ctx.Err() == nil; i++ {
		id := fmt.Sprint(adder, "-", i)
		_, err := c.AddItem(c.t.Context(), client, item(id))
		failures++
		if err == nil {
			failures = 1
			c.mu.Lock()
			c.added[id] = true
			c.mu.Unlock()
		}
		backoff.Wait(ctx, failures)
	}
}

func (c *refusalsEnv) cleans(ctx context.Context) {
	client := c.chaos.Client(c.t, nil)
	for redisx.Sleep(ctx, 100*time.Millisecond) {
		_, _ = c.LightClean(ctx, client)
	}
}

// check requires that all added items were run and completed. If no answers were lost, each
// completion was reported.
func (c *refusalsEnv) check(told bool) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.NotEmpty(c.t, c.added)
	for id := range c.added {
		require.Positive(c.t, c.run[id], id)
		require.True(c.t, !told || c.completed[id] == 1, id)
	}
	for id, times := range c.completed {
		require.Equal(c.t, 1, times, id)
	}
	c.t.Logf("%d items added, %d run, %d seen to be completed",
		len(c.added), len(c.run), len(c.completed))
}
