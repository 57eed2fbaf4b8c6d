package workqueue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qless/qless-go/internal/guard"
	"github.com/qless/qless-go/internal/redisx"
)

// A handling is an item with this worker's lease for handling it.
type handling struct {
	*Item
	cancel context.CancelCauseFunc // ends the handler's context
	lost   atomic.Bool             // the lease is known to be lost
	asked  time.Time               // the lease began no earlier
}

// begin begins to handle an item, with the returned context. If this worker is still handling the
// item under an earlier lease, that lease has expired, so the earlier handler is canceled.
func (w *Worker) begin(ctx context.Context, found finding) (context.Context, *handling) {
	ctx, cancel := context.WithCancelCause(ctx)
	h := &handling{Item: found.item, cancel: cancel, asked: found.asked}
	if w.cfg.CompleteFirst { // an item is completed before being handled, and may be added again
		return ctx, h
	}
	w.mu.Lock()
	older := w.working[h.ID]
	w.working[h.ID] = h
	w.mu.Unlock()
	if older != nil {
		older.lose()
	}
	return ctx, h
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

// lose cancels the handler, because the lease is lost.
func (h *handling) lose() {
	h.lost.Store(true)
	h.cancel(ErrLeaseLost)
}

// work calls the handler for an item, and finishes the item with its result.
func (w *Worker) work(ctx context.Context, h *handling) {
	if w.cfg.CompleteFirst {
		defer h.cancel(nil)
		w.workOnce(ctx, h.Item)
		return
	}
	var keeper sync.WaitGroup
	keeper.Go(func() { w.keep(ctx, h) })
	err := guard.ErrGoexit
	defer func() { // even if the handler calls runtime.Goexit
		w.finish(ctx, h, err)
		w.end(h)
		keeper.Wait()
	}()
	err = w.call(ctx, h.Item)
}

// workOnce completes an item, and calls the handler only if this was the first completion.
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
func (w *Worker) keep(ctx context.Context, h *handling) {
	lease := redisx.SecondsUp(w.cfg.Lease)
	expiry := time.AfterFunc(lease-time.Since(h.asked), h.lose) // fires even if the server hangs
	defer expiry.Stop()
	timer := time.NewTimer(lease/3 - time.Since(h.asked))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		asked := time.Now()
		held, err := w.queue.Renew(ctx, w.db, h.Item, lease)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.cfg.Logger.Warn("workqueue: a lease could not be renewed", "id", h.ID, "error", err)
			timer.Reset(lease / 20)
		case !held:
			h.lose()
			return
		default:
			expiry.Reset(lease - time.Since(asked))
			timer.Reset(lease / 3)
		}
	}
}

// finish ends the handling of an item after the handler has returned err.
func (w *Worker) finish(working context.Context, h *handling, err error) {
	log := w.cfg.Logger.With("id", h.ID)
	ctx, stop := redisx.Outlive(working, departTimeout, ErrStopped)
	defer stop(nil)
	switch {
	case err == nil:
		w.complete(ctx, h)
	case isDrop(err):
		log.Error("workqueue: an item was dropped", "error", err)
		w.complete(ctx, h)
	case errors.Is(context.Cause(working), ErrStopped):
		if _, err := w.queue.Release(ctx, w.db, h.Item); err != nil {
			log.Warn("workqueue: an item could not be released; its lease will expire", "error", err)
		}
	case h.lost.Load():
		log.Warn("workqueue: lease lost", "error", err)
	default:
		log.Warn("workqueue: an item failed, and comes back after its lease", "error", err)
	}
}

// complete completes an item, and retries while the lease holds. Once completed, an item may be
// added again under its id. If that may have happened, after a lost lease or a possibly successful
// attempt, the item is completed only if it still has this lease.
func (w *Worker) complete(ctx context.Context, h *handling) {
	complete := w.queue.Complete
	for began, failures := time.Now(), 1; ; failures++ {
		if h.lost.Load() {
			complete = w.queue.completeHeld
		}
		completed, err := complete(ctx, w.db, h.Item)
		if err == nil {
			if !completed && h.lost.Load() {
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
