package workqueue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/qless/qless-go/internal/guard"
	"github.com/qless/qless-go/internal/redisx"
)

// A handling is an item with the lease under which this worker handles it.
type handling struct {
	*Item
	ctx    context.Context // the handler's
	cancel context.CancelCauseFunc
	asked  time.Time // the lease began no earlier
}

// begin begins to handle an item. If this worker is still handling it under an earlier lease, that
// lease has ended, so the earlier handler is canceled.
func (w *Worker) begin(ctx context.Context, found finding) *handling {
	h := &handling{Item: found.item, asked: found.asked}
	h.ctx, h.cancel = context.WithCancelCause(ctx)
	if w.cfg.CompleteFirst { // an item is completed while it is handled, and may be added again
		return h
	}
	w.mu.Lock()
	older := w.working[h.ID]
	w.working[h.ID] = h
	w.mu.Unlock()
	if older != nil {
		older.cancel(ErrLeaseLost)
	}
	return h
}

// end ends the handling of an item.
func (w *Worker) end(h *handling) {
	h.cancel(nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.working[h.ID] == h {
		delete(w.working, h.ID)
	}
}

// isLost reports whether the lease is known to be lost.
func (h *handling) isLost() bool { return errors.Is(context.Cause(h.ctx), ErrLeaseLost) }

// work calls the handler for an item, and finishes the item with its result.
func (w *Worker) work(h *handling) {
	if w.cfg.CompleteFirst {
		defer h.cancel(nil)
		w.workOnce(h.ctx, h.Item)
		return
	}
	var keeper sync.WaitGroup
	keeper.Go(func() { w.keep(h) })
	err := guard.ErrGoexit
	defer func() { // even if the handler calls runtime.Goexit
		w.finish(h, err)
		w.end(h)
		keeper.Wait()
	}()
	err = w.call(h.ctx, h.Item)
}

// workOnce completes an item, and calls the handler only if no other call had completed it.
func (w *Worker) workOnce(ctx context.Context, item *Item) {
	log := w.cfg.Logger.With("id", item.ID)
	first, err := w.queue.Complete(ctx, w.db, item)
	switch {
	case err != nil:
		log.Error("workqueue: an item could not be completed and was not run", "error", err)
	case first:
		err := guard.ErrGoexit
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

// keep renews the lease of an item until its handling ends, and cancels the handling if the lease
// is lost.
func (w *Worker) keep(h *handling) {
	lease := redisx.SecondsUp(w.cfg.Lease)
	lost := func() { h.cancel(ErrLeaseLost) }
	expiry := time.AfterFunc(lease-time.Since(h.asked), lost) // fires even if the server hangs
	defer expiry.Stop()
	timer := time.NewTimer(lease/3 - time.Since(h.asked))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-h.ctx.Done():
			return
		}
		asked := time.Now()
		held, err := w.queue.Renew(h.ctx, w.db, h.Item, lease)
		switch {
		case h.ctx.Err() != nil:
			return
		case err != nil:
			w.cfg.Logger.Warn("workqueue: a lease could not be renewed", "id", h.ID, "error", err)
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
func (w *Worker) finish(h *handling, err error) {
	log := w.cfg.Logger.With("id", h.ID)
	ctx, stop := redisx.Outlive(h.ctx, departTimeout, ErrStopped)
	defer stop(nil)
	switch {
	case err == nil:
		w.complete(ctx, h)
	case isDrop(err):
		log.Error("workqueue: an item was dropped", "error", err)
		w.complete(ctx, h)
	case errors.Is(context.Cause(h.ctx), ErrStopped):
		if _, err := w.queue.Release(ctx, w.db, h.Item); err != nil {
			log.Warn("workqueue: an item could not be released; its lease will expire", "error", err)
		}
	case h.isLost():
		log.Warn("workqueue: lease lost", "error", err)
	default:
		log.Warn("workqueue: an item failed, and comes back after its lease", "error", err)
	}
}

// complete completes an item, and retries while the lease holds. Once completed, an item may be
// added again under its id. So whenever that may have happened, after a lost lease or an attempt
// that may have succeeded, the item is completed only if it still has this lease.
func (w *Worker) complete(ctx context.Context, h *handling) {
	complete := w.queue.Complete
	for began, failures := time.Now(), 1; ; failures++ {
		if h.isLost() {
			complete = w.queue.completeHeld
		}
		completed, err := complete(ctx, w.db, h.Item)
		if err == nil {
			if !completed && h.isLost() {
				w.cfg.Logger.Warn("workqueue: an item is done, but its lease was lost: it is not completed",
					"id", h.ID)
			}
			return
		}
		w.cfg.Logger.Warn("workqueue: an item could not be completed", "id", h.ID, "error", err)
		damaged := redisx.IsDamage(err) // retrying would not help
		if damaged && time.Since(began) > w.cfg.Lease || !backoff.Wait(ctx, failures) {
			return
		}
		complete = w.queue.completeHeld
	}
}
