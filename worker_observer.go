package qless

import (
	"errors"
	"time"
)

// A JobEventKind says what happened to a job at work.
type JobEventKind string

// What happens to a job at work. Every job that is started has exactly one JobEnded, which is
// its last event.
const (
	JobStarted  JobEventKind = "started"   // its handler is about to be called
	JobPanicked JobEventKind = "panicked"  // its handler panicked: Err is the *PanicError
	JobLockLost JobEventKind = "lock_lost" // its lock was lost while it ran
	JobCanceled JobEventKind = "canceled"  // it was canceled while it ran
	JobEnded    JobEventKind = "ended"     // its handler has returned, and the server knows it
)

// A JobEvent tells the Observer of [WorkerConfig] what happened to a job.
type JobEvent struct {
	Kind   JobEventKind
	Worker string // the name of the worker

	// JID, Klass, Queue and Attempt are those of the job as it was taken.
	JID     string
	Klass   string
	Queue   string
	Attempt int

	// Outcome is what JobEnded says became of the job. A job that its handler has ended has
	// the outcome of that call. Its Action is empty if the handler canceled the job, moved
	// it to another queue, or timed it out.
	Outcome Outcome

	// Waited is how long the job waited from its put until it was taken; 0 if that is not
	// known.
	Waited time.Duration

	// Ran is how long the handler ran, for JobEnded.
	Ran time.Duration

	// Err is why the lock was lost, or what a handler panicked with. For JobEnded, it is nil
	// if the server took the outcome, and else says why not: [ErrLockLost], [ErrCanceled], or
	// [ErrStopped] if the job was not this worker's any more or the worker stopped before the
	// server took it, or what the server answered.
	Err error

	// Time is when it happened.
	Time time.Time
}

// observe reports what happened to a job. No lock is held.
func (w *Worker) observe(r *run, kind JobEventKind, outcome Outcome, err error) {
	if w.cfg.Observer == nil {
		return
	}
	event := JobEvent{
		Kind: kind, Worker: w.client.worker,
		JID: r.jid, Klass: r.klass, Queue: r.queue, Attempt: r.number,
		Outcome: outcome, Err: err, Time: time.Now(),
	}
	if kind == JobEnded {
		event.Ran = r.ran
	}
	w.cfg.Observer(event)
}

// observeEnd reports the end of a job, once. It waits until the loss of its lock was reported,
// if that is under way.
func (w *Worker) observeEnd(r *run, outcome Outcome, err error) {
	if w.cfg.Observer == nil || r == nil || r.over.Swap(true) {
		return
	}
	if r.hold.lost.Load() {
		<-r.lossKnown
	}
	w.observe(r, JobEnded, outcome, err)
}

// observeLoss reports that a job was lost while it ran, unless the worker let go of it to stop.
func (w *Worker) observeLoss(r *run, cause error) {
	if w.cfg.Observer == nil {
		return
	}
	defer close(r.lossKnown)
	switch {
	case errors.Is(cause, ErrCanceled):
		w.observe(r, JobCanceled, Outcome{}, cause)
	case !errors.Is(cause, ErrStopped):
		w.observe(r, JobLockLost, Outcome{}, cause)
	}
}
