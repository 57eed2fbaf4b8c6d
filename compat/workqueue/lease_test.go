package workqueue_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/compat/workqueue"
	"github.com/qless/qless-go/internal/testkit"
)

func TestALeaseHasTheSessionAndATTLInSeconds(t *testing.T) {
	e := newEnv(t)
	for _, c := range []struct {
		asked time.Duration
		pttl  int64
	}{
		{100 * time.Second, 100_000}, {time.Nanosecond, 1000}, {1500 * time.Millisecond, 2000},
	} {
		e.add("a")
		must(e.Lease(t.Context(), e.rdb, true, 0, c.asked))(t)
		e.ours(e.cli("GET P:lease:a"))
		pttl := e.cli("PTTL P:lease:a").(int64)
		require.True(t, pttl <= c.pttl && pttl > c.pttl-900, "%v: %d ms", c.asked, pttl)
		e.cli("FLUSHALL")
	}
	require.Regexp(t, "^[0-9a-f]{32}$", e.Session())
	require.NotEqual(t, e.Session(), workqueue.New("P").Session())
}

func TestLeaseOfAnEmptyQueueWithoutBlocking(t *testing.T) {
	e := newEnv(t)
	require.Nil(t, must(e.Lease(t.Context(), e.rdb, false, time.Hour, lease))(t))
}

func TestLeaseWaitsForItsTimeout(t *testing.T) {
	e := newEnv(t)
	for _, timeout := range []time.Duration{time.Nanosecond, 1100 * time.Millisecond} {
		begin := time.Now()
		require.Nil(t, must(e.Lease(t.Context(), e.rdb, true, timeout, lease))(t))
		require.GreaterOrEqual(t, time.Since(begin), timeout.Truncate(time.Second)+900*time.Millisecond, "whole seconds")
	}
}

func TestLeaseWaitsForAnItem(t *testing.T) {
	for _, timeout := range []time.Duration{0, patience} {
		t.Run(fmt.Sprint(timeout), func(t *testing.T) {
			e := newEnv(t)
			got := e.goLease(t.Context(), e.rdb, timeout)
			e.awaitBlocked(1)
			e.add("a")
			result := testkit.Soon(t, "the lease", got)
			require.NoError(t, result.err)
			require.Equal(t, item("a"), result.item.Plain())
			e.ours(e.cli("GET P:lease:a"))
		})
	}
}

type leased struct {
	item *workqueue.Item
	err  error
}

// goLease makes a blocking lease in the background.
func (e *env) goLease(ctx context.Context, db *redis.Client, timeout time.Duration) <-chan leased {
	got := make(chan leased, 1)
	go func() {
		item, err := e.Lease(ctx, db, true, timeout, lease)
		got <- leased{item, err}
	}()
	return got
}

// Only a Lease without a timeout skips an id without data; any other Lease returns nil. Both leave
// the id in the processing list, without a lease.
func TestLeaseOfAnIDWithoutData(t *testing.T) {
	for _, c := range []struct {
		block   bool
		timeout time.Duration
		skips   bool
	}{
		{false, 0, false}, {false, time.Hour, false}, {true, time.Hour, false}, {true, 0, true},
	} {
		t.Run(fmt.Sprint(c.block, c.timeout), func(t *testing.T) {
			e := newEnv(t)
			e.cli("LPUSH P:queue ghost")
			e.add("a")
			got := must(e.Lease(t.Context(), e.rdb, c.block, c.timeout, lease))(t)
			if c.skips {
				require.Equal(t, item("a"), got.Plain())
				require.Equal(t, []string{"a", "ghost"}, e.list("P:processing"))
			} else {
				require.Nil(t, got)
				require.Equal(t, []string{"ghost"}, e.list("P:processing"))
			}
			require.Nil(t, e.cli("GET P:lease:ghost"))
		})
	}
}

// The same holds when the id arrives while a lease waits.
func TestAnIDWithoutDataComesWhileWaiting(t *testing.T) {
	for _, endless := range []bool{false, true} {
		t.Run(fmt.Sprint(endless), func(t *testing.T) {
			e := newEnv(t)
			timeout := patience
			if endless {
				timeout = 0
			}
			got := e.goLease(t.Context(), e.rdb, timeout)
			e.awaitBlocked(1)
			e.cli("LPUSH P:queue 0")
			if endless {
				e.eventually(func() bool { return len(e.list("P:processing")) == 1 }, "the id is not taken")
				e.add("a")
			}
			result := testkit.Soon(t, "the lease", got)
			require.NoError(t, result.err)
			require.Equal(t, endless, result.item != nil)
			require.Equal(t, []string{"0"}, e.light().Dropped)
		})
	}
}

func TestCompleteByAnyone(t *testing.T) {
	e := newEnv(t)
	e.add("unleased", "other's")
	require.True(t, e.complete("unleased"))
	require.Nil(t, e.take(), "its id had no data")

	require.Equal(t, "other's", e.takeAs(workqueue.New("P")).ID)
	require.True(t, e.complete("other's"))
	e.light()
	require.Empty(t, e.dump())
}

// The id of an item requeued and then completed stays in the queue, until a lease moves the id to
// the processing list, where a light cleaning removes it.
func TestALateCompletionLeavesAnIDWhichIsCleaned(t *testing.T) {
	e := newEnv(t)
	e.expire("a")
	require.Equal(t, workqueue.Cleaned{Reset: []string{"a"}}, e.light())
	require.True(t, e.complete("a"))
	require.Equal(t, map[string]any{"P:queue": []string{"a"}}, e.dump())

	require.Nil(t, e.take())
	require.Equal(t, map[string]any{"P:processing": []string{"a"}}, e.dump())

	require.Equal(t, workqueue.Cleaned{Dropped: []string{"a"}}, e.light())
	require.Empty(t, e.dump())
}

func TestACancelledLeaseLosesNothing(t *testing.T) {
	e := newEnv(t)
	ctx, cancel := context.WithCancel(t.Context())
	got := e.goLease(ctx, e.rdb, 0)
	e.awaitBlocked(1)
	cancel()
	result := testkit.Soon(t, "the end of the lease", got)
	require.ErrorIs(t, result.err, workqueue.ErrUnavailable)
	require.ErrorIs(t, result.err, context.Canceled)

	err := errOf(e.Lease(ctx, e.rdb, false, 0, lease))
	require.ErrorIs(t, err, context.Canceled, "no command is sent")
	e.add("a")
	e.taken("a")
}

// An item that arrives after the end of the context, before the server knows, is requeued in its
// place.
func TestAnItemThatComesTooLateIsPutBack(t *testing.T) {
	e := newEnv(t)
	ctx, cancel := context.WithCancel(t.Context())
	client := e.hooked(func(cmd redis.Cmder, done bool) {
		if cmd.Name() == "brpoplpush" && !done {
			cancel()
			e.add("a", "b")
		}
	})
	require.ErrorIs(t, errOf(e.Lease(ctx, client, true, 0, lease)), context.Canceled)
	require.Equal(t, []string{"b", "a"}, e.list("P:queue"), "it is the next again")
	require.Empty(t, e.list("P:processing"))
}

// Between the pop and the lease, a cleaner may requeue the item, and another client may lease it.
func TestAnItemIsNotLeasedTwiceWhenACleanerComesBetween(t *testing.T) {
	for name, between := range map[string]func(e *env){
		"reset":                func(e *env) {},
		"reset and leased":     func(e *env) { e.takeAs(workqueue.New("P")) },
		"leased by 0.1.5":      func(e *env) { e.cli("RPOPLPUSH P:queue P:processing"); e.cli("SETEX P:leased_by_session:a 100 x") },
		"leased and completed": func(e *env) { e.takeAs(workqueue.New("P")); e.complete("a") },
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			cleaned := false
			client := e.hooked(func(cmd redis.Cmder, done bool) {
				if cmd.Name() != "brpoplpush" || cleaned {
					return
				}
				if !done {
					e.add("a")
					return
				}
				cleaned = true
				require.Equal(t, []string{"a"}, e.light().Reset)
				between(e)
				e.add("b")
			})
			got := must(e.Lease(t.Context(), client, true, 0, lease))(t)
			if name == "reset" {
				require.Equal(t, "a", got.ID, "from the queue, where it was put")
			} else {
				require.Equal(t, "b", got.ID)
			}
			e.ours(e.cli("GET P:lease:" + got.ID))
			require.NotContains(t, e.list("P:queue"), got.ID)
			require.Contains(t, e.list("P:processing"), got.ID)
		})
	}
}

// A cleaner that does not know a lease requeues the running item.
func TestALeasedItemIsNotLeasedAgain(t *testing.T) {
	e := newEnv(t)
	for _, lease := range []string{"P:lease:a", "P:leased_by_session:a"} {
		e.add("a", "b")
		e.cli("SETEX " + lease + " 100 somebody")
		e.taken("b")
		require.Equal(t, []string{"b", "a"}, e.list("P:processing"))
		require.Equal(t, "somebody", e.cli("GET "+lease))
		require.Nil(t, e.take())
		e.cli("FLUSHALL")
	}
}

func TestManyHeldItemsAreSkipped(t *testing.T) {
	e := newEnv(t)
	for i := range 350 {
		e.add(fmt.Sprint(i))
		e.cli(fmt.Sprintf("SETEX P:lease:%d 100 somebody", i))
	}
	e.add("a")
	e.taken("a")
	require.Nil(t, e.take())
}

func TestRenew(t *testing.T) {
	e := newEnv(t)
	renew := func(id string) bool { return e.renew(e.Queue, &workqueue.Item{ID: id}) }
	e.add("a")
	require.False(t, renew("a"), "it waits")
	e.taken("a")
	require.True(t, renew("a"))
	require.Greater(t, e.cli("TTL P:lease:a"), int64(900))

	e.endLease("a")
	require.True(t, renew("a"), "nothing happened to the item since its lease ended")
	e.ours(e.cli("GET P:lease:a"))

	e.endLease("a")
	e.light()
	require.False(t, renew("a"), "it is back in the queue")
	e.takeAs(workqueue.New("P"))
	require.False(t, renew("a"), "it is another's")
	require.True(t, e.complete("a"))
	require.False(t, renew("a"), "it is completed")
	require.Empty(t, e.dump())
}

func TestRelease(t *testing.T) {
	e := newEnv(t)
	release := func(q *workqueue.Queue, id string) bool {
		return e.release(q, &workqueue.Item{ID: id})
	}
	e.add("a", "b")
	e.taken("a")
	before := e.dump()
	require.False(t, release(workqueue.New("P"), "a"), "it is another's")
	require.Equal(t, before, e.dump())
	require.True(t, release(e.Queue, "a"))
	require.Equal(t, []string{"b", "a"}, e.list("P:queue"), "it is the next")
	require.Nil(t, e.cli("GET P:lease:a"))
	require.False(t, release(e.Queue, "a"), "it waits")

	e.taken("a")
	e.cli("SETEX P:leased_by_session:a 100 somebody")
	require.False(t, release(e.Queue, "a"), "a client of 0.1.5 works on it, too")
	require.Equal(t, []string{"a"}, e.list("P:processing"))
	require.True(t, e.complete("a"))
	require.False(t, release(e.Queue, "a"))
	e.taken("b")
	require.True(t, e.complete("b"))
	require.Empty(t, e.dump())
}

// With old leases, clients that check only those see that the item is held.
func TestOldClientsSeeLeases(t *testing.T) {
	e := newEnv(t, workqueue.WithOldClients())
	e.add("a")
	a := e.taken("a")
	leases := func() []any { return e.cli("MGET P:lease:a P:leased_by_session:a").([]any) }
	both := leases()
	e.ours(both[0])
	require.Equal(t, both[0], both[1])
	require.Greater(t, e.cli("TTL P:leased_by_session:a"), int64(90))

	require.True(t, e.renew(e.Queue, a))
	require.Greater(t, e.cli("TTL P:leased_by_session:a"), int64(900))

	require.True(t, e.release(e.Queue, a))
	require.Equal(t, []any{nil, nil}, leases())

	e.taken("a")
	require.True(t, e.complete("a"))
	require.Empty(t, e.dump())
}

// An old client completes first if it removes the id from the processing list; it deletes the data
// a moment later.
func TestOldClientsAndOursAgreeOnWhoIsFirst(t *testing.T) {
	e := newEnv(t, workqueue.WithOldClients())
	e.add("a")
	e.taken("a")
	e.cli("LREM P:processing 0 a")
	require.False(t, e.complete("a"), "another client is completing it")
	e.endLease("a")
	require.Equal(t, []string{"a"}, e.deep().Reset, "or has died in between")

	require.True(t, e.complete("a"), "it waits")
	require.Empty(t, e.dump(), "old clients would work an id without data")
	require.False(t, e.complete("a"))
}
