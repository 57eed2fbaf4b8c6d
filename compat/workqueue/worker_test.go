package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/compat/workqueue"
	"github.com/qless/qless-go/internal/testkit"
)

// start runs a worker in the background, and returns a function that stops it. The end of the test
// stops it in any case.
func (e *env) start(
	db *redis.Client, config workqueue.WorkerConfig, handler workqueue.Handler,
) (stop func()) {
	e.t.Helper()
	if config.Logger == nil {
		config.Logger = quiet
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- workqueue.NewWorker(db, e.Queue, handler, config).Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(e.t, testkit.Soon(e.t, "the end of the worker", done))
	})
	e.t.Cleanup(stop)
	return stop
}

func TestWorkerCompletesWhatItsHandlerDoes(t *testing.T) {
	e := newEnv(t)
	worked := make(chan string, 100)
	stop := e.start(e.rdb, workqueue.WorkerConfig{Concurrency: 3}, func(_ context.Context, item *workqueue.Item) error {
		worked <- item.ID + ": " + string(item.Data)
		return nil
	})
	var want, got []string
	for i := range 20 {
		e.add(fmt.Sprint(i))
		want = append(want, fmt.Sprintf("%d: data of %d", i, i))
		got = append(got, testkit.Soon(t, "an item", worked))
	}
	require.Equal(t, want, got)
	stop()
	require.Empty(t, e.dump())
}

func TestWorkerWorksSeveralAtOnce(t *testing.T) {
	e := newEnv(t)
	const n = 5
	var together sync.WaitGroup
	together.Add(n)
	finished := make(chan bool, n)
	e.start(e.rdb, workqueue.WorkerConfig{Concurrency: n}, func(context.Context, *workqueue.Item) error {
		together.Done()
		together.Wait() // ends only if all handlers run at once
		finished <- true
		return nil
	})
	for i := range n {
		e.add(fmt.Sprint(i))
	}
	for range n {
		testkit.Soon(t, "an item", finished)
	}
}

func TestWorkerTakesNoMoreThanItCanWork(t *testing.T) {
	e := newEnv(t)
	begun, end := make(chan string, 9), make(chan bool)
	e.start(e.rdb, workqueue.WorkerConfig{Concurrency: 1}, func(_ context.Context, item *workqueue.Item) error {
		begun <- item.ID
		<-end
		return nil
	})
	e.add("a", "b")
	require.Equal(t, "a", testkit.Soon(t, "a", begun))
	require.Equal(t, []string{"b"}, e.list("P:queue"))
	end <- true
	require.Equal(t, "b", testkit.Soon(t, "b", begun))
	close(end)
}

func TestWorkerRenewsTheLease(t *testing.T) {
	e := newEnv(t)
	renewals := make(chan bool, 100)
	client := e.hooked(func(cmd redis.Cmder, done bool) {
		if done && runs(cmd, workqueue.RenewSHA) {
			renewals <- true
		}
	})
	result := make(chan error, 1)
	stop := e.start(client, workqueue.WorkerConfig{Lease: time.Second}, func(ctx context.Context, _ *workqueue.Item) error {
		for range 5 { // much longer than one lease
			testkit.Soon(t, "a renewal", renewals)
			require.Empty(t, e.light())
		}
		result <- ctx.Err()
		return nil
	})
	e.add("a")
	require.NoError(t, testkit.Soon(t, "the item", result))
	stop()
	require.Empty(t, e.dump())
}

// After an error, a panic or the exit of its goroutine, an item is requeued on lease expiry.
func TestWhatFailsComesBackAfterItsLease(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error":  func() error { return errors.New("not today") },
		"panic":  func() error { panic("not today") },
		"goexit": func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			logged := make(chan string, 10)
			failed := false
			done := make(chan bool, 1)
			config := workqueue.WorkerConfig{Concurrency: 1, Logger: slog.New(logTo(logged))}
			stop := e.start(e.rdb, config, func(_ context.Context, item *workqueue.Item) error {
				if !failed {
					failed = true
					return fail()
				}
				done <- true
				return nil
			})
			e.add("a")
			line := testkit.Soon(t, "the failure", logged)
			require.Contains(t, line, "comes back after its lease")
			if name == "panic" {
				require.Contains(t, line, "worker_test.go", "the stack")
			}
			require.Empty(t, e.light(), "the lease still holds")
			e.endLease("a")
			require.Equal(t, []string{"a"}, e.light().Reset)
			testkit.Soon(t, "the second try", done)
			stop()
			require.Empty(t, e.dump())
		})
	}
}

func TestDroppedItemsAreCompleted(t *testing.T) {
	e := newEnv(t)
	logged := make(chan string, 10)
	worked := make(chan int, 10)
	stop := e.start(e.rdb, workqueue.WorkerConfig{Concurrency: 1, Logger: slog.New(logTo(logged))},
		workqueue.JSONHandler(func(_ context.Context, _ *workqueue.Item, value int) error {
			worked <- value
			return nil
		}))
	e.add("text") // not JSON
	require.NoError(t, e.AddUniqueItem(t.Context(), e.rdb, workqueue.Item{ID: "number", Data: []byte("7")}))
	require.Equal(t, 7, testkit.Soon(t, "the number", worked))
	require.Contains(t, testkit.Soon(t, "the report", logged), "an item was dropped")
	stop()
	require.Empty(t, e.dump())
	require.ErrorIs(t, workqueue.Drop(context.Canceled), context.Canceled)
}

// After a lost lease, the handler's context ends, and a late success completes nothing that may
// belong to another worker.
func TestALostLeaseEndsTheContext(t *testing.T) {
	for name, c := range map[string]struct {
		lose func(e *env)
		kept map[string]any // what the late success leaves to others
	}{
		"completed": {func(e *env) { e.complete("a") }, nil},
		"taken": {
			func(e *env) { e.cli("SETEX P:lease:a 100 other") },
			map[string]any{"P:item:a": "data of a"},
		},
		"added again": {
			(*env).replace,
			map[string]any{"P:item:a": "second", "P:lease:a": "other"},
		},
		"hanging": {func(e *env) { e.server.Suspend() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			begun, cause := make(chan bool), make(chan error, 1)
			stop := e.start(e.rdb, workqueue.WorkerConfig{Lease: time.Second, Concurrency: 1},
				func(ctx context.Context, _ *workqueue.Item) error {
					begun <- true
					<-ctx.Done()
					cause <- context.Cause(ctx)
					return nil
				})
			e.add("a")
			testkit.Soon(t, "the item", begun)
			c.lose(e)
			err := testkit.Soon(t, "the end of the context", cause)
			require.ErrorIs(t, err, workqueue.ErrLeaseLost)
			e.server.Resume()
			stop()
			for key, value := range c.kept {
				require.Equal(t, value, e.cli("GET "+key), key)
			}
		})
	}
}

// replace completes the item a in one step with an addition and a lease of another item a.
func (e *env) replace() {
	e.t.Helper()
	must(e.rdb.TxPipelined(e.t.Context(), func(pipe redis.Pipeliner) error {
		pipe.Del(e.t.Context(), "P:item:a", "P:lease:a")
		pipe.LRem(e.t.Context(), "P:processing", 0, "a")
		pipe.Set(e.t.Context(), "P:item:a", "second", 0)
		pipe.LPush(e.t.Context(), "P:processing", "a")
		pipe.SetEx(e.t.Context(), "P:lease:a", "other", 100*time.Second)
		return nil
	}))(e.t)
}

func TestAStoppedWorkerLetsHandlersEnd(t *testing.T) {
	e := newEnv(t)
	begun, end, done := make(chan bool), make(chan bool), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	worker := workqueue.NewWorker(e.rdb, e.Queue, func(ctx context.Context, _ *workqueue.Item) error {
		begun <- true
		<-end
		return ctx.Err()
	}, workqueue.WorkerConfig{Concurrency: 1, Logger: quiet})
	go func() { done <- worker.Run(ctx) }()
	e.add("a", "b")
	testkit.Soon(t, "the item", begun)
	cancel()
	close(end)
	require.NoError(t, testkit.Soon(t, "the end of the worker", done))
	require.Equal(t, map[string]any{"P:queue": []string{"b"}, "P:item:b": "data of b"}, e.dump())
}

func TestAStoppedWorkerPutsBackWhatIsNotDone(t *testing.T) {
	e := newEnv(t)
	begun, cause := make(chan bool, 2), make(chan error, 2)
	stop := e.start(e.rdb, workqueue.WorkerConfig{Concurrency: 2, ShutdownTimeout: time.Nanosecond},
		func(ctx context.Context, item *workqueue.Item) error {
			begun <- true
			<-ctx.Done()
			cause <- context.Cause(ctx)
			if item.ID == "done" {
				return nil
			}
			return ctx.Err()
		})
	e.add("a", "done", "b")
	testkit.Soon(t, "an item", begun)
	testkit.Soon(t, "an item", begun)
	stop()
	require.ErrorIs(t, <-cause, workqueue.ErrStopped)
	require.Equal(t, []string{"b", "a"}, e.list("P:queue"), "it is the next")
	require.Empty(t, e.list("P:processing"))
	require.Nil(t, e.cli("GET P:item:done"))
}

func TestAHandlerThatDoesNotEndIsLeftBehind(t *testing.T) {
	e := newEnv(t)
	begun, end, ended := make(chan bool), make(chan bool), make(chan bool)
	stop := e.start(e.rdb, workqueue.WorkerConfig{ShutdownTimeout: time.Nanosecond},
		func(context.Context, *workqueue.Item) error {
			defer close(ended)
			begun <- true
			<-end
			return errors.New("too late")
		})
	e.add("a")
	testkit.Soon(t, "the item", begun)
	stop()
	require.Equal(t, []string{"a"}, e.list("P:processing"))
	close(end)
	testkit.Soon(t, "the handler", ended)
}

func TestWorkerRidesOutAServerThatIsAway(t *testing.T) {
	e := newEnv(t)
	worked, proceed := make(chan string, 10), make(chan bool, 10)
	e.start(e.rdb, workqueue.WorkerConfig{Concurrency: 1}, func(_ context.Context, item *workqueue.Item) error {
		worked <- item.ID
		<-proceed
		return nil
	})
	e.add("a")
	require.Equal(t, "a", testkit.Soon(t, "a", worked))
	e.server.Kill()
	proceed <- true // the item can't be completed now
	e.server.Restart()
	proceed <- true
	e.eventually(func() bool {
		_, err := e.AddItem(t.Context(), e.rdb, item("b"))
		return err == nil
	}, "the server is back")
	require.Equal(t, "b", testkit.Soon(t, "b", worked))
}

// A completion with a lost reply is retried.
func TestWorkerTriesToCompleteAgain(t *testing.T) {
	e := newEnv(t)
	tries := make(chan error, 10)
	var cut atomic.Bool
	client := e.hooked(func(cmd redis.Cmder, done bool) {
		if !runs(cmd, workqueue.CompleteSHA) {
			return
		}
		if !done && cut.CompareAndSwap(false, true) {
			e.cli("CLIENT KILL TYPE normal SKIPME yes")
		}
		if done {
			tries <- cmd.Err()
		}
	})
	e.complete("x") // loads the script
	stop := e.start(client, workqueue.WorkerConfig{Concurrency: 1}, func(context.Context, *workqueue.Item) error { return nil })
	e.add("a")
	e.eventually(func() bool { return e.cli("EXISTS P:item:a") == int64(0) }, "the item is done")
	stop()
	require.NotEmpty(t, tries)
}

func TestCompleteFirstRunsAtMostOnce(t *testing.T) {
	e := newEnv(t)
	config := workqueue.WorkerConfig{CompleteFirst: true}
	worked := make(chan bool, 10)
	handler := func(context.Context, *workqueue.Item) error {
		require.Nil(t, e.cli("GET P:item:a"), "it is completed already")
		worked <- true
		return errors.New("too bad")
	}
	stop := e.start(e.rdb, config, handler)
	e.add("a")
	testkit.Soon(t, "the item", worked)
	stop()
	require.Empty(t, e.dump())

	// Another client completes the item between the lease and the completion.
	asked := make(chan bool, 10)
	client := e.hooked(func(cmd redis.Cmder, done bool) {
		if runs(cmd, workqueue.CompleteSHA) {
			if done {
				asked <- true
			} else {
				e.complete("a")
			}
		}
	})
	stop = e.start(client, config, handler)
	e.add("a")
	testkit.Soon(t, "the completion", asked)
	stop()
	require.Empty(t, worked)
}

func TestWorkerConfigsThatCannotBeUsed(t *testing.T) {
	queue := workqueue.New("P")
	handler := func(context.Context, *workqueue.Item) error { return nil }
	for _, config := range []workqueue.WorkerConfig{{Concurrency: -1}, {Lease: -1}, {ShutdownTimeout: -1}} {
		require.ErrorIs(t, workqueue.NewWorker(nil, queue, handler, config).Run(t.Context()), workqueue.ErrInvalid)
	}
	require.ErrorIs(t, workqueue.NewWorker(nil, queue, nil, workqueue.WorkerConfig{}).Run(t.Context()), workqueue.ErrInvalid)
}
