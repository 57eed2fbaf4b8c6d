package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/compat/workqueue"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/testkit"
)

// Adders, workers that die at random, and cleaners of both kinds share a queue. Leases end at
// random, even those of running workers. Every item is completed once, and no key is left.
func TestChaos(t *testing.T) {
	e := newEnv(t)
	random := newRand(t)
	const items = 400
	var mu sync.Mutex
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	completed := map[string]int{}
	ctx, stop := context.WithCancel(t.Context())
	var adders, others sync.WaitGroup
	for adder := range 4 {
		adders.Go(func() {
			for i := range items / 4 {
				_, _ = e.AddItem(t.Context(), e.rdb, item(fmt.Sprint(adder, "-", i)))
			}
		})
	}
	for range 6 {
		others.Go(func() {
			session := workqueue.New("P")
			for ctx.Err() == nil {
				leased, err := session.Lease(ctx, e.rdb, draw(2) == 0, 0, lease)
				if err != nil || leased == nil || draw(4) == 0 {
					continue // dies if it had one
				}
				if first, err := session.Complete(t.Context(), e.rdb, leased); err == nil && first {
					mu.Lock()
					completed[leased.ID]++
					mu.Unlock()
				}
			}
		})
	}
	for cleaner := range 3 {
		others.Go(func() {
			for ctx.Err() == nil {
				if cleaner == 0 {
					_, _ = e.DeepClean(ctx, e.rdb)
				} else {
					_, _ = e.LightClean(ctx, e.rdb)
				}
				e.endSomeLease(ctx, draw)
			}
		})
	}
	adders.Wait()
	e.eventually(func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(completed) == items
	}, "not all items are completed")
	stop()
	others.Wait()
	for id, times := range completed {
		require.Equal(t, 1, times, id)
	}
	e.drain()
	require.Empty(t, e.dump())
}

// endSomeLease ends one of the leases.
func (e *env) endSomeLease(ctx context.Context, draw func(int) int) {
	leases, err := e.rdb.Keys(ctx, "P:lease:*").Result()
	if err == nil && len(leases) > 0 {
		_ = e.rdb.Del(ctx, leases[draw(len(leases))]).Err()
	}
}

// drain removes ids without data from the lists.
func (e *env) drain() {
	e.t.Helper()
	for e.cli("EXISTS P:queue") == int64(1) {
		require.Nil(e.t, e.take())
	}
	e.light()
}

// The server refuses commands, loses answers and crashes. Every item with a confirmed add is run
// and completed, no item is completed twice, and no key is left.
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

// A walk interleaves steps of this package and of clients like the crate in any possible order of
// arrival of their commands at the server. Each client can stop after any step.
type walk struct {
	*env
	popped []string          // by other clients, which have not leased them yet
	leased []*workqueue.Item // by this package, at some time
}

// steps are the possible next steps for an item.
var steps = []struct {
	name string
	do   func(w *walk, id string)
}{
	{"another client adds", func(w *walk, id string) { // in one pipeline
		if w.cli("SETNX P:item:"+id+" data") == int64(1) {
			w.cli("LPUSH P:queue " + id)
		}
	}},
	{"we add", func(w *walk, id string) {
		must(w.AddItem(w.t.Context(), w.rdb, item(id)))(w.t)
	}},
	{"another client pops", func(w *walk, _ string) {
		if id, ok := w.cli("RPOPLPUSH P:queue P:processing").(string); ok {
			w.popped = append(w.popped, id)
		}
	}},
	{"another client leases what it has popped", func(w *walk, _ string) {
		if len(w.popped) > 0 {
			id := w.popped[0]
			w.popped = w.popped[1:]
			w.cli("SETEX P:lease:" + id + " 100 somebody")
		}
	}},
	{"another client completes", func(w *walk, id string) { // its commands arrive together
		w.cli("DEL P:item:" + id)
		w.cli("LREM P:processing 0 " + id)
		w.cli("DEL P:lease:" + id)
	}},
	{"we lease", func(w *walk, _ string) {
		if leased := w.take(); leased != nil {
			w.leased = append(w.leased, leased)
		}
	}},
	{"we complete", func(w *walk, id string) { w.complete(id) }},
	{"we renew", func(w *walk, _ string) {
		for _, one := range w.leased {
			w.renew(w.Queue, one)
		}
	}},
	{"we release", func(w *walk, _ string) {
		for _, one := range w.leased {
			w.release(w.Queue, one)
		}
		w.leased = nil
	}},
	{"a lease ends", func(w *walk, id string) { w.endLease(id) }},
	{"a light cleaning", func(w *walk, _ string) { w.light() }},
	{"a deep cleaning", func(w *walk, _ string) { w.deep() }},
}

// Whatever the order of the steps, an item is in a list as long as it exists. Only a client that
// dies between two commands, or removes ids from lists, leaves an item for a deep cleaning.
func TestItemsAreAlwaysInAList(t *testing.T) {
	e := newEnv(t)
	random := newRand(t)
	for range 20 {
		w := &walk{env: e}
		e.cli("FLUSHALL")
		var path []string
		for range 100 {
			id := fmt.Sprint(random.IntN(2))
			step := steps[random.IntN(len(steps))]
			step.do(w, id)
			path = append(path, step.name+" "+id)
			w.requireListed(path)
		}
	}
}

func (w *walk) requireListed(path []string) {
	w.t.Helper()
	all := slices.Concat(w.list("P:queue"), w.list("P:processing"))
	for _, id := range []string{"0", "1"} {
		if w.cli("EXISTS P:item:"+id) == int64(1) {
			require.Contains(w.t, all, id, "%q", path)
		}
	}
}
