package qless

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// quietLog returns a log that is discarded.
func quietLog() *workerLog {
	return &workerLog{logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

// A registerCall is one call of a registrar.
type registerCall struct {
	info workerInfo
	age  time.Duration
}

// newTestRegistrar returns a registrar in a bubble, and a function that returns its calls. Each is
// answered by the error that another function returns.
func newTestRegistrar(answer func() error, paused *atomic.Bool) (*registrar, func() []registerCall) {
	var mu sync.Mutex
	var calls []registerCall
	r := &registrar{
		log: quietLog(), now: time.Now, again: newSignal(), inStep: newHub(nil).inStep,
		describe: func() workerInfo { return workerInfo{Paused: paused.Load()} },
		send: func(_ context.Context, info workerInfo, age time.Duration) error {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, registerCall{info, age})
			return answer()
		},
	}
	return r, func() []registerCall {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(calls)
	}
}

// maxRunTime runs a registrar in a bubble while a function runs.
func (r *registrar) maxRunTime(t *testing.T, during func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := closedAfter(func() { r.run(ctx) })
	synctest.Wait()
	during()
	cancel()
	<-done
}

func TestAWorkerRegistersAtItsStartAndOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, calls := newTestRegistrar(func() error { return nil }, new(atomic.Bool))
		r.maxRunTime(t, func() {
			require.Len(t, calls(), 1)
			require.Zero(t, calls()[0].age)
			time.Sleep(time.Hour) // of the bubble
			synctest.Wait()
		})
		require.InDelta(t, 63, len(calls()), 4)
		for i, call := range calls()[1:] {
			require.LessOrEqual(t, call.age-calls()[i].age, registerInterval)
		}
	})
}

func TestAWorkerThatChangesRegistersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var paused atomic.Bool
		r, calls := newTestRegistrar(func() error { return nil }, &paused)
		r.maxRunTime(t, func() {
			for range 5 {
				r.again.notify() // nothing has changed
				synctest.Wait()
			}
			require.Len(t, calls(), 1)
			paused.Store(true)
			r.again.notify()
			synctest.Wait()
			require.Len(t, calls(), 2)
			require.True(t, calls()[1].info.Paused)
		})
	})
}

func TestAWorkerThatCanNotRegisterTriesAgain(t *testing.T) {
	for name, c := range map[string]struct {
		err         error
		least, most int // calls in a minute
	}{
		"the server is away": {errors.New("no connection"), 55, 130},
		"the server refuses": {serverAnswer("OOM command not allowed"), 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var back atomic.Bool
				r, calls := newTestRegistrar(func() error {
					if back.Load() {
						return nil
					}
					return c.err
				}, new(atomic.Bool))
				r.maxRunTime(t, func() {
					time.Sleep(time.Minute - time.Second)
					synctest.Wait()
					require.GreaterOrEqual(t, len(calls()), c.least)
					require.LessOrEqual(t, len(calls()), c.most)
					back.Store(true)
					time.Sleep(2 * time.Second)
					synctest.Wait()
					n := len(calls())
					time.Sleep(50 * time.Second)
					synctest.Wait()
					require.Len(t, calls(), n, "it is registered")
				})
			})
		})
	}
}

// A serverAnswer is an error that a server answers.
type serverAnswer string

func (s serverAnswer) Error() string { return string(s) }
func (serverAnswer) RedisError()     {}
