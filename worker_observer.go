package qless

import (
	"encoding/json"
	"errors"
	"time"
)

// A JobEventKind is what happened to a running job.
type JobEventKind string

// The kinds of events. Every job that is started has exactly one JobEnded, which is its last event.
const (
	JobStarted  JobEventKind = "started"   // its handler is about to be called
	JobPanicked JobEventKind = "panicked"  // its handler panicked: Err is the *PanicError
	JobLockLost JobEventKind = "lock_lost" // its lock was lost while it ran
	JobCanceled JobEventKind = "canceled"  // it was canceled while it ran
	JobEnded    JobEventKind = "ended"     // its handler has returned, and its outcome is final
)

// A JobEvent is what the Observer of [WorkerConfig] receives.
type JobEvent struct {
	Kind   JobEventKind
	Worker string // the name of the worker

	// JID, Klass, Queue and Attempt describe the job as it was popped.
	JID     string
	Klass   string
	Queue   string
	Attempt int

	// Outcome is the outcome of the job, for JobEnded. If the handler has ended the job itself, it
	// is the outcome of that call; the Action is empty if that was Cancel, Move or Timeout.
	Outcome Outcome

	// Waited is how long the job waited until it was popped, as [Job.Waited] returns it, or 0 if
	// unknown.
	Waited time.Duration

	// Ran is how long the handler ran, for JobEnded.
	Ran time.Duration

	// Err is why the lock was lost, or what the handler panicked with. For JobEnded, it is nil if
	// the server accepted the outcome. Otherwise it is [ErrLockLost] or [ErrCanceled] if the job
	// was lost while it ran, [ErrStopped] if the worker stopped before the outcome was delivered,
	// or the server's error.
	Err error

	// Time is when the event happened.
	Time time.Time
}

// MarshalJSON writes the durations in seconds, and Err as its text.
func (e JobEvent) MarshalJSON() ([]byte, error) {
	text := struct {
		Kind    JobEventKind `json:"event"`
		Time    time.Time    `json:"time"`
		Worker  string       `json:"worker"`
		JID     string       `json:"jid"`
		Klass   string       `json:"klass"`
		Queue   string       `json:"queue"`
		Attempt int          `json:"attempt"`
		Waited  float64      `json:"waited"`
		Ran     float64      `json:"ran,omitempty"`
		Outcome *Outcome     `json:"outcome,omitempty"`
		Err     string       `json:"error,omitempty"`
	}{
		Kind: e.Kind, Time: e.Time, Worker: e.Worker, JID: e.JID, Klass: e.Klass, Queue: e.Queue,
		Attempt: e.Attempt, Waited: secondsOf(e.Waited), Ran: secondsOf(e.Ran), Err: textOf(e.Err),
	}
	if e.Kind == JobEnded {
		text.Outcome = &e.Outcome
	}
	return json.Marshal(text)
}

// An observer passes on events, one at a time for each job. It is called without a mutex held.
type observer struct {
	worker string
	notify func(JobEvent) // nil if there is no Observer
}

func (o *observer) send(a *activeJob, event JobEvent) {
	event.Worker, event.Time = o.worker, time.Now()
	event.JID, event.Klass, event.Queue = a.jid, a.klass, a.queue
	event.Attempt, event.Waited = a.attempt, a.waited
	o.notify(event)
}

func (o *observer) started(a *activeJob) {
	if o.notify != nil {
		o.send(a, JobEvent{Kind: JobStarted})
	}
}

func (o *observer) panicked(a *activeJob, err *PanicError) {
	if o.notify != nil {
		o.send(a, JobEvent{Kind: JobPanicked, Err: err})
	}
}

func (o *observer) canceled(a *activeJob) {
	if o.notify != nil {
		o.send(a, JobEvent{Kind: JobCanceled, Err: ErrCanceled})
	}
}

// lost reports that a job was lost while it ran, unless the worker released it to stop. The method
// ended waits for it.
func (o *observer) lost(a *activeJob, cause error) {
	if o.notify == nil {
		return
	}
	defer close(a.lossKnown)
	switch {
	case errors.Is(cause, ErrCanceled):
		o.canceled(a)
	case !errors.Is(cause, ErrStopped):
		o.send(a, JobEvent{Kind: JobLockLost, Err: cause})
	}
}

// ended reports the end of a job, once. The job may be nil.
func (o *observer) ended(a *activeJob, outcome Outcome, err error) {
	if o.notify == nil || a == nil || a.over.Swap(true) {
		return
	}
	if a.hold.lost.Load() {
		<-a.lossKnown
	}
	o.send(a, JobEvent{Kind: JobEnded, Outcome: outcome, Ran: a.ran, Err: err})
}
