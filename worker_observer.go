package qless

import (
	"encoding/json"
	"errors"
	"log/slog"
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

	// Exhausted reports, for JobEnded, that the job was to be retried, but has failed because it had
	// no retries left.
	Exhausted bool

	// PoppedAt is when the job was popped, as [Job.PoppedAt] returns it. With the Worker and the JID,
	// it tells the runs of a job apart.
	PoppedAt time.Time

	// Headers are those of the job as it was popped. They must not be changed.
	Headers map[string]string

	// Time is when the event happened.
	Time time.Time
}

// Ending says in one word how a run has ended, for the labels of metrics, traces and logs. For
// JobEnded, it is one of these; for other events it is empty:
//
//   - complete, next: the job is complete, for good or into another queue
//   - retry, exhausted: it is retried, or has failed because it had no retries left
//   - fail: it has failed at once
//   - release: it was put back without using up a retry
//   - moved: its handler has moved, timed out or canceled it
//   - canceled: it was canceled while it ran
//   - lost: the server did not take the outcome, or the lock was lost before
//   - stopped: the worker stopped before the outcome was delivered
func (e JobEvent) Ending() string {
	switch {
	case e.Kind != JobEnded:
		return ""
	case errors.Is(e.Err, ErrCanceled):
		return "canceled"
	case errors.Is(e.Err, ErrStopped):
		return "stopped"
	case e.Err != nil:
		return "lost"
	case e.Exhausted:
		return "exhausted"
	case e.Outcome.Action == ActionComplete && e.Outcome.Queue != "":
		return "next"
	case e.Outcome.Action == "":
		return "moved"
	}
	return string(e.Outcome.Action)
}

// MarshalJSON writes the durations in seconds, and Err as its text. It leaves out the Headers, which
// may hold secrets.
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
		Ending  string       `json:"ending,omitempty"`
		Err     string       `json:"error,omitempty"`
	}{
		Kind: e.Kind, Time: e.Time, Worker: e.Worker, JID: e.JID, Klass: e.Klass, Queue: e.Queue,
		Attempt: e.Attempt, Waited: secondsOf(e.Waited), Ran: secondsOf(e.Ran),
		Ending: e.Ending(), Err: textOf(e.Err),
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
	logger *slog.Logger
}

func (o *observer) send(a *activeJob, event JobEvent) {
	event.Worker, event.Time = o.worker, time.Now()
	event.JID, event.Klass, event.Queue = a.jid, a.klass, a.queue
	event.Attempt, event.Waited = a.attempt, a.waited
	event.PoppedAt, event.Headers = a.poppedAt, a.headers
	defer panicHarmless(o.logger, "the observer of jobs")
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
	o.end(a, JobEvent{Outcome: outcome, Err: err})
}

// exhausted reports the end of a job that failed because it had no retries left.
func (o *observer) exhausted(a *activeJob, outcome Outcome) {
	o.end(a, JobEvent{Outcome: outcome, Exhausted: true})
}

func (o *observer) end(a *activeJob, event JobEvent) {
	if o.notify == nil || a == nil || a.over.Swap(true) {
		return
	}
	if a.hold.lost.Load() {
		<-a.lossKnown
	}
	event.Kind, event.Ran = JobEnded, a.ran
	o.send(a, event)
}
