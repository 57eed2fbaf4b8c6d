package qless

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/wire"
)

// run is one job at work in this process.
type run struct {
	job      *Job
	jid      string // these three as the job was taken: a handler may change its own
	klass    string
	queue    string
	since    string // when it was taken, as the server said
	original json.RawMessage
	route    *route
	started  time.Time
	cancel   context.CancelCauseFunc
	hold     hold

	// The worker's mutex guards these.
	until   time.Time   // when the lock ends, by this process's clock
	renewAt time.Time   // when to renew it
	expiry  *time.Timer // goes off when the lock ends
	doubt   error       // why the lock may be lost, as an event tells
	expired bool        // the lock ended before it could be renewed
}

// locked notes that the lock lasts for a time, counted from when it was asked for.
func (r *run) locked(asked time.Time, heartbeat time.Duration) {
	r.until = asked.Add(heartbeat)
	r.renewAt = asked.Add(heartbeat / 3)
}

// attempt is 1 the first time that the job is worked in its queue.
func (r *run) attempt() int { return max(r.job.Retries-r.job.Remaining, 0) + 1 }

func (r *run) backoff(w *Worker) Backoff {
	if r.route != nil && r.route.backoff != nil {
		return r.route.backoff
	}
	return w.cfg.Backoff
}

// changedData returns the job's data when the handler has changed it, else nothing.
func (r *run) changedData() (string, error) {
	if bytes.Equal(r.job.Data, r.original) {
		return "", nil
	}
	return r.job.data("complete")
}

// begin starts to work a job that was reserved by a call sent at a time.
func (w *Worker) begin(reserved reservedJob, sent time.Time) {
	job := reserved.job
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &run{
		job:      job,
		jid:      job.JID,
		klass:    job.Klass,
		queue:    job.Queue,
		since:    job.since,
		original: bytes.Clone(job.Data),
		route:    w.mux.find(job.Klass),
		started:  time.Now(),
		cancel:   cancel,
	}
	job.hold = &r.hold
	w.mu.Lock()
	defer w.mu.Unlock()
	late := time.Since(sent) >= reserved.heartbeat // the lock may have ended on the way
	r.locked(sent, reserved.heartbeat)
	if late || w.state != workerRunning || w.paused {
		o := r.handBack(0) // it was asked for before
		o.late, o.until = late, r.until
		w.outcomes = append(w.outcomes, o)
		cancel(nil)
		return
	}
	if old, ok := w.running[r.jid]; ok {
		w.drop(old, ErrLockLost) // its lock ended, and this worker took the job again
	}
	// What is still to be told of the job is about a lock that has ended.
	w.forget(r.jid)
	r.expiry = time.AfterFunc(time.Until(r.until), func() { w.expire(r) })
	w.running[r.jid] = r
	w.busy++
	if r.renewAt.Before(w.nextBeat) {
		poke(w.beat)
	}
	go w.work(ctx, r)
}

// handBack gives the job back without spending a retry.
func (r *run) handBack(delay time.Duration) *outcome {
	return &outcome{
		action: actionRelease, jid: r.jid, queue: r.queue, since: r.since,
		args: []string{wire.FormatSeconds(delay)},
	}
}

// work calls the handler of a job and notes the outcome, even when the handler ends its
// goroutine.
func (w *Worker) work(ctx context.Context, r *run) {
	defer r.cancel(nil)
	if r.route == nil {
		w.unknownKlass(r.job)
		w.worked(ctx, r, r.handBack(w.cfg.UnknownKlassDelay))
		return
	}
	err := redisx.ErrGoexit
	defer func() {
		var o *outcome
		if !r.hold.ended.Load() {
			o = w.decide(r, err)
		}
		w.worked(ctx, r, o)
	}()
	err = w.call(ctx, r)
}

// worked notes the outcome of a job; nil when its handler has ended it.
func (w *Worker) worked(ctx context.Context, r *run, o *outcome) {
	var log notes
	w.mu.Lock()
	r.expiry.Stop()
	w.busy--
	if w.running[r.jid] == r {
		delete(w.running, r.jid)
		if o != nil {
			o.until = r.until
			w.outcomes = append(w.outcomes, o)
		} else {
			w.health.ended++
		}
	} else if o != nil {
		w.discard(r, o, context.Cause(ctx), &log)
	}
	w.noteQuiet()
	w.mu.Unlock()
	w.nudge()
	w.report(log)
}

// discard drops the result of a job whose lock this worker has let go of. The mutex is held.
func (w *Worker) discard(r *run, o *outcome, reason error, log *notes) {
	level := slog.LevelWarn
	if errors.Is(reason, ErrStopped) {
		level = slog.LevelInfo // the job was given back: nothing is lost
	} else {
		w.health.lost++
	}
	log.add(level, "qless: a job's result was discarded",
		"jid", r.jid, "klass", r.klass, "result", o.action, "reason", reason)
	if r.expired && w.running[r.jid] == nil {
		w.outcomes = append(w.outcomes, r.retryLate())
	}
}

// retryLate retries a job whose lock has ended: a renewal that was still on its way may have
// locked it again, for nobody.
func (r *run) retryLate() *outcome {
	o := &outcome{
		action: actionRetry, jid: r.jid, queue: r.queue, since: r.since,
		args: []string{"0"}, late: true,
	}
	o.until = time.Now().Add(unknownLock)
	return o
}

// unknownLock is how long a lock is taken to last whose end is not known.
const unknownLock = time.Minute

// call calls the handler, with the middleware around it; a panic is an error.
func (w *Worker) call(ctx context.Context, r *run) (err error) {
	limit := r.route.maxRunTime
	if limit == 0 {
		limit = w.cfg.MaxRunTime
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, ErrMaxRunTime)
		defer cancel()
		defer func() { err = ranTooLong(ctx, err) }()
	}
	defer func() {
		if value := recover(); value != nil {
			err = r.panicked(value)
		}
	}()
	handler := r.route.handler
	for i := len(w.around) - 1; i >= 0; i-- {
		handler = w.around[i](handler)
	}
	return handler.Work(ctx, r.job)
}

// ranTooLong makes the error of a handler's context an [ErrMaxRunTime] when that is why the context
// ended.
func ranTooLong(ctx context.Context, err error) error {
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(context.Cause(ctx), ErrMaxRunTime) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrMaxRunTime, err)
}

// panicked fails a job for a panic, which is under way.
func (r *run) panicked(value any) error {
	return FailWith(r.klass+":panic", &panicError{value: value, stack: debug.Stack()})
}

// drop lets go of a job whose lock is not this worker's any more: its context ends, and its
// result will be discarded. The mutex is held.
func (w *Worker) drop(r *run, cause error) {
	delete(w.running, r.jid)
	r.hold.lost.Store(true)
	r.expiry.Stop()
	r.cancel(cause)
	w.noteQuiet()
}

// unknownKlass reports, once a minute, a klass that no handler here takes.
func (w *Worker) unknownKlass(job *Job) {
	if w.unknownIsNews(job.Klass) {
		w.log.Warn("qless: no handler here takes the klass; its jobs are given back",
			"klass", job.Klass, "queue", job.Queue, "delay", w.cfg.UnknownKlassDelay)
	}
}

// unknownIsNews reports whether an unknown klass was not reported for a minute.
func (w *Worker) unknownIsNews(klass string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if now.Sub(w.health.unknownAt[klass]) < time.Minute {
		return false
	}
	if w.health.unknownAt == nil || len(w.health.unknownAt) > 1000 {
		w.health.unknownAt = map[string]time.Time{}
	}
	w.health.unknownAt[klass] = now
	return true
}
