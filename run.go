package qless

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/qless/qless-go/internal/redisx"
)

// run is one job at work in this process.
type run struct {
	job       *Job
	jid       string // these three as the job was taken: a handler may change its own
	klass     string
	queue     string
	since     string // when it was taken, as the server said
	original  json.RawMessage
	route     *route
	started   time.Time
	cancel    context.CancelCauseFunc
	hold      hold
	number    int           // which attempt it is, from 1
	ran       time.Duration // set when the handler has returned
	over      atomic.Bool   // JobEnded was reported
	lossKnown chan struct{} // closed when the loss of the lock was reported; nil without an Observer

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

// attemptOf returns 1 for a job that is worked in its queue for the first time.
func attemptOf(job *Job) int { return max(job.Retries-job.Remaining, 0) + 1 }

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
	ctx, cancel := context.WithCancelCause(w.base)
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
		number:   attemptOf(job),
	}
	if w.cfg.Observer != nil {
		r.lossKnown = make(chan struct{})
	}
	job.hold = &r.hold
	var after notes
	defer func() { w.report(after) }()
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
		w.drop(old, ErrLockLost, &after) // its lock ended, and this worker took the job again
	}
	// What is still to be told of the job is about a lock that has ended.
	w.forget(r.jid, &after)
	r.expiry = time.AfterFunc(time.Until(r.until), func() { w.expire(r) })
	w.running[r.jid] = r
	w.working[r] = struct{}{}
	if r.renewAt.Before(w.nextBeat) {
		poke(w.beat)
	}
	go w.work(ctx, r)
}

// handBack gives the job back without spending a retry.
func (r *run) handBack(delay time.Duration) *outcome {
	return &outcome{
		Outcome: Outcome{Action: ActionRelease, Delay: delay},
		jid:     r.jid, queue: r.queue, since: r.since,
	}
}

// work calls the handler of a job and notes the outcome, even when the handler ends its
// goroutine.
func (w *Worker) work(ctx context.Context, r *run) {
	defer r.cancel(nil)
	w.observe(r, JobStarted, Outcome{}, nil)
	if r.route == nil {
		w.unknownKlass(r.job)
		o := r.handBack(w.cfg.UnknownKlassDelay)
		o.run = r
		w.worked(ctx, r, o)
		return
	}
	err := redisx.ErrGoexit
	defer func() {
		r.ran = time.Since(r.started)
		w.worked(ctx, r, w.decide(r, err))
	}()
	err = w.call(ctx, r)
}

// worked notes the outcome of a job, unless its handler has ended the job itself.
func (w *Worker) worked(ctx context.Context, r *run, o *outcome) {
	var after notes
	ended := r.hold.ended.Load()
	w.mu.Lock()
	r.expiry.Stop()
	delete(w.working, r)
	held := w.running[r.jid] == r
	if held {
		delete(w.running, r.jid)
	}
	switch {
	case ended:
		if held {
			w.health.stats.Ended++
		}
		after.do(func() { w.observeEnd(r, r.hold.outcome, nil) })
	case held:
		o.until = r.until
		w.outcomes = append(w.outcomes, o)
	default:
		w.discard(r, o, context.Cause(ctx), &after)
	}
	w.noteQuiet()
	w.mu.Unlock()
	w.nudge()
	w.report(after)
}

// discard drops the result of a job whose lock this worker has let go of. The mutex is held.
func (w *Worker) discard(r *run, o *outcome, reason error, after *notes) {
	switch {
	case errors.Is(reason, ErrCanceled): // it was reported when it was canceled
	case errors.Is(reason, ErrStopped): // the job was given back: nothing is lost
		after.add(slog.LevelInfo, "qless: a job's result was discarded",
			"jid", r.jid, "klass", r.klass, "outcome", o.Action, "reason", reason)
	default:
		w.health.stats.Lost++
		after.add(slog.LevelWarn, "qless: a job's result was discarded",
			"jid", r.jid, "klass", r.klass, "outcome", o.Action, "reason", reason)
	}
	after.do(func() { w.observeEnd(r, o.Outcome, reason) })
	if r.expired && w.running[r.jid] == nil {
		w.outcomes = append(w.outcomes, r.retryLate())
	}
}

// retryLate retries a job whose lock has ended: a renewal that was still on its way may have
// locked it again, for nobody.
func (r *run) retryLate() *outcome {
	o := &outcome{
		Outcome: Outcome{Action: ActionRetry},
		jid:     r.jid, queue: r.queue, since: r.since, late: true,
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
			err = w.panicked(r, value)
		}
	}()
	handler := r.route.handler
	for i := len(w.around) - 1; i >= 0; i-- {
		handler = w.around[i](handler)
	}
	return handler(ctx, r.job)
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
func (w *Worker) panicked(r *run, value any) error {
	problem := &PanicError{Value: value, Stack: debug.Stack()}
	w.observe(r, JobPanicked, Outcome{}, problem)
	return FailWith(r.klass+":panic", problem)
}

// drop lets go of a job whose lock is not this worker's any more: its context ends, and its
// result will be discarded. The mutex is held.
func (w *Worker) drop(r *run, cause error, after *notes) {
	delete(w.running, r.jid)
	r.hold.lost.Store(true)
	r.expiry.Stop()
	r.cancel(cause)
	after.do(func() { w.observeLoss(r, cause) })
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
