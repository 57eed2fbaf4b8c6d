package workqueue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/qless/qless-go/internal/redisx"
)

// work calls the handler for an item, and ends the item as it says.
func (w *Worker) work(ctx context.Context, item *Item) {
	if w.cfg.CompleteFirst {
		w.workOnce(ctx, item)
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var keeper sync.WaitGroup
	keeper.Go(func() { w.keep(ctx, cancel, item) })
	err := redisx.ErrGoexit
	defer func() { // even when the handler ends its goroutine
		w.finish(ctx, item, err)
		cancel(nil)
		keeper.Wait()
	}()
	err = w.call(ctx, item)
}

// workOnce completes an item, and calls the handler only when nobody has done so before.
func (w *Worker) workOnce(ctx context.Context, item *Item) {
	log := w.cfg.Logger.With("id", item.ID)
	first, err := w.queue.Complete(ctx, w.db, item)
	switch {
	case err != nil:
		log.Error("workqueue: an item could not be completed, and was not worked", "error", err)
	case first:
		err := redisx.ErrGoexit
		defer func() {
			if err != nil {
				log.Error("workqueue: an item that is worked only once has failed", "error", err)
			}
		}()
		err = w.call(ctx, item)
	}
}

// call calls the handler; a panic is an error.
func (w *Worker) call(ctx context.Context, item *Item) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("panic: %v\n%s", value, debug.Stack())
		}
	}()
	return w.handler(ctx, item)
}

// keep renews the lease of an item until the context ends, and ends it when the lease is
// lost.
func (w *Worker) keep(ctx context.Context, cancel context.CancelCauseFunc, item *Item) {
	lease := redisx.SecondsUp(w.cfg.Lease)
	lost := func() { cancel(ErrLeaseLost) }
	expiry := time.AfterFunc(lease, lost) // a server that hangs must not hold this up
	defer expiry.Stop()
	timer := time.NewTimer(lease / 3)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		asked := time.Now()
		held, err := w.queue.Renew(ctx, w.db, item, lease)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.cfg.Logger.Warn("workqueue: a lease could not be renewed", "id", item.ID, "error", err)
			timer.Reset(lease / 20)
		case !held:
			lost()
			return
		default:
			expiry.Reset(lease - time.Since(asked))
			timer.Reset(lease / 3)
		}
	}
}

// finish ends an item after the handler has returned something.
func (w *Worker) finish(ctx context.Context, item *Item, err error) {
	log := w.cfg.Logger.With("id", item.ID)
	telling, stop := redisx.Outlive(ctx, departTimeout, ErrStopped)
	defer stop(nil)
	var drop *dropped
	switch {
	case err == nil:
		w.complete(telling, item)
	case errors.As(err, &drop):
		log.Error("workqueue: an item was dropped", "error", err)
		w.complete(telling, item)
	case errors.Is(context.Cause(ctx), ErrStopped):
		if _, err := w.queue.Release(telling, w.db, item); err != nil {
			log.Warn("workqueue: an item could not be put back; its lease will end", "error", err)
		}
	case errors.Is(context.Cause(ctx), ErrLeaseLost):
		log.Warn("workqueue: a lease was lost", "error", err)
	default:
		log.Warn("workqueue: an item failed, and comes back after its lease", "error", err)
	}
}

// complete completes an item, however often that has to be tried, as long as a lease lasts.
// Whoever else has the item by then may complete it, too.
func (w *Worker) complete(ctx context.Context, item *Item) {
	for begin, failures := time.Now(), 0; ; failures++ {
		_, err := w.queue.Complete(ctx, w.db, item)
		if err == nil {
			return
		}
		w.cfg.Logger.Warn("workqueue: an item could not be completed", "id", item.ID, "error", err)
		if time.Since(begin) > w.cfg.Lease || !backoff.Wait(ctx, failures+1) {
			return
		}
	}
}
