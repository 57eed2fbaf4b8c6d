// Package batch lets concurrent calls of goroutines share exchanges with a server.
package batch

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// A Batcher combines calls with a request Q and an answer A. A call that arrives while no other is
// in flight is sent alone, on its own goroutine. Calls that arrive in the meantime wait and are
// sent together, so that one exchange is in flight at a time. The fields must be set before the
// first call.
type Batcher[Q, A any] struct {
	// Alone answers a request that is sent alone.
	Alone func(ctx context.Context, request Q) A

	// Count returns how many calls at the beginning of a non-empty list to send together. It is called
	// with the lock held. Less than 1 counts as 1.
	Count func(waiting []*Call[Q, A]) int

	// Send answers all calls of a batch. The context has the values of the first call's context, and
	// the latest of the deadlines if every call has one.
	Send func(ctx context.Context, batch []*Call[Q, A])

	// Gather makes calls in a burst wait for each other.
	Gather bool

	burst Burst // used only by the sending goroutine

	mu      sync.Mutex
	sending bool
	waiting []*Call[Q, A] // in order of arrival
	joined  chan struct{} // receives when a call waits, if Gather is set
}

// A Call waits for its answer.
type Call[Q, A any] struct {
	Context context.Context
	Request Q
	done    chan A // has room for the answer
}

func newCall[Q, A any](ctx context.Context, request Q) *Call[Q, A] {
	return &Call[Q, A]{Context: ctx, Request: request, done: make(chan A, 1)}
}

// Answer ends a call. Send must call it once for each call of the batch.
func (c *Call[Q, A]) Answer(answer A) { c.done <- answer }

// Do returns the answer to a request. If the context ends while the call waits, the request is not
// sent. If it ends while the call's batch is in flight, the answer is not read. In both cases, the
// error is the context's. For a request sent alone, Alone decides.
func (b *Batcher[Q, A]) Do(ctx context.Context, request Q) (A, error) {
	call := b.join(ctx, request)
	if call == nil && b.Gather {
		b.burst.Wait(b.joined, func() int { return 1 + b.Waiting() })
		call = b.follow(ctx, request)
	}
	if call == nil {
		defer b.sent()
		b.burst.Sent(1)
		return b.Alone(ctx, request), nil
	}
	select {
	case answer := <-call.done:
		return answer, nil
	case <-ctx.Done():
		b.leave(call)
		var none A
		return none, ctx.Err()
	}
}

// Waiting returns the number of calls waiting for the exchange in flight.
func (b *Batcher[Q, A]) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)
}

// join adds a call to the waiting ones, or returns nil if the call can be sent at once.
func (b *Batcher[Q, A]) join(ctx context.Context, request Q) *Call[Q, A] {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.sending {
		b.sending = true
		if b.Gather && b.joined == nil {
			b.joined = make(chan struct{}, 1)
		}
		return nil
	}
	call := newCall[Q, A](ctx, request)
	b.waiting = append(b.waiting, call)
	select {
	case b.joined <- struct{}{}:
	default:
	}
	return call
}

// follow makes a call that could be sent alone the first of the calls that have arrived since. It
// returns nil without such calls.
func (b *Batcher[Q, A]) follow(ctx context.Context, request Q) *Call[Q, A] {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		return nil
	}
	call := newCall[Q, A](ctx, request)
	b.waiting = slices.Insert(b.waiting, 0, call)
	go b.run()
	return call
}

// leave removes a waiting call.
func (b *Batcher[Q, A]) leave(call *Call[Q, A]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiting, call); i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	}
}

// sent starts sending the calls that arrived while one was in flight alone.
func (b *Batcher[Q, A]) sent() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sending = len(b.waiting) > 0
	if b.sending {
		go b.run()
	}
}

// run sends batches until no call waits.
func (b *Batcher[Q, A]) run() {
	for {
		if b.Gather {
			b.burst.Wait(b.joined, b.Waiting)
		} else {
			runtime.Gosched() // let goroutines that are about to call join the batch
		}
		batch := b.take()
		if len(batch) == 0 {
			return
		}
		ctx, cancel := contextOf(batch)
		b.burst.Sent(len(batch))
		b.Send(ctx, batch)
		cancel()
	}
}

// contextOf returns the context for sending a batch.
func contextOf[Q, A any](batch []*Call[Q, A]) (context.Context, context.CancelFunc) {
	ctx := context.WithoutCancel(batch[0].Context)
	var latest time.Time
	for _, call := range batch {
		deadline, ok := call.Context.Deadline()
		if !ok {
			return ctx, func() {}
		}
		if deadline.After(latest) {
			latest = deadline
		}
	}
	return context.WithDeadline(ctx, latest)
}

// take returns the next calls to send.
func (b *Batcher[Q, A]) take() []*Call[Q, A] {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sending = len(b.waiting) > 0
	if !b.sending {
		return nil
	}
	n := max(1, b.Count(b.waiting))
	batch := slices.Clone(b.waiting[:n])
	b.waiting = slices.Delete(b.waiting, 0, n)
	return batch
}
