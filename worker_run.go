package qless

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/qless/qless-go/internal/redisx"
)

// An activeJob is a running job.
type activeJob struct {
	job      *Job
	jid      string // these four are copies, as the handler may change the job
	klass    string
	queue    string
	original string            // the data
	since    string            // when it was popped, by the server's clock
	attempt  int               // 1 for the first in its queue
	waited   time.Duration     // until it was popped
	poppedAt time.Time         // set if there is an observer, as are the headers
	headers  map[string]string // as it was popped
	route    *route            // nil if the klass has no handler
	ran      time.Duration     // set when the handler has returned
	hold     hold
	lock     lock // guarded by the lock keeper

	// Guarded by the worker's mutex until the handler is called, and then not changed.
	held    time.Time // since when it waits for a slot
	dropped bool      // it is never started
	started time.Time // zero before
	cancel  context.CancelCauseFunc

	over      atomic.Bool   // JobEventEnded was reported
	lossKnown chan struct{} // closed when the loss of the lock was reported
}

func (w *Worker) newActiveJob(reserved reservedJob, sent time.Time) *activeJob {
	job := reserved.job
	a := &activeJob{
		job:      job,
		jid:      job.JID,
		klass:    job.Klass,
		queue:    job.Queue,
		original: string(job.Data),
		since:    job.since,
		attempt:  job.Attempt,
		waited:   job.Waited,
		route:    w.mux.find(job.Klass),
	}
	if w.observer.notify != nil {
		a.lossKnown = make(chan struct{})
		a.poppedAt, a.headers = job.PoppedAt, maps.Clone(job.Headers)
	}
	a.hold.progress = w.progress
	job.hold = &a.hold
	a.lock.extend(sent, reserved.heartbeat)
	return a
}

// begin starts a job reserved by a call that was sent at the given time, or holds it for a slot. It
// releases the job if its lock may already have ended, or the worker no longer wants jobs.
func (w *Worker) begin(reserved reservedJob, sent time.Time) {
	a := w.newActiveJob(reserved, sent)
	late := time.Since(sent) >= reserved.heartbeat
	if late || !w.takesJobs() {
		w.release(a, late)
		return
	}
	replaced, ok := w.locks.track(a)
	if !ok {
		w.release(a, false)
		return
	}
	if replaced != nil && !w.dropUnstarted(replaced) {
		replaced.cancel(ErrLockLost)
		w.observer.lost(replaced, ErrLockLost)
	}
	w.outbox.forget(a.jid)
	w.admit(a)
}

// release releases a job that is not started.
func (w *Worker) release(a *activeJob, late bool) {
	r := a.report(Outcome{Action: ActionRelease})
	r.job, r.late, r.unstarted, r.until = nil, late, true, a.lock.until
	w.outbox.add(r)
}

// work calls the handler of a job and reports the outcome, even if the handler calls
// runtime.Goexit.
func (w *Worker) work(ctx context.Context, a *activeJob) {
	defer a.cancel(nil)
	w.observer.started(a)
	if a.route == nil {
		w.releaseUnknown(a)
		return
	}
	err := redisx.ErrGoexit
	defer func() {
		a.ran = time.Since(a.started)
		w.finish(a, w.decide(a, err))
	}()
	err = w.call(ctx, a)
}

// releaseUnknown releases a job whose klass has no handler.
func (w *Worker) releaseUnknown(a *activeJob) {
	w.log.unknownKlass(a, w.cfg.UnknownKlassDelay)
	w.finish(a, a.report(Outcome{Action: ActionRelease, Delay: w.cfg.UnknownKlassDelay}))
}

// call calls the handler, wrapped in the middleware. It turns a panic into an error.
func (w *Worker) call(ctx context.Context, a *activeJob) (err error) {
	if err := a.job.undecoded; errors.Is(err, errUnknownCodec) {
		return FailWith(a.klass+":data", err)
	} else if err != nil {
		return err
	}
	if limit := w.maxRunTime(a); limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, ErrMaxRunTime)
		defer cancel()
		defer func() { err = ranTooLong(ctx, err) }()
	}
	defer func() {
		if value := recover(); value != nil {
			err = w.panicked(a, value)
		}
	}()
	return w.wrap(a.route.handler)(w.withJobLog(ctx, a.job), a.job)
}

// maxRunTime returns how long a job may run. Without a limit, it is not positive.
func (w *Worker) maxRunTime(a *activeJob) time.Duration {
	limit := cmp.Or(a.route.maxRunTime, w.cfg.MaxRunTime)
	if own := a.job.Options.MaxRunTime; own > 0 && (limit <= 0 || own < limit) {
		return own
	}
	return limit
}

// ranTooLong turns the error of a handler's context into an [ErrMaxRunTime] if that is why the
// context ended.
func ranTooLong(ctx context.Context, err error) error {
	if !errors.Is(context.Cause(ctx), ErrMaxRunTime) || !isDeadline(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrMaxRunTime, err)
}

// isDeadline reports whether an error of a handler, whose methods may panic, is that of a deadline.
func isDeadline(err error) (deadline bool) {
	defer func() { _ = recover() }()
	return errors.Is(err, context.DeadlineExceeded)
}

// panicked returns the error for a panic. It is called while the panic's stack is still there.
func (w *Worker) panicked(a *activeJob, value any) error {
	err := &PanicError{Value: value, Stack: debug.Stack()}
	w.observer.panicked(a, err)
	return FailWith(a.klass+":panic", err)
}

// decide returns the report for a job whose handler has returned. A panic in Backoff or FailGroup
// counts as a panic of the handler.
func (w *Worker) decide(a *activeJob, err error) (r *report) {
	defer func() {
		if value := recover(); value != nil {
			r = w.reportOf(a, w.panicked(a, value))
		}
	}()
	return w.reportOf(a, err)
}

func (w *Worker) reportOf(a *activeJob, err error) *report {
	data, dataErr := a.changedData()
	if dataErr != nil {
		err = FailWith(a.klass+":data", dataErr)
	}
	r := a.report(Outcome{Action: ActionComplete})
	if err != nil {
		r.Outcome = w.settled(a, err)
	}
	r.data, r.result = data, a.job.result
	return r
}

// report returns a report of the job.
func (a *activeJob) report(outcome Outcome) *report {
	return &report{Outcome: outcome, job: a, jid: a.jid, queue: a.queue, since: a.since}
}

// changedData returns the job's data if the handler has changed it, else the empty string.
func (a *activeJob) changedData() (string, error) {
	if string(a.job.Data) == a.original {
		return "", nil
	}
	return a.job.data("complete")
}

// settled returns the outcome for the error of a handler, completed with the worker's defaults.
func (w *Worker) settled(a *activeJob, err error) Outcome {
	o := OutcomeOf(err)
	switch o.Action {
	case ActionComplete:
		problem := o.Err
		if problem == nil && o.hasNext() {
			problem = o.checkNext(a.jid)
		}
		if problem != nil {
			return Outcome{Action: ActionFail, Group: a.klass + ":next", Err: problem}
		}
		return o
	case ActionFail:
		o.Group = cmp.Or(o.Group, a.klass)
	case ActionRelease:
		if o.Delay <= 0 {
			o.Delay = minSnooze
		}
		return o
	case ActionRetry:
		if o.Delay == 0 {
			o.Delay = w.backoffOf(a)(a.job, a.attempt, err)
		}
		o.Delay = max(o.Delay, 0)
		if o.Group == "" {
			o.Group = cmp.Or(w.cfg.FailGroup(a.job, o.Err), a.klass)
		}
	default:
		problem := invalid("work", a.jid, "unknown Action %q of an Outcome", o.Action)
		return Outcome{Action: ActionFail, Group: a.klass + ":outcome", Err: problem}
	}
	if _, direct := err.(*Outcome); !direct && o.Err != nil {
		o.Err = err // with the errors that wrap the outcome
	}
	return o
}

func (w *Worker) backoffOf(a *activeJob) Backoff {
	if a.route.backoff != nil {
		return a.route.backoff
	}
	return w.cfg.Backoff
}

// finish adds the report of a job to the outbox, unless the handler has ended the job itself or the
// lock was lost.
func (w *Worker) finish(a *activeJob, r *report) {
	w.finishing.Add(1)
	defer w.finishing.Add(-1)
	ended := a.hold.ended.Load()
	held := w.locks.take(a)
	switch {
	case held && ended:
		w.counters.add(countEnded)
		w.rates.count(a, a.hold.outcome.Action)
		w.retire(a)
	case held:
		r.until = a.lock.until
		w.retire(a, r)
	default:
		if !ended && isLoss(a.lock.cause) {
			w.counters.add(countLost)
		}
		if !ended && a.lock.expired && !w.locks.holds(a.jid) {
			w.retryLate(a)
		}
		w.retire(a)
	}
	w.locks.left(a)
	w.checkQuiet()
	w.loop.due.notify()
	if ended {
		w.observer.ended(a, a.hold.outcome, nil)
	} else if !held {
		w.discard(a, r, a.lock.cause)
	}
}

// discard drops the report of a job whose lock was lost or released.
func (w *Worker) discard(a *activeJob, r *report, cause error) {
	if !errors.Is(cause, ErrCanceled) { // already logged when it was canceled
		w.log.discarded(a, r.Outcome, cause)
	}
	w.observer.ended(a, r.Outcome, cause)
}

// isLoss reports whether a job was lost, rather than canceled or released to stop.
func isLoss(cause error) bool {
	return !errors.Is(cause, ErrCanceled) && !errors.Is(cause, ErrStopped)
}

// unknownLock is how long a lock is assumed to last if its end is unknown.
const unknownLock = time.Minute

// retryLate retries a job whose lock has expired: a renewal that was still in flight may have
// locked it again, although it is no longer run.
func (w *Worker) retryLate(a *activeJob) {
	r := a.report(Outcome{Action: ActionRetry})
	r.job, r.late, r.until = nil, true, time.Now().Add(unknownLock)
	w.outbox.add(r)
	w.loop.due.notify()
}

// lost cancels the run of a job whose lock was lost. Its outcome will be discarded.
func (w *Worker) lost(lost lostLock) {
	a, cause := lost.job, lost.cause
	if w.dropUnstarted(a) {
		w.leaveLate(a)
		return
	}
	canceled := errors.Is(cause, ErrCanceled)
	if canceled {
		w.counters.add(countCanceled)
	}
	a.cancel(cause)
	switch {
	case canceled:
		w.log.canceled(a)
	case lost.problem == "":
		w.log.lockExpired(a)
	default:
		w.log.lockLost(a, lost.problem)
	}
	w.observer.lost(a, cause)
	w.checkQuiet()
}

// leaveLate drops a job that was lost before it was started. If its lock has expired, a renewal
// that was still in flight may have locked it again.
func (w *Worker) leaveLate(a *activeJob) {
	if a.lock.expired {
		w.release(a, true)
		w.loop.due.notify()
	}
	w.checkQuiet()
}

// releaseAll ends the contexts of the jobs that are still running, and releases the jobs.
func (w *Worker) releaseAll() {
	all := w.locks.takeAll(ErrStopped)
	for _, a := range all {
		if !a.hold.ended.Load() {
			r := a.report(Outcome{Action: ActionRelease})
			r.job, r.until = nil, a.lock.until
			w.outbox.add(r)
		}
		w.locks.left(a)
	}
	all = slices.DeleteFunc(all, w.dropUnstarted)
	for _, a := range all {
		a.cancel(ErrStopped)
	}
	w.checkQuiet()
	w.loop.due.notify()
	for _, a := range all {
		w.observer.lost(a, ErrStopped)
	}
}
