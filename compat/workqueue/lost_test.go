package workqueue_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/compat/workqueue"
	"github.com/qless/qless-go/internal/testkit"
)

// through returns a client that reaches the server through a proxy.
func (e *env) through() (*testkit.Proxy, *redis.Client) {
	e.t.Helper()
	proxy := testkit.NewProxy(e.t, e.server.Addr())
	client := redis.NewClient(testkit.Options(proxy.Addr()))
	e.t.Cleanup(func() { _ = client.Close() })
	return proxy, client
}

// An id may be added again as soon as its item is completed, even before the completing worker
// knows.
func TestALostAnswerCompletesNoItemThatWasAddedAnew(t *testing.T) {
	e := newEnv(t)
	proxy, client := e.through()
	var tries atomic.Int32
	client.AddHook(commandHook(func(cmd redis.Cmder, done bool) {
		if !done && runs(cmd, workqueue.CompleteSHA) && tries.Add(1) == 2 {
			added, err := e.AddItem(t.Context(), e.rdb, workqueue.Item{ID: "a", Data: []byte("second")})
			require.True(t, added && err == nil, "the first is completed: %v", err)
		}
	}))
	e.complete("x") // loads the script
	proxy.CutBeforeReply(workqueue.CompleteSHA)
	worked := make(chan string, 10)
	stop := e.start(client, workqueue.WorkerConfig{Concurrency: 1},
		func(_ context.Context, item *workqueue.Item) error {
			worked <- string(item.Data)
			return nil
		})
	e.add("a")
	require.Equal(t, "data of a", testkit.Soon(t, "the first item", worked))
	require.Equal(t, "second", testkit.Soon(t, "the second item", worked))
	stop()
	require.Equal(t, int32(3), tries.Load())
	require.Empty(t, e.dump())
}

// The lease may be deleted, or end early because a clock was moved.
func TestAnItemThatIsLeasedAgainCancelsItsOlderHandler(t *testing.T) {
	e := newEnv(t)
	begun, lost, end := make(chan bool), make(chan error, 2), make(chan bool)
	var first atomic.Bool
	stop := e.start(e.rdb, workqueue.WorkerConfig{Concurrency: 2, Lease: lease},
		func(ctx context.Context, _ *workqueue.Item) error {
			begun <- true
			if first.CompareAndSwap(false, true) {
				<-ctx.Done()
				lost <- context.Cause(ctx)
				return nil
			}
			<-end
			lost <- ctx.Err()
			return nil
		})
	e.add("a")
	testkit.Soon(t, "the item", begun)
	e.endLease("a")
	require.Equal(t, []string{"a"}, e.light().Reset)
	testkit.Soon(t, "the item, again", begun)
	require.ErrorIs(t, testkit.Soon(t, "the loss", lost), workqueue.ErrLeaseLost)
	require.Equal(t, "data of a", e.cli("GET P:item:a"), "the older has not completed it")
	end <- true
	require.NoError(t, testkit.Soon(t, "the end of the newer handler", lost))
	stop()
	require.Empty(t, e.dump())
}

func TestEachLeaseOfAQueueIsOneOfItsOwn(t *testing.T) {
	e := newEnv(t)
	e.add("a")
	older := e.taken("a")
	e.endLease("a")
	e.light()
	newer := e.taken("a")
	require.False(t, e.renew(e.Queue, older))
	require.False(t, e.release(e.Queue, older))
	require.True(t, e.renew(e.Queue, newer))
	require.True(t, e.release(e.Queue, newer))
}

// The answer arrives after the lease has ended.
func TestALeaseCountsFromBeforeItsRequest(t *testing.T) {
	e := newEnv(t)
	proxy, client := e.through()
	e.expire("a")
	e.light() // loads the script
	release := proxy.HoldReply(workqueue.LeaseSHA)
	defer release()
	cause := make(chan error, 1)
	e.start(client, workqueue.WorkerConfig{Concurrency: 1, Lease: time.Second},
		func(ctx context.Context, _ *workqueue.Item) error {
			select {
			case <-ctx.Done():
			case <-time.After(patience):
			}
			cause <- context.Cause(ctx)
			return errors.New("not done")
		})
	e.eventually(func() bool { return e.cli("EXISTS P:lease:a") == int64(1) }, "it is leased")
	e.eventually(func() bool { return e.cli("EXISTS P:lease:a") == int64(0) }, "the lease has ended")
	release()
	require.ErrorIs(t, testkit.Soon(t, "the end of the context", cause), workqueue.ErrLeaseLost)
}

func TestLeasesAreRenewedWithoutMemory(t *testing.T) {
	e := newEnv(t)
	for _, options := range [][]workqueue.Option{nil, {workqueue.WithOldClients()}} {
		q := workqueue.New("P", options...)
		e.add("a")
		a := e.takeAs(q)
		allow := e.server.Refuse(t, "OOM")
		held, err := q.Renew(t.Context(), e.rdb, a, 1000*time.Second)
		allow()
		require.NoError(t, err)
		require.True(t, held)
		require.Greater(t, e.cli("TTL P:lease:a"), int64(900))
		require.True(t, e.complete("a"))
	}
}

func TestItemThatComesAsTheContextEndsIsNotLost(t *testing.T) {
	e := newEnv(t)
	e.add("x")
	e.take()
	e.complete("x") // loads the script
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client := e.hooked(func(cmd redis.Cmder, done bool) {
		if !done && runs(cmd, workqueue.LeaseSHA) && cmd.Args()[len(cmd.Args())-1] == "a" {
			cancel() // after the pop, before the lease
		}
	})
	got := e.goLease(ctx, client, 0)
	e.awaitBlocked(1)
	e.add("a")
	result := testkit.Soon(t, "the lease", got)
	require.NoError(t, result.err)
	require.Equal(t, item("a"), result.item.Plain())
	e.ours(e.cli("GET P:lease:a"))
}

func TestALateItemOfAServerThatHangsIsReleased(t *testing.T) {
	e := newEnv(t)
	proxy, client := e.through()
	e.expire("a")
	e.light() // loads the script
	release := proxy.HoldReply(workqueue.LeaseSHA)
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := e.goLease(ctx, client, 0)
	e.eventually(func() bool { return e.cli("EXISTS P:lease:a") == int64(1) }, "it is leased")
	cancel()
	result := testkit.Soon(t, "the end of the call", got)
	require.ErrorIs(t, result.err, workqueue.ErrUnavailable)
	require.ErrorIs(t, result.err, context.Canceled)
	release()
	e.eventually(func() bool { return e.cli("LLEN P:queue") == int64(1) }, "it is released")
	require.Equal(t, int64(0), e.cli("EXISTS P:lease:a"))
}

func TestStoppingDoesNotWaitForAServerThatHangs(t *testing.T) {
	e := newEnv(t)
	options := testkit.Options(e.server.Addr())
	options.ReadTimeout = time.Hour
	rdb := redis.NewClient(options)
	defer func() { _ = rdb.Close() }()
	stop := e.start(rdb, workqueue.WorkerConfig{}, func(context.Context, *workqueue.Item) error { return nil })
	e.awaitBlocked(1)
	e.server.Suspend()
	defer e.server.Resume()
	stop()
}

func TestDeepCleanPassesOverTheListsOfAnotherQueue(t *testing.T) {
	e := newEnv(t)
	other := workqueue.New("P:item:b")
	must(other.AddItem(t.Context(), e.rdb, item("a")))(t)
	require.NotContains(t, e.deep().Reset, "b:queue")
}

// A hostile error panics in each of its methods.
type hostile struct{ text *string }

func (h *hostile) Error() string    { return *h.text }
func (h *hostile) As(any) bool      { panic("As") }
func (h *hostile) Is(error) bool    { panic("Is") }
func (h *hostile) Unwrap() error    { panic("Unwrap") }
func (h *hostile) String() string   { panic("String") }
func (h *hostile) GoString() string { panic("GoString") }

type hostileLog struct{ slog.Handler }

func (hostileLog) Handle(context.Context, slog.Record) error { panic("the log") }
func (h hostileLog) WithAttrs([]slog.Attr) slog.Handler      { return h }

func TestNoErrorAndNoLoggerEndsTheProgram(t *testing.T) {
	for name, err := range map[string]error{
		"a typed nil": (*hostile)(nil), "methods that panic": &hostile{},
		"a dropped one": workqueue.Drop(&hostile{}), "a dropped nil": workqueue.Drop(nil),
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			worked := make(chan bool, 2)
			for _, first := range []bool{false, true} {
				config := workqueue.WorkerConfig{
					CompleteFirst: first, Logger: slog.New(hostileLog{quiet.Handler()}),
				}
				stop := e.start(e.rdb, config, func(context.Context, *workqueue.Item) error {
					worked <- true
					return err
				})
				e.add(strings.Repeat("a", len(worked)+1))
				testkit.Soon(t, "the item", worked)
				stop()
				e.cli("FLUSHALL")
			}
		})
	}
}

// As Lease documents, the end of its context ends it within two seconds even if the server hangs.
func TestStoppingHasALimit(t *testing.T) {
	require.Less(t, workqueue.LongestStop, 2*time.Second)
}
