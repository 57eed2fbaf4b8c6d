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
	"github.com/qless/qless-go/internal/runs"
	"github.com/qless/qless-go/internal/wire"
)

// A run is a job run by the worker, from the lock to the report.
type run struct {
	worker   *Worker
	job      *Job
	jid      string // these four are copies, as the handler may change the job
	klass    string
	queue    string
	since    string            // when popped, by the server's clock
	attempt  int               // 1 for the first in the queue
	waited   time.Duration     // until the pop
	poppedAt time.Time         // set if there is an observer, as are the headers
	headers  map[string]string // as popped
	route    *route            // nil if the klass has no handler
	ran      time.Duration     // set when the handler has returned
	hold     hold
	key      string // in a bulk call
	fault    error  // why there is no key

	// Guarded by the worker's mutex until the handler is called, and then not changed.
	dropped bool      // never to be started
	started time.Time // zero before
	cancel  context.CancelCauseFunc
	bulk    *bulkCall               // nil if the run has a slot of its own
	onEnd   func(f func(err error)) // calls f with the cause when the context ends; set with bulk

	over      atomic.Bool   // JobEventEnded was reported
	lossKnown chan struct{} // closed when the loss of the lock was reported
}

// A hold is the state of a run shared by the worker and the handler.
type hold struct {
	leases.Lease[*run] // of the job's lock

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

// newRun returns the run of a job that was reserved by a call sent at the given time.
func newRun(w *Worker, job *Job, sent time.Time) *run {
	r := &run{
		worker:  w,
		job:     job,
		jid:     job.JID,
		klass:   job.Klass,
		queue:   job.Queue,
		since:   job.since,
		attempt: job.Attempt,
		waited:  job.Waited,
		route:   w.mux.find(job.Klass),
	}
	if w.observer.notify != nil {
		r.lossKnown = make(chan struct{})
		r.poppedAt, r.headers = job.PoppedAt, maps.Clone(job.Headers)
	}
	r.hold.ID, r.hold.Holder, r.hold.progress = r.jid, r, w.progress
	job.run = &r.hold
	r.hold.Extend(sent, job.Expires.Sub(sent))
	return r
}

// keep keeps the lock of the job, and reports whether the job may be admitted. If the lock may
// already have ended, or the worker no longer wants jobs, the job is released.
func (r *run) keep() bool {
	w := r.worker
	late := !time.Now().Before(r.hold.Until)
	if late || !w.takesJobs() {
		r.release(late)
		return false
	}
	replaced, ok := w.locks.Track(&r.hold.Lease)
	if !ok {
		r.release(false)
		return false
	}
	if replaced != nil && !replaced.dropUnstarted() {
		replaced.cancel(ErrLockLost)
		w.observer.lost(replaced, ErrLockLost)
	}
	undone(w.outbox.forget(r.jid), ErrLockLost)
	return true
}

// start calls the handler of the job. The worker's mutex is held.
func (r *run) start() {
	r.started = time.Now()
	r.worker.active[r] = true
	if r.bulk == nil {
		r.worker.slots.Take(kindOf(r.route))
	}
	r.worker.launch(r)
}

// launch calls the handler on a goroutine of its own. The worker's mutex is held.
func (r *run) launch(base context.Context) {
	ctx, cancel := context.WithCancelCause(base)
	r.cancel = cancel
	if r.bulk != nil {
		r.onEnd = func(f func(err error)) {
			context.AfterFunc(ctx, func() { f(context.Cause(ctx)) })
		}
	}
	go r.work(ctx)
}

// release releases a job before the start.
func (r *run) release(late bool) {
	rep := r.report(Outcome{Action: ActionRelease})
	rep.quiet, rep.late, rep.unstarted, rep.until = true, late, true, r.hold.Until
	r.worker.outbox.add(rep)
}

// work calls the handler of a job and reports the outcome, even if the handler calls
// runtime.Goexit.
func (r *run) work(ctx context.Context) {
	defer r.cancel(nil)
	defer r.worker.stacks.Begin(r.jid)()
	if r.bulk != nil {
		defer r.bulk.Pass(r)
	}
	r.worker.observer.started(r)
	if r.route == nil {
		r.releaseUnknown()
		return
	}
	err := guard.ErrGoexit
	defer func() {
		r.ran = time.Since(r.started)
		r.finish(r.decide(err))
	}()
	err = r.call(ctx)
}

// releaseUnknown releases a job of a klass without a handler.
func (r *run) releaseUnknown() {
	r.worker.log.unknownKlass(r, r.worker.cfg.UnknownKlassDelay)
	r.finish(r.report(Outcome{Action: ActionRelease, Delay: r.worker.cfg.UnknownKlassDelay}))
}

// call calls the handler, wrapped in the middleware, and turns a panic into an error.
func (r *run) call(ctx context.Context) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = r.panicked(value, debug.Stack())
		}
	}()
	if r.fault != nil {
		return r.unreturned(r.fault)
	}
	if err := r.decode(); err != nil {
		return err
	}
	if limit := r.maxRunTime(); limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, ErrMaxRunTime)
		defer cancel()
		defer func() { err = ranTooLong(isOver(ctx), err) }()
	}
	return r.worker.middleware.wrap(r.route.handler)(r.worker.log.withJob(ctx, r.job), r.job)
}

// decode decodes the job's data. A codec may be slow.
func (r *run) decode() error {
	r.job.decodeData()
	if errors.Is(r.job.undecoded, errUnknownCodec) {
		return FailWith(r.klass+":data", r.job.undecoded)
	}
	return r.job.undecoded
}

// maxRunTime returns how long a job may run. Without a limit, it is not positive.
func (r *run) maxRunTime() time.Duration {
	limit := cmp.Or(r.route.maxRunTime, r.worker.cfg.MaxRunTime)
	if own := r.job.Options.MaxRunTime; own > 0 && (limit <= 0 || own < limit) {
		return own
	}
	return limit
}

// isOver reports whether a handler's context has ended because of the MaxRunTime.
func isOver(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrMaxRunTime) }

// ranTooLong turns the error of a handler's context into an [ErrMaxRunTime] if that is why the
// context ended.
func ranTooLong(over bool, err error) error {
	if !over || !isDeadline(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrMaxRunTime, err)
}

// isDeadline reports whether an error of a handler, whose methods may panic, is that of a deadline.
func isDeadline(err error) (deadline bool) {
	defer func() { _ = recover() }()
	return errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrMaxRunTime)
}

// panicked returns the error for a panic.
func (r *run) panicked(value any, stack []byte) error {
	err := &PanicError{Value: value, Stack: stack}
	r.worker.observer.panicked(r, err)
	return FailWith(r.klass+":panic", err)
}

// unreturned returns the error for a function that was called as part of the handler, and did not
// return.
func (r *run) unreturned(problem error) error {
	if p, ok := problem.(*guard.Panic); ok {
		return r.panicked(p.Value, p.Stack)
	}
	return problem
}

// decide returns the report for a job whose handler has returned. If code of the user does not
// return, such as Backoff, FailGroup or a method of the error, that counts as a panic of the
// handler.
func (r *run) decide(err error) *report {
	if err != nil || r.isOverwritten() || r.job.isChanged() {
		return r.decideGuarded(err)
	}
	rep := r.report(Outcome{Action: ActionComplete})
	rep.result = r.job.result
	return rep
}

func (r *run) decideGuarded(err error) (rep *report) {
	if problem := guard.Call(func() { rep = r.reportOf(err) }); problem != nil {
		return r.undecided(problem)
	}
	return rep
}

// undecided returns the report for a job with an open outcome, because code of the user did not
// return.
func (r *run) undecided(problem error) *report {
	err := FailWith(r.klass+":panic", problem)
	if p, ok := problem.(*guard.Panic); ok {
		err = r.panicked(p.Value, p.Stack)
	}
	return r.report(OutcomeOf(err))
}

func (r *run) reportOf(err error) *report {
	data, dataErr := r.changedData()
	result := r.job.result
	if dataErr != nil {
		err = FailWith(r.klass+":data", dataErr)
	}
	outcome := Outcome{Action: ActionComplete}
	if err != nil {
		outcome = r.settled(err)
	}
	rep := r.report(outcome)
	rep.data, rep.result = data, result
	return rep
}

// report returns a report of the job.
func (r *run) report(outcome Outcome) *report {
	return &report{Outcome: outcome, message: outcome.message(), run: r, jid: r.jid, queue: r.queue,
		since: r.since}
}

// isOverwritten reports whether the handler has put another job in place of its own.
func (r *run) isOverwritten() bool { return r.job.run != &r.hold }

// changedData returns the job's data if changed by the handler, and otherwise the empty string.
func (r *run) changedData() (string, error) {
	if r.isOverwritten() {
		return "", invalid("complete", r.jid,
			"the handler has overwritten its job: Job.Refresh reads it again")
	}
	if r.fault != nil || !r.job.isChanged() {
		return "", nil
	}
	return r.job.data("complete")
}

// settled returns the outcome for the error of a handler, completed with the worker's defaults.
func (r *run) settled(err error) Outcome {
	o := OutcomeOf(err)
	switch o.Action {
	case ActionComplete:
		problem := o.Err
		if problem == nil && o.hasNext() {
			problem = o.checkNext(r.jid)
		}
		if problem != nil {
			return Outcome{Action: ActionFail, Group: r.klass + ":next", Err: problem}
		}
		return o
	case ActionFail:
		o.Group = cmp.Or(o.Group, r.klass)
	case ActionRelease:
		if o.Delay <= 0 {
			o.Delay = minSnooze
		}
		return o
	case ActionRetry:
		if o.Delay == 0 {
			o.Delay = r.backoffOf()(r.copyOfJob(), r.attempt, err)
		}
		o.Delay = max(o.Delay, 0)
		if o.Group == "" {
			o.Group = cmp.Or(r.worker.cfg.FailGroup(r.copyOfJob(), o.Err), r.klass)
		}
	default:
		problem := invalid("work", r.jid, "unknown Action %q of an Outcome", o.Action)
		return Outcome{Action: ActionFail, Group: r.klass + ":outcome", Err: problem}
	}
	if _, direct := err.(*Outcome); !direct && o.Err != nil {
		o.Err = err // with the errors that wrap the outcome
	}
	return o
}

// copyOfJob returns a copy of the job for a function of the user, which may overwrite it.
func (r *run) copyOfJob() *Job { return new(*r.job) }

func (r *run) backoffOf() Backoff {
	if r.route.backoff != nil {
		return r.route.backoff
	}
	return r.worker.cfg.Backoff
}

// finish adds the report of a job to the outbox, unless the handler has ended the job itself or the
// lock was lost.
func (r *run) finish(rep *report) {
	w := r.worker
	w.finishing.Add(1)
	defer w.finishing.Add(-1)
	ended := r.hold.Ended.Load()
	held := w.locks.Take(&r.hold.Lease)
	switch {
	case held && ended:
		w.counters.add(countEnded)
		r.count(r.hold.outcome.Action)
		r.retire()
	case held:
		rep.until = r.hold.Until
		r.retire(rep)
	default:
		if !ended && isLoss(r.hold.Cause) {
			w.counters.add(countLost)
		}
		if !ended && r.hold.Expired && !w.locks.Holds(r.jid) {
			r.retryLate()
		}
		r.retire()
	}
	w.locks.Left(&r.hold.Lease)
	w.checkQuiet()
	w.loop.asker.Due.Notify()
	if ended {
		w.observer.ended(r, r.hold.outcome, nil)
	} else if !held {
		r.discard(rep, r.hold.Cause)
	}
}

// retire records that the handler of the job has returned. The same step adds the report to the
// outbox, to be sent together with the request for the next job, and starts a job taken ahead.
func (r *run) retire(reports ...*report) {
	w := r.worker
	w.mu.Lock()
	delete(w.active, r)
	if r.bulk == nil || r.bulk.leaves() {
		w.slots.Give(kindOf(r.route))
	}
	w.outbox.add(reports...)
	if r.route != nil {
		w.ahead.Ran(r.ran)
	}
	over := w.startNext()
	w.mu.Unlock()
	w.releaseAhead(over)
}

// count counts the run, and how it ended.
func (r *run) count(action Action) {
	if ended := actions[action].countRun; ended != nil {
		r.worker.rates.Count(runs.Key{Queue: r.queue, Klass: r.klass}, ended, r.waited, r.ran)
	}
}

// discard drops the report of a job without its lock.
func (r *run) discard(rep *report, cause error) {
	if !errors.Is(cause, ErrCanceled) { // already logged when it was canceled
		r.worker.log.discarded(r, rep.Outcome, cause)
	}
	r.worker.observer.ended(r, rep.Outcome, cause)
}

// reported records that the server has ended a job by an action, or has not because of an error.
func (w *Worker) reported(r *report, action Action, err error) {
	switch {
	case err == nil:
		w.counters.add(actions[r.Action].count)
	case errors.Is(err, ErrCanceled):
		w.counters.add(countCanceled)
		w.log.canceled(r.run)
		w.observer.canceled(r.run)
	case !r.late:
		w.counters.add(countLost)
	}
	if r.quiet {
		return
	}
	if err == nil {
		r.run.count(action)
	}
	w.observer.end(r.run, JobEvent{Outcome: r.Outcome, Err: err, Exhausted: action != r.Action})
}

// undone notifies the observer of reports that will not reach the server.
func undone(reports []*report, cause error) {
	for _, r := range reports {
		if !r.quiet {
			r.run.worker.observer.ended(r.run, r.Outcome, cause)
		}
	}
}

// isLoss reports whether a job was lost, rather than canceled or released to stop.
func isLoss(cause error) bool {
	return !errors.Is(cause, ErrCanceled) && !errors.Is(cause, ErrStopped)
}

// unknownLock is the assumed duration of a lock with an unknown end.
const unknownLock = time.Minute

// retryLate retries a job whose lock has expired: a renewal still in flight may have locked the job
// again, although nothing runs it any more.
func (r *run) retryLate() {
	rep := r.report(Outcome{Action: ActionRetry})
	rep.quiet, rep.late, rep.until = true, true, time.Now().Add(unknownLock)
	r.worker.outbox.add(rep)
	r.worker.loop.asker.Due.Notify()
}

// newLocks returns the keeper of the locks of a worker's jobs.
func newLocks(client *Client, log *workerLog) *leases.Keeper[*run] {
	return leases.NewKeeper(leases.Config[*run]{
		Renew:   client.renew,
		IsOfOne: func(err error) bool { return errors.Is(err, ErrServer) },
		Failed:  log.renewalFailed,
		Backoff: redisx.WhileAway.After,
		Cause:   causeOfLoss,
		Lost:    (*run).lost,
	})
}

// renew renews locks of the client's worker.
func (c *Client) renew(ctx context.Context, jids []string) ([]leases.Renewal, error) {
	reply, err := c.run(ctx, "renew", "", wire.Anys([]any{c.worker}, jids...)...)
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

// causeOfLoss returns the cause of a refused renewal.
func causeOfLoss(problem error) error {
	if errors.Is(problem, ErrNotFound) {
		return ErrCanceled
	}
	return ErrLockLost
}

// lost cancels the run of a job whose lock was lost. The outcome will be discarded.
func (r *run) lost() {
	w := r.worker
	if r.dropUnstarted() {
		r.leaveLate()
		return
	}
	cause := r.hold.Cause
	canceled := errors.Is(cause, ErrCanceled)
	if canceled {
		w.counters.add(countCanceled)
	}
	r.cancel(cause)
	switch {
	case canceled:
		w.log.canceled(r)
	case r.hold.Problem == nil:
		w.log.lockExpired(r)
	default:
		w.log.lockLost(r, r.hold.Problem)
	}
	w.observer.lost(r, cause)
	w.checkQuiet()
}

// leaveLate drops a job that was lost before the start. If the lock has expired, a renewal still in
// flight may have locked the job again.
func (r *run) leaveLate() {
	if r.hold.Expired {
		r.release(true)
		r.worker.loop.asker.Due.Notify()
	}
	r.worker.checkQuiet()
}

// releaseAll ends the contexts of the jobs that are still running, and releases the jobs.
func (w *Worker) releaseAll() {
	all := w.locks.TakeAll(ErrStopped)
	for _, r := range all {
		if !r.hold.Ended.Load() {
			rep := r.report(Outcome{Action: ActionRelease})
			rep.quiet, rep.until = true, r.hold.Until
			w.outbox.add(rep)
		}
		w.locks.Left(&r.hold.Lease)
	}
	all = slices.DeleteFunc(all, (*run).dropUnstarted)
	for _, r := range all {
		r.cancel(ErrStopped)
	}
	w.checkQuiet()
	w.loop.asker.Due.Notify()
	for _, r := range all {
		w.observer.lost(r, ErrStopped)
	}
}

// admit starts a job whose lock is kept, or holds the job until a slot is free or the bulk call
// begins. If the klass has no room, or the worker no longer wants jobs, the job is released.
func (r *run) admit() {
	w := r.worker
	w.mu.Lock()
	wanted := w.state == workerRunning && !w.paused && r.hasRoom()
	switch {
	case r.dropped || !wanted:
	case r.route != nil && r.route.pool != nil && r.fault == nil:
		w.bulk.hold(r)
	case w.slots.Free() > 0:
		r.start()
	default:
		w.ahead.Push(r)
	}
	w.mu.Unlock()
	if !wanted {
		w.releaseAhead([]*run{r})
	}
}

// hasRoom reports whether the klass of a job has room. If not, the job must be handed back, and the
// queue is left alone until there is room. The worker's mutex is held.
func (r *run) hasRoom() bool {
	kind := kindOf(r.route)
	if r.worker.slots.Room(kind) > 0 {
		return true
	}
	r.worker.slots.HandBack(r.queue, kind)
	return false
}

// startNext starts the first job taken ahead, unless lost, and returns the jobs before it whose
// klasses have no room, to be released. The mutex is held.
func (w *Worker) startNext() (over []*run) {
	w.bulk.begin()
	for r, ok := w.ahead.Pop(); ok; r, ok = w.ahead.Pop() {
		switch {
		case r.hold.Lost.Load():
			r.dropped = true
		case r.hasRoom():
			r.start()
			return over
		default:
			over = append(over, r)
		}
	}
	return over
}

// wantedAhead returns the number of jobs to take ahead. The mutex is held.
func (w *Worker) wantedAhead() int {
	slots, long := w.cfg.Concurrency, w.ahead.Long()
	for r := range w.active {
		if time.Since(r.started) > long {
			slots--
		}
	}
	return w.ahead.Wanted(slots)
}

// releaseOverdue releases prefetched jobs if handlers take longer than expected.
func (w *Worker) releaseOverdue() {
	w.mu.Lock()
	overdue := w.ahead.TakeOverdue()
	w.mu.Unlock()
	w.releaseAhead(overdue)
}

// releaseAhead releases jobs that were taken ahead, which keep their order.
func (w *Worker) releaseAhead(jobs []*run) {
	if len(jobs) == 0 {
		return
	}
	for _, r := range jobs {
		if w.locks.Take(&r.hold.Lease) {
			r.release(false)
			w.locks.Left(&r.hold.Lease)
		}
	}
	w.checkQuiet()
	w.loop.asker.Due.Notify()
}

// dropUnstarted reports whether the handler of a lost job was not called. In this case it never is.
func (r *run) dropUnstarted() bool {
	r.worker.mu.Lock()
	defer r.worker.mu.Unlock()
	if !r.started.IsZero() {
		return false
	}
	r.dropped = true
	r.worker.ahead.Remove(r)
	if r.route != nil && r.route.pool != nil {
		r.route.pool.Remove(r)
	}
	return true
}
