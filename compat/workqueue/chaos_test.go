package workqueue_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/compat/workqueue"
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

// Connections break at random; every item whose adding was confirmed is run and completed once.
func TestChaosOfConnections(t *testing.T) {
	e := newEnv(t)
	random := newRand(t)
	const items = 150
	adding, surely := e.server.Client(t), map[string]bool{}
	completed := map[string]int{}
	var mu sync.Mutex
	worker := func(context.Context, *workqueue.Item) error { return nil }
	const data = 3 // the first key follows the name, the digest and the number of keys
	client := e.hooked(func(cmd redis.Cmder, done bool) {
		if done && runs(cmd, workqueue.CompleteSHA) && cmd.Err() == nil {
			if reply, ok := cmd.(interface{ Val() any }); ok && reply.Val() == int64(1) {
				mu.Lock()
				completed[fmt.Sprint(cmd.Args()[data])]++
				mu.Unlock()
			}
		}
	})
	stop := e.start(client, workqueue.WorkerConfig{}, worker)
	for i := range items {
		id := fmt.Sprint(i)
		if _, err := e.AddItem(t.Context(), adding, item(id)); err == nil {
			surely[id] = true
		}
		if random.IntN(10) == 0 {
			_ = e.server.Client(t).Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal").Err()
		}
	}
	gone := func() bool {
		for _, key := range e.rdb.Keys(t.Context(), "P:lease:*").Val() {
			_ = e.rdb.Del(t.Context(), key).Err() // a lost worker's
		}
		_, _ = e.LightClean(t.Context(), e.rdb)
		n, err := e.rdb.Exists(t.Context(), "P:queue", "P:processing").Result()
		return err == nil && n == 0
	}
	e.eventually(gone, "items are left")
	stop()
	require.Empty(t, e.dump())
	require.NotEmpty(t, surely)
	mu.Lock()
	defer mu.Unlock()
	for key, times := range completed {
		require.Equal(t, 1, times, key)
	}
}
