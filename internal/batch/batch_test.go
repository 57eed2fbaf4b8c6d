package batch_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/qless/qless-go/internal/batch"
	"github.com/qless/qless-go/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An exchange is let through by the test.
type exchange struct {
	ctx      context.Context // of a request sent alone
	requests []int
	done     chan struct{}
}

// A bench is a batcher that answers requests with their squares.
type bench struct {
	t *testing.T
	batch.Batcher[int, int]
	exchanges chan *exchange
}

// newBench returns a batcher with at most three calls in a batch.
func newBench(t *testing.T) *bench {
	b := &bench{t: t, exchanges: make(chan *exchange)}
	b.Alone = func(ctx context.Context, request int) int {
		b.pass(&exchange{ctx: ctx, requests: []int{request}})
		return request * request
	}
	b.Count = func(waiting []*batch.Call[int, int]) int { return min(len(waiting), 3) }
	b.Send = func(_ context.Context, calls []*batch.Call[int, int]) {
		e := &exchange{}
		for _, call := range calls {
			e.requests = append(e.requests, call.Request)
		}
		b.pass(e)
		for _, call := range calls {
			call.Answer(call.Request * call.Request)
		}
	}
	return b
}

func (b *bench) pass(e *exchange) {
	e.done = make(chan struct{})
	b.exchanges <- e
	<-e.done
}

// next returns the next exchange, which is in flight until its done is closed.
func (b *bench) next(requests ...int) *exchange {
	b.t.Helper()
	e := testkit.Soon(b.t, "an exchange", b.exchanges)
	require.Equal(b.t, requests, e.requests)
	return e
}

// call begins a call, and returns a channel for the result.
func (b *bench) call(ctx context.Context, request int) <-chan error {
	result := make(chan error, 1)
	go func() {
		answer, err := b.Do(ctx, request)
		if err == nil && answer != request*request {
			err = errors.New("another's answer")
		}
		result <- err
	}()
	return result
}

// join begins a call that waits for the exchange in flight.
func (b *bench) join(ctx context.Context, request int) <-chan error {
	b.t.Helper()
	before := b.Waiting()
	result := b.call(ctx, request)
	testkit.Until(b.t, "the call waits", func() bool { return b.Waiting() > before })
	return result
}

func TestACallGoesOutAloneAndInItsContext(t *testing.T) {
	for _, gather := range []bool{false, true} {
		b := newBench(t)
		b.Gather = gather
		for i := range 3 {
			result := b.call(t.Context(), i)
			e := b.next(i)
			require.Equal(t, t.Context(), e.ctx)
			close(e.done)
			require.NoError(t, testkit.Soon(t, "an answer", result))
		}
	}
}

func TestCallsShareTheNextExchangesInTheirOrder(t *testing.T) {
	b := newBench(t)
	results := []<-chan error{b.call(t.Context(), 1)}
	first := b.next(1)
	for i := 2; i <= 5; i++ {
		results = append(results, b.join(t.Context(), i))
	}
	close(first.done)
	second := b.next(2, 3, 4)
	results = append(results, b.join(t.Context(), 6))
	close(second.done)
	close(b.next(5, 6).done)
	for _, result := range results {
		require.NoError(t, testkit.Soon(t, "an answer", result))
	}
}

func TestACountBelowOneIsOne(t *testing.T) {
	b := newBench(t)
	b.Count = func([]*batch.Call[int, int]) int { return 0 }
	results := []<-chan error{b.call(t.Context(), 1)}
	first := b.next(1)
	results = append(results, b.join(t.Context(), 2), b.join(t.Context(), 3))
	close(first.done)
	close(b.next(2).done)
	close(b.next(3).done)
	for _, result := range results {
		require.NoError(t, testkit.Soon(t, "an answer", result))
	}
}

func TestACallWhoseContextEndsWhileItWaitsIsNotSent(t *testing.T) {
	b := newBench(t)
	one := b.call(t.Context(), 1)
	first := b.next(1)
	ctx, cancel := context.WithCancel(t.Context())
	gone, kept := b.join(ctx, 2), b.join(t.Context(), 3)
	cancel()
	require.ErrorIs(t, testkit.Soon(t, "an answer", gone), context.Canceled)
	close(first.done)
	close(b.next(3).done)
	require.NoError(t, testkit.Soon(t, "an answer", one))
	require.NoError(t, testkit.Soon(t, "an answer", kept))
}

func TestACallWhoseContextEndsInFlightHarmsNoOther(t *testing.T) {
	b := newBench(t)
	one := b.call(t.Context(), 1)
	first := b.next(1)
	ctx, cancel := context.WithCancel(t.Context())
	gone, kept := b.join(ctx, 2), b.join(t.Context(), 3)
	close(first.done)
	second := b.next(2, 3)
	cancel()
	require.ErrorIs(t, testkit.Soon(t, "an answer", gone), context.Canceled)
	close(second.done)
	require.NoError(t, testkit.Soon(t, "an answer", one))
	require.NoError(t, testkit.Soon(t, "an answer", kept))
}

// A call after all waiting ones have gone is sent alone again.
func TestNextCallGoesAloneWhenAllWaitingOnesLeft(t *testing.T) {
	b := newBench(t)
	one := b.call(t.Context(), 1)
	first := b.next(1)
	ctx, cancel := context.WithCancel(t.Context())
	gone := b.join(ctx, 2)
	cancel()
	require.ErrorIs(t, testkit.Soon(t, "an answer", gone), context.Canceled)
	close(first.done)
	require.NoError(t, testkit.Soon(t, "an answer", one))
	last := b.call(t.Context(), 3)
	e := b.next(3)
	require.NotNil(t, e.ctx)
	close(e.done)
	require.NoError(t, testkit.Soon(t, "an answer", last))
}

func TestAPanicDoesNotStopTheOthers(t *testing.T) {
	b := newBench(t)
	alone := b.Alone
	b.Alone = func(ctx context.Context, request int) int {
		alone(ctx, request)
		panic("broken")
	}
	panicked := make(chan any, 1)
	go func() {
		defer func() { panicked <- recover() }()
		_, _ = b.Do(t.Context(), 1)
	}()
	first := b.next(1)
	kept := b.join(t.Context(), 2)
	close(first.done)
	require.Equal(t, "broken", testkit.Soon(t, "a panic", panicked))
	close(b.next(2).done)
	require.NoError(t, testkit.Soon(t, "an answer", kept))
}

// Every call has its own answer, and no two exchanges are in flight together.
func TestManyCallsAtOnce(t *testing.T) {
	for _, gather := range []bool{false, true} {
		var flying sync.Mutex
		exchange := func() {
			require.True(t, flying.TryLock(), "two exchanges are in flight")
			runtime.Gosched()
			flying.Unlock()
		}
		b := &batch.Batcher[int, int]{Gather: gather}
		b.Alone = func(_ context.Context, request int) int { exchange(); return request + 1 }
		b.Count = func(waiting []*batch.Call[int, int]) int { return min(len(waiting), 7) }
		b.Send = func(_ context.Context, calls []*batch.Call[int, int]) {
			exchange()
			for _, call := range calls {
				call.Answer(call.Request + 1)
			}
		}
		var all sync.WaitGroup
		for i := range 32 {
			all.Go(func() {
				for j := range 200 {
					answer, err := b.Do(t.Context(), i*1000+j)
					if err != nil || answer != i*1000+j+1 {
						t.Errorf("request %d: %d, %v", i*1000+j, answer, err)
						return
					}
				}
			})
		}
		all.Wait()
		require.Zero(t, b.Waiting())
	}
}
