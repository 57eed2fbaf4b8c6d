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

// work calls the handler for an item, and finishes the item with its result.
func (w *Worker) work(ctx context.Context, item *Item) {
	if w.cfg.CompleteFirst {
		w.workOnce(ctx, item)
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var keeper sync.WaitGroup
	keeper.Go(func() { w.keep(ctx, cancel, item) })
	err := redisx.ErrGoexit
	defer func() { // even if the handler calls runtime.Goexit
		w.finish(ctx, item, err)
		cancel(nil)
		keeper.Wait()
	}()
	err = w.call(ctx, item)
}

// workOnce completes an item, and calls the handler only if no other call had completed it.
func (w *Worker) workOnce(ctx context.Context, item *Item) {
	log := w.cfg.Logger.With("id", item.ID)
	first, err := w.queue.Complete(ctx, w.db, item)
	switch {
	case err != nil:
		log.Error("workqueue: an item could not be completed and was not run", "error", err)
	case first:
		err := redisx.ErrGoexit
		defer func() {
			if err != nil {
				log.Error("workqueue: an item that runs at most once failed", "error", err)
			}
		}()
		err = w.call(ctx, item)
	}
}

// call calls the handler; a panic becomes an error.
func (w *Worker) call(ctx context.Context, item *Item) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("panic: %v\n%s", value, debug.Stack())
		}
	}()
	return w.handler(ctx, item)
}

// keep renews the lease of an item until ctx is done, and cancels it if the lease is lost.
func (w *Worker) keep(ctx context.Context, cancel context.CancelCauseFunc, item *Item) {
	lease := redisx.SecondsUp(w.cfg.Lease)
	lost := func() { cancel(ErrLeaseLost) }
	expiry := time.AfterFunc(lease, lost) // fires even if the server hangs
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

// finish ends the handling of an item after the handler has returned err.
func (w *Worker) finish(ctx context.Context, item *Item, err error) {
	log := w.cfg.Logger.With("id", item.ID)
	endCtx, stop := redisx.Outlive(ctx, departTimeout, ErrStopped)
	defer stop(nil)
	var drop *dropped
	switch {
	case err == nil:
		w.complete(endCtx, item)
	case errors.As(err, &drop):
		log.Error("workqueue: an item was dropped", "error", err)
		w.complete(endCtx, item)
	case errors.Is(context.Cause(ctx), ErrStopped):
		if _, err := w.queue.Release(endCtx, w.db, item); err != nil {
			log.Warn("workqueue: an item could not be released; its lease will expire", "error", err)
		}
	case errors.Is(context.Cause(ctx), ErrLeaseLost):
		log.Warn("workqueue: lease lost", "error", err)
	default:
		log.Warn("workqueue: an item failed, and comes back after its lease", "error", err)
	}
}

// complete completes an item, and retries for as long as a lease lasts. If another client has the
// item by then, it may complete it as well.
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
