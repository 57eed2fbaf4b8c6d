package workqueue

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
)

// A Handler works items. What it returns says what becomes of the item:
//
//   - nil completes it;
//   - the error of [Drop] completes it too, and is logged;
//   - any other error leaves it alone: its lease is not renewed any more, and when that has
//     ended, the next cleaning puts the item back. A panic does the same.
//
// The context ends when the lease is lost or the worker was stopped; [context.Cause] tells
// which: [ErrLeaseLost] or [ErrStopped]. An item that is not done when the worker stops is
// put back at once.
//
// Items are worked at least once: a handler may be called again for an item that it has
// worked already.
type Handler func(ctx context.Context, item *Item) error

// JSONHandler returns a handler for items whose data is JSON: it is decoded into a T first.
// An item whose data does not fit is dropped, for another try would not mend it.
func JSONHandler[T any](work func(ctx context.Context, item *Item, value T) error) Handler {
	return func(ctx context.Context, item *Item) error {
		value, err := ItemJSON[T](item)
		if err != nil {
			return Drop(err)
		}
		return work(ctx, item, value)
	}
}

// Drop returns an error for a [Handler] to say that another try would not help: the item is
// completed, and the error is logged. The protocol keeps no failed items.
func Drop(err error) error { return &dropped{err} }

type dropped struct{ error }

func (d *dropped) Unwrap() error { return d.error }

// WorkerConfig says how a worker works. Its zero value works.
type WorkerConfig struct {
	// CompleteFirst completes an item before the handler is called, and calls it only if that
	// was the first completion: the item is worked at most once, by all clients together, and
	// never if the worker dies in between. What the handler returns is only logged.
	CompleteFirst bool

	// Concurrency is how many items are worked at once. Defaults to 10.
	Concurrency int

	// Lease is how long an item is leased. The lease is renewed at a third of that while the
	// handler runs, so it need not cover the longest item; it is how long an item waits that
	// was given up, or whose worker died. It is in whole seconds, a fraction is rounded up.
	// Defaults to 1 min.
	Lease time.Duration

	// Logger is where the worker reports. Defaults to [slog.Default].
	Logger *slog.Logger

	// ShutdownTimeout is how long running handlers may take to end when the worker is
	// stopped. Then their contexts end. Defaults to 20 s.
	ShutdownTimeout time.Duration
}

func (c WorkerConfig) withDefaults() WorkerConfig {
	if c.Concurrency == 0 {
		c.Concurrency = 10
	}
	if c.Lease == 0 {
		c.Lease = time.Minute
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.ShutdownTimeout == 0 {
		c.ShutdownTimeout = 20 * time.Second
	}
	return c
}

func (c WorkerConfig) check() error {
	switch {
	case c.Concurrency < 0:
		return invalid("work", "Concurrency %d is negative", c.Concurrency)
	case c.ShutdownTimeout < 0:
		return invalid("work", "ShutdownTimeout %v is negative", c.ShutdownTimeout)
	}
	return checkLease("work", c.Lease)
}

// A Worker leases items and gives them to its handler, as many at once as its concurrency
// says. It renews the lease of every item that is worked, and rides out a server that is
// away.
//
// It does not clean: run a [Cleaner] somewhere.
type Worker struct {
	db      redis.UniversalClient
	queue   *Queue
	handler Handler
	cfg     WorkerConfig
}

// NewWorker returns a worker of a queue. It does nothing until it is run.
func NewWorker(db redis.UniversalClient, queue *Queue, handler Handler, config WorkerConfig) *Worker {
	cfg := config.withDefaults()
	cfg.Logger = cfg.Logger.With("queue", queue.prefix)
	return &Worker{db: db, queue: queue, handler: handler, cfg: cfg}
}

// departTimeout bounds how long a worker that stops waits for handlers whose contexts have
// ended, and for a server that may be away.
const departTimeout = 2 * time.Second

// Run works items until the context ends. Then it takes no more, gives running handlers the
// ShutdownTimeout to end, ends their contexts, puts back what they did not finish, and
// returns nil. An idle worker takes up to a second to stop. To stop at a signal, use a
// context of [os/signal.NotifyContext].
//
// A handler that runs on after its context has ended is left behind after two seconds: its
// lease is not renewed, and so its item comes back.
//
// It returns [ErrInvalid] for a configuration that can't be used. A server that is away is
// waited for. Cost of an item: two scripts, and one for each third of a lease that it takes.
// An idle worker sends one command a second.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.cfg.check(); err != nil {
		return err
	}
	if w.handler == nil {
		return invalid("work", "there is no handler")
	}
	working, end := redisx.Outlive(ctx, w.cfg.ShutdownTimeout, ErrStopped)
	defer end(ErrStopped) // for handlers that are left behind
	var handlers sync.WaitGroup
	w.lease(ctx, func(item *Item, free func()) {
		handlers.Go(func() {
			defer free()
			w.work(working, item)
		})
	})

	ended := make(chan struct{})
	go func() { handlers.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil
	case <-working.Done():
	}
	timer := time.NewTimer(departTimeout)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		w.cfg.Logger.Warn("workqueue: handlers run on after the worker has stopped")
	}
	return nil
}

// lease leases items as long as there is room for them, until the context ends.
func (w *Worker) lease(ctx context.Context, begin func(item *Item, free func())) {
	room := make(chan struct{}, w.cfg.Concurrency)
	failures := 0
	for {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return
		}
		item, err := w.queue.Lease(ctx, w.db, true, 0, w.cfg.Lease)
		switch {
		case item != nil:
			failures = 0
			begin(item, func() { <-room })
			continue
		case ctx.Err() != nil:
			return
		case err != nil:
			w.cfg.Logger.Warn("workqueue: nothing could be leased", "error", err)
			failures++
			backoff.Wait(ctx, failures)
		}
		<-room
	}
}

// backoff says how long to wait before something that failed is tried again.
var backoff = redisx.Backoff{First: 15 * time.Millisecond, Longest: 3840 * time.Millisecond}
