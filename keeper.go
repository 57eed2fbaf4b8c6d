package qless

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/wire"
)

// renewBatch bounds how many locks one script renews.
const renewBatch = 500

// keepLocks renews the lock of every job that runs at a third of its time, whatever its
// handler does, and lets go of those that are lost.
func (w *Worker) keepLocks(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	failures := 0
	for {
		select {
		case <-w.beat:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		due, next := w.dueLocks()
		if len(due) > 0 {
			if w.renew(ctx, due) {
				failures = 0
				if due, next = w.dueLocks(); len(due) > 0 {
					next = 0 // the answer was slow
				}
			} else {
				failures++
				next = redisx.WhileAway.After(failures)
			}
		}
		timer.Reset(next)
	}
}

// dueLocks returns the jobs whose locks are to be renewed, and when the next one is. Locks
// that fall due soon after go with them.
func (w *Worker) dueLocks() ([]*run, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	next := time.Hour
	var due []*run
	for _, r := range w.running {
		left := r.renewAt.Sub(now)
		switch {
		case r.hold.ended.Load():
		case left <= r.until.Sub(r.renewAt)/20:
			due = append(due, r)
		default:
			next = min(next, left)
		}
	}
	w.nextBeat = now.Add(next)
	return due, next
}

// renew renews locks; false when not all could be.
func (w *Worker) renew(ctx context.Context, due []*run) bool {
	for batch := range slices.Chunk(due, renewBatch) {
		err := w.renewTogether(ctx, batch)
		if errors.Is(err, ErrServer) && len(batch) > 1 {
			err = w.renewEach(ctx, batch) // it may be about one of them
		}
		if err != nil {
			w.log.Warn("qless: locks could not be renewed", "jobs", len(batch), "error", err)
			return false
		}
	}
	return true
}

// renewTogether renews locks by one script.
func (w *Worker) renewTogether(ctx context.Context, batch []*run) error {
	jids := make([]string, len(batch))
	for i, r := range batch {
		jids[i] = r.jid
	}
	asked := time.Now()
	reply, err := w.client.run(ctx, "renew", "", anys([]any{w.client.worker}, jids...)...)
	if err != nil {
		return err
	}
	answers, err := decodeStrings("renew", reply)
	if err == nil && len(answers) != len(batch) {
		err = unexpected("renew", reply)
	}
	if err == nil {
		w.renewed(batch, answers, asked)
	}
	return err
}

// renewEach renews locks one by one, as far as that works; the last error.
func (w *Worker) renewEach(ctx context.Context, batch []*run) (failed error) {
	for _, r := range batch {
		if err := w.renewTogether(ctx, []*run{r}); err != nil {
			failed = err
		}
	}
	return failed
}

// renewed notes what the server said to renewals that were asked for at a time.
func (w *Worker) renewed(batch []*run, answers []string, asked time.Time) {
	var log notes
	w.mu.Lock()
	for i, r := range batch {
		problem, refused := strings.CutPrefix(answers[i], "!")
		if !refused {
			if w.running[r.jid] == r {
				r.doubt = nil
				r.locked(asked, wire.AsNumber(answers[i]).Duration())
				r.expiry.Reset(time.Until(r.until))
			}
			continue
		}
		if w.running[r.jid] == r && !r.hold.ended.Load() {
			w.lose(r, problem, &log)
		}
	}
	w.mu.Unlock()
	w.report(log)
}

// lose drops a job that the server says is not this worker's. The mutex is held.
func (w *Worker) lose(r *run, problem string, log *notes) {
	cause := error(ErrLockLost)
	if r.doubt != nil {
		cause = r.doubt
	} else if codeOf(problem) == CodeNotFound {
		cause = ErrCanceled
	}
	if errors.Is(cause, ErrCanceled) {
		w.canceled(r, log)
	} else {
		log.add(slog.LevelWarn, "qless: a lock is lost",
			"jid", r.jid, "klass", r.klass, "problem", problem)
	}
	w.drop(r, cause, log)
}

// expire drops a job whose lock has ended because renewals did not get through.
func (w *Worker) expire(r *run) {
	var after notes
	w.mu.Lock()
	expired := w.running[r.jid] == r && !r.hold.ended.Load() && !time.Now().Before(r.until)
	if expired {
		r.expired = true
		after.add(slog.LevelWarn, "qless: a lock has ended before it could be renewed",
			"jid", r.jid, "klass", r.klass)
		w.drop(r, ErrLockLost, &after)
	}
	w.mu.Unlock()
	w.report(after)
}

// doubt has a job's lock renewed at once, because an event says that it is lost. The event may
// be about an earlier lock of the same job, or the server may still give the lock back.
func (w *Worker) doubt(jid string, cause error) {
	w.mu.Lock()
	if r, ok := w.running[jid]; ok {
		r.doubt, r.renewAt = cause, time.Time{}
	}
	w.mu.Unlock()
	poke(w.beat)
}

// renewNow makes all locks due, to learn which of them are still held.
func (w *Worker) renewNow() {
	w.mu.Lock()
	for _, r := range w.running {
		r.renewAt = time.Time{}
	}
	w.mu.Unlock()
	poke(w.beat)
}
