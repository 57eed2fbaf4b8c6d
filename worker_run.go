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

	"github.com/qless/qless-go/internal/guard"
	"github.com/qless/qless-go/internal/leases"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/wire"
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

	// Guarded by the worker's mutex until the handler is called, and then not changed.
	dropped bool      // it is never started
	started time.Time // zero before
	cancel  context.CancelCauseFunc

	over      atomic.Bool   // JobEventEnded was reported
	lossKnown chan struct{} // closed when the loss of the lock was reported
}

// A hold is the state of a run that its worker and its handler share.
type hold struct {
	leases.Lease[*activeJob] // of the job's lock

	outcome      Outcome // how the handler has ended the job; set before Ended
	progress     *progressKeeper
	progressSent time.Time // guarded by the keeper
}

func (h *hold) end(outcome Outcome, command func() error) error {
	h.Ending.Add(1)
	defer h.Ending.Add(-1)
	err := command()
	if err == nil && !h.Ended.Load() {
		h.outcome = outcome
		h.Ended.Store(true)
	}
	return err
}

func (h *hold) isLost() bool { return h.Lost.Load() }

func (h *hold) setProgress(r *progressReport) {
	h.progress.set(&heldProgress{r, h})
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
	a.hold.ID, a.hold.Holder, a.hold.progress = a.jid, a, w.progress
	job.run = &a.hold
	a.hold.Extend(sent, reserved.heartbeat)
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
	replaced, ok := w.locks.Track(&a.hold.Lease)
	if !ok {
		w.release(a, false)
		return
	}
	if replaced != nil && !w.dropUnstarted(replaced) {
		replaced.cancel(ErrLockLost)
		w.observer.lost(replaced, ErrLockLost)
	}
	w.undone(w.outbox.forget(a.jid), ErrLockLost)
	w.admit(a)
}

// release releases a job that is not started.
func (w *Worker) release(a *activeJob, late bool) {
	r := a.report(Outcome{Action: ActionRelease})
	r.quiet, r.late, r.unstarted, r.until = true, late, true, a.hold.Until
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
	err := guard.ErrGoexit
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
	defer func() {
		if value := recover(); value != nil {
			err = w.panicked(a, value, debug.Stack())
		}
	}()
	if err := a.decode(); err != nil {
		return err
	}
	if limit := w.maxRunTime(a); limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, ErrMaxRunTime)
		defer cancel()
		defer func() { err = ranTooLong(ctx, err) }()
	}
	return w.wrap(a.route.handler)(w.withJobLog(ctx, a.job), a.job)
}

// decode decodes the job's data. A codec may take its time.
func (a *activeJob) decode() error {
	a.job.decodeData()
	if string(a.job.Data) != a.original {
		a.original = string(a.job.Data)
	}
	if errors.Is(a.job.undecoded, errUnknownCodec) {
		return FailWith(a.klass+":data", a.job.undecoded)
	}
	return a.job.undecoded
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

// panicked returns the error for a panic.
func (w *Worker) panicked(a *activeJob, value any, stack []byte) error {
	err := &PanicError{Value: value, Stack: stack}
	w.observer.panicked(a, err)
	return FailWith(a.klass+":panic", err)
}

// decide returns the report for a job whose handler has returned. If code of the user does not
// return, such as Backoff, FailGroup or a method of the error, that counts as a panic of the
// handler.
func (w *Worker) decide(a *activeJob, err error) (r *report) {
	if err == nil && !a.isOverwritten() && string(a.job.Data) == a.original {
		r = a.report(Outcome{Action: ActionComplete})
		r.result = a.job.result
		return r
	}
	if problem := guard.Call(func() { r = w.reportOf(a, err) }); problem != nil {
		return w.undecided(a, problem)
	}
	return r
}

// undecided returns the report for a job of which code of the user that decides its outcome did not
// return.
func (w *Worker) undecided(a *activeJob, problem error) *report {
	err := FailWith(a.klass+":panic", problem)
	if p, ok := problem.(*guard.Panic); ok {
		err = w.panicked(a, p.Value, p.Stack)
	}
	return a.report(OutcomeOf(err))
}

func (w *Worker) reportOf(a *activeJob, err error) *report {
	data, dataErr := a.changedData()
	result := a.job.result
	if dataErr != nil {
		err = FailWith(a.klass+":data", dataErr)
	}
	outcome := Outcome{Action: ActionComplete}
	if err != nil {
		outcome = w.settled(a, err)
	}
	r := a.report(outcome)
	r.data, r.result = data, result
	return r
}

// report returns a report of the job.
func (a *activeJob) report(outcome Outcome) *report {
	return &report{Outcome: outcome, message: outcome.message(), job: a, jid: a.jid, queue: a.queue,
		since: a.since}
}

// isOverwritten reports whether the handler has put another job in place of its own.
func (a *activeJob) isOverwritten() bool { return a.job.run != &a.hold }

// changedData returns the job's data if the handler has changed it, and otherwise the empty string.
func (a *activeJob) changedData() (string, error) {
	if a.isOverwritten() {
		return "", invalid("complete", a.jid,
			"the handler has overwritten its job: Job.Refresh reads it again")
	}
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
			o.Delay = w.backoffOf(a)(a.copyOfJob(), a.attempt, err)
		}
		o.Delay = max(o.Delay, 0)
		if o.Group == "" {
			o.Group = cmp.Or(w.cfg.FailGroup(a.copyOfJob(), o.Err), a.klass)
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

// copyOfJob returns a copy of the job for a function of the user, which may overwrite it.
func (a *activeJob) copyOfJob() *Job {
	job := *a.job
	return &job
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
	ended := a.hold.Ended.Load()
	held := w.locks.Take(&a.hold.Lease)
	switch {
	case held && ended:
		w.counters.add(countEnded)
		w.countRun(a, a.hold.outcome.Action)
		w.retire(a)
	case held:
		r.until = a.hold.Until
		w.retire(a, r)
	default:
		if !ended && isLoss(a.hold.Cause) {
			w.counters.add(countLost)
		}
		if !ended && a.hold.Expired && !w.locks.Holds(a.jid) {
			w.retryLate(a)
		}
		w.retire(a)
	}
	w.locks.Left(&a.hold.Lease)
	w.checkQuiet()
	w.loop.due.Notify()
	if ended {
		w.observer.ended(a, a.hold.outcome, nil)
	} else if !held {
		w.discard(a, r, a.hold.Cause)
	}
}

// discard drops the report of a job whose lock was lost or released.
func (w *Worker) discard(a *activeJob, r *report, cause error) {
	if !errors.Is(cause, ErrCanceled) { // already logged when it was canceled
		w.log.discarded(a, r.Outcome, cause)
	}
	w.observer.ended(a, r.Outcome, cause)
}

// reported records that the server has ended a job by an action, or has not because of an error.
func (w *Worker) reported(r *report, action Action, err error) {
	switch {
	case err == nil:
		w.counters.add(actions[r.Action].count)
	case errors.Is(err, ErrCanceled):
		w.counters.add(countCanceled)
		w.log.canceled(r.job)
		w.observer.canceled(r.job)
	case !r.late:
		w.counters.add(countLost)
	}
	if r.quiet {
		return
	}
	if err == nil {
		w.countRun(r.job, action)
	}
	w.observer.end(r.job, JobEvent{Outcome: r.Outcome, Err: err, Exhausted: action != r.Action})
}

// undone notifies the observer of reports that will not reach the server.
func (w *Worker) undone(reports []*report, cause error) {
	for _, r := range reports {
		if !r.quiet {
			w.observer.ended(r.job, r.Outcome, cause)
		}
	}
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
	r.quiet, r.late, r.until = true, true, time.Now().Add(unknownLock)
	w.outbox.add(r)
	w.loop.due.Notify()
}

// newLocks returns the keeper of the locks of the worker's jobs.
func (w *Worker) newLocks() *leases.Keeper[*activeJob] {
	return leases.NewKeeper(leases.Config[*activeJob]{
		Renew:   w.client.renew,
		IsOfOne: func(err error) bool { return errors.Is(err, ErrServer) },
		Failed:  w.log.renewalFailed,
		Backoff: redisx.WhileAway.After,
		Cause:   causeOfLoss,
		Lost:    w.lost,
	})
}

// renew renews locks of the client's worker.
func (c *Client) renew(ctx context.Context, jids []string) ([]leases.Renewal, error) {
	reply, err := c.run(ctx, "renew", "", anys([]any{c.worker}, jids...)...)
	if err != nil {
		return nil, err
	}
	answers, err := decodeStrings("renew", reply)
	if err != nil {
		return nil, err
	}
	if len(answers) != len(jids) {
		return nil, unexpected("renew", reply)
	}
	renewals := make([]leases.Renewal, len(answers))
	for i, answer := range answers {
		if problem, refused := wire.RefusedProblem(answer); refused {
			renewals[i].Problem = refusal("renew", jids[i], problem, nil)
		} else {
			renewals[i].Lasts = wire.AsNumber(answer).Duration()
		}
	}
	return renewals, nil
}

// causeOfLoss returns the cause for which the server does not renew a lock.
func causeOfLoss(problem error) error {
	if errors.Is(problem, ErrNotFound) {
		return ErrCanceled
	}
	return ErrLockLost
}

// lost cancels the run of a job whose lock was lost. Its outcome will be discarded.
func (w *Worker) lost(a *activeJob) {
	if w.dropUnstarted(a) {
		w.leaveLate(a)
		return
	}
	cause := a.hold.Cause
	canceled := errors.Is(cause, ErrCanceled)
	if canceled {
		w.counters.add(countCanceled)
	}
	a.cancel(cause)
	switch {
	case canceled:
		w.log.canceled(a)
	case a.hold.Problem == nil:
		w.log.lockExpired(a)
	default:
		w.log.lockLost(a, a.hold.Problem)
	}
	w.observer.lost(a, cause)
	w.checkQuiet()
}

// leaveLate drops a job that was lost before it was started. If its lock has expired, a renewal
// that was still in flight may have locked it again.
func (w *Worker) leaveLate(a *activeJob) {
	if a.hold.Expired {
		w.release(a, true)
		w.loop.due.Notify()
	}
	w.checkQuiet()
}

// releaseAll ends the contexts of the jobs that are still running, and releases the jobs.
func (w *Worker) releaseAll() {
	all := w.locks.TakeAll(ErrStopped)
	for _, a := range all {
		if !a.hold.Ended.Load() {
			r := a.report(Outcome{Action: ActionRelease})
			r.quiet, r.until = true, a.hold.Until
			w.outbox.add(r)
		}
		w.locks.Left(&a.hold.Lease)
	}
	all = slices.DeleteFunc(all, w.dropUnstarted)
	for _, a := range all {
		a.cancel(ErrStopped)
	}
	w.checkQuiet()
	w.loop.due.Notify()
	for _, a := range all {
		w.observer.lost(a, ErrStopped)
	}
}

// admit starts a job whose lock is kept, or holds it if no slot is free. It releases the job if the
// worker no longer wants jobs.
func (w *Worker) admit(a *activeJob) {
	w.mu.Lock()
	wanted := w.state == workerRunning && !w.paused
	switch {
	case a.dropped || !wanted:
	case len(w.active) < w.cfg.Concurrency:
		w.start(a)
	default:
		w.ahead.Push(a)
	}
	w.mu.Unlock()
	if !wanted {
		w.releaseAhead([]*activeJob{a})
	}
}

// startNext starts the first job that was taken ahead, unless it was lost. The mutex is held.
func (w *Worker) startNext() {
	for a, ok := w.ahead.Pop(); ok; a, ok = w.ahead.Pop() {
		if !a.hold.Lost.Load() {
			w.start(a)
			return
		}
		a.dropped = true
	}
}

// wantedAhead returns the number of jobs to take ahead. The mutex is held.
func (w *Worker) wantedAhead() int {
	return w.ahead.Wanted(w.cfg.Concurrency, func(yield func(time.Time) bool) {
		for a := range w.active {
			if !yield(a.started) {
				return
			}
		}
	})
}

// releaseOverdue releases prefetched jobs if handlers take longer than expected.
func (w *Worker) releaseOverdue() {
	w.mu.Lock()
	overdue := w.ahead.TakeOverdue()
	w.mu.Unlock()
	w.releaseAhead(overdue)
}

// releaseAhead releases jobs that were taken ahead, which keep their order.
func (w *Worker) releaseAhead(jobs []*activeJob) {
	if len(jobs) == 0 {
		return
	}
	for _, a := range jobs {
		if w.locks.Take(&a.hold.Lease) {
			w.release(a, false)
			w.locks.Left(&a.hold.Lease)
		}
	}
	w.checkQuiet()
	w.loop.due.Notify()
}

// dropUnstarted reports whether the handler of a lost job was not called. In this case it never is.
func (w *Worker) dropUnstarted(a *activeJob) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !a.started.IsZero() {
		return false
	}
	a.dropped = true
	w.ahead.Remove(a)
	return true
}
