package workqueue

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/guard"
	"github.com/qless/qless-go/internal/redisx"
)

// A Handler runs an item. Its result decides what happens to the item:
//
//   - nil completes it.
//   - The error of [Drop] completes it too, and is logged.
//   - After any other error, or a panic, the lease is no longer renewed. Once it has ended, the
//     next cleaning requeues the item.
//
// The context is canceled when the lease is lost or the worker was stopped; [context.Cause] is then
// [ErrLeaseLost] or [ErrStopped]. An item not done when the worker stops is requeued at once. After
// a lost lease, nil completes the item only if still held by that lease: otherwise the item belongs
// to another worker, or is a new item with the same id.
//
// Items run at least once: a handler may be called again for the same item.
type Handler func(ctx context.Context, item *Item) error

// JSONHandler returns a handler that decodes the JSON data of each item into a T. An item with
// unsuitable data is dropped, because retrying would not help.
func JSONHandler[T any](work func(ctx context.Context, item *Item, value T) error) Handler {
	return func(ctx context.Context, item *Item) error {
		value, err := ItemJSON[T](item)
		if err != nil {
			return Drop(err)
		}
		return work(ctx, item, value)
	}
}

// Drop returns an error for a [Handler] to return if retrying would not help: the item is
// completed, and the error is logged. The protocol does not keep failed items.
func Drop(err error) error { return &dropped{err} }

type dropped struct{ err error }

func (d *dropped) Error() string {
	if d.err == nil {
		return "dropped"
	}
	return guard.Text(d.err)
}

func (d *dropped) Unwrap() error { return d.err }

// isDrop reports whether a handler's error, with methods that may not return, is from [Drop].
func isDrop(err error) bool {
	drop, _ := guard.Value(guard.Call, func() bool { return errors.As(err, new(*dropped)) })
	return drop
}

// WorkerConfig configures a [Worker]. The zero value is ready to use.
type WorkerConfig struct {
	// CompleteFirst completes an item before the handler is called, and calls the handler only if no
	// other client had completed the item: across all clients the item runs at most once, and not at
	// all if the worker dies in between. The handler's error is only logged.
	CompleteFirst bool

	// Concurrency is the number of items run at once. Defaults to 10.
	Concurrency int

	// Lease is the length of leases. It need not cover the longest item, because the lease is renewed
	// after each third while the handler runs. A failed item, or the item of a dead worker, waits that
	// long. Lease is in whole seconds, rounded up. Defaults to 1 min.
	Lease time.Duration

	// Logger receives the worker's log. Defaults to [slog.Default].
	Logger *slog.Logger

	// ShutdownTimeout limits how long running handlers may continue after the worker is stopped. Then
	// their contexts are canceled. Defaults to 20 s.
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

// A Worker leases items and calls its handler for up to Concurrency items at once. It renews the
// leases of running items, and waits for a server that is away.
//
// A Worker does not clean: run a [Cleaner] somewhere.
type Worker struct {
	db      redis.UniversalClient
	queue   *Queue
	handler Handler
	cfg     WorkerConfig

	mu      sync.Mutex
	working map[string]*handling // by id
}

// NewWorker returns a worker for a queue. It does nothing until [Worker.Run] is called.
func NewWorker(
	db redis.UniversalClient, queue *Queue, handler Handler, config WorkerConfig,
) *Worker {
	cfg := config.withDefaults()
	cfg.Logger = guard.Logger(cfg.Logger).With("queue", queue.prefix)
	return &Worker{
		db: db, queue: queue, handler: handler, cfg: cfg, working: map[string]*handling{},
	}
}

// departTimeout limits how long a stopping worker waits for handlers with canceled contexts, and
// for a server that may be away.
const departTimeout = 2 * time.Second

// Run runs items until ctx is done. Then Run takes no more items, gives running handlers the
// ShutdownTimeout to end, cancels their contexts, requeues unfinished items, and returns nil. An
// idle worker takes up to a second to stop, two if the server hangs. To stop on a signal, use a
// context from [os/signal.NotifyContext].
//
// A handler that is still running two seconds after its context was canceled is abandoned: the
// lease is no longer renewed, so the item is requeued.
//
// Run returns [ErrInvalid] for an invalid configuration. If the server goes away, Run waits for the
// server. Cost per item: two scripts, and one more for each third of a lease. An idle worker sends
// one command a second.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.cfg.check(); err != nil {
		return err
	}
	if w.handler == nil {
		return invalid("work", "the handler is nil")
	}
	working, end := redisx.Outlive(ctx, w.cfg.ShutdownTimeout, ErrStopped)
	defer end(ErrStopped) // for abandoned handlers
	var handlers sync.WaitGroup
	w.lease(ctx, func(found finding, free func()) {
		handling, h := w.begin(working, found)
		handlers.Go(func() {
			defer free()
			w.work(handling, h)
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
		w.cfg.Logger.Warn("workqueue: handlers are still running after the worker stopped")
	}
	return nil
}

// lease leases items while there are free slots, until ctx is done.
func (w *Worker) lease(ctx context.Context, begin func(found finding, free func())) {
	room := make(chan struct{}, w.cfg.Concurrency)
	failures := 0
	for {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return
		}
		found, err := w.queue.lease(ctx, w.db, true, 0, w.cfg.Lease)
		switch {
		case found.item != nil:
			failures = 0
			begin(found, func() { <-room })
			continue
		case ctx.Err() != nil:
			return
		case err != nil:
			w.cfg.Logger.Warn("workqueue: leasing failed", "error", err)
			failures++
			backoff.Wait(ctx, failures)
		}
		<-room
	}
}

// backoff is the delay between retries.
var backoff = redisx.Backoff{First: 15 * time.Millisecond, Longest: 3840 * time.Millisecond}
