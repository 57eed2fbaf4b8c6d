package qless

import (
	"cmp"
	"slices"
	"time"
)

// health is what a worker knows of itself. The worker's mutex guards it.
type health struct {
	turnedAt  time.Time // when an exchange with the server last went well
	askedAt   time.Time // since when an exchange is due, or tried; zero when none is
	completed int
	failed    int
	retried   int
	released  int
	ended     int
	lost      int
	unknownAt map[string]time.Time // when a klass was last reported
}

// asks notes that there is something to exchange with the server.
func (h *health) asks(now time.Time) {
	if h.askedAt.IsZero() {
		h.askedAt = now
	}
}

// turned notes that an exchange went well.
func (h *health) turned(now time.Time) { h.turnedAt, h.askedAt = now, time.Time{} }

func (h *health) count(a action) {
	switch a {
	case actionComplete:
		h.completed++
	case actionFail:
		h.failed++
	case actionRetry:
		h.retried++
	case actionRelease:
		h.released++
	}
}

// WorkerStats is what a worker does and has done since it was started.
type WorkerStats struct {
	Completed int          // completed, for good or into a next queue
	Failed    int          // failed at once; those out of retries count as retried
	Retried   int          // retried, or failed for want of retries
	Released  int          // given back without spending a retry
	Ended     int          // ended by their handlers themselves
	Lost      int          // results that were discarded, because the lock was lost
	Running   []RunningJob // oldest first
	Queues    []string     // where jobs are taken from, as the patterns match now
	Paused    bool
	LastTurn  time.Time // when the server last answered
}

// RunningJob is a job at work.
type RunningJob struct {
	JID, Klass, Queue string
	Since             time.Time
}

// Stats returns what the worker does and has done.
func (w *Worker) Stats() WorkerStats {
	queues := w.resolved()
	w.mu.Lock()
	defer w.mu.Unlock()
	s := WorkerStats{
		Completed: w.health.completed, Failed: w.health.failed, Retried: w.health.retried,
		Released: w.health.released, Ended: w.health.ended, Lost: w.health.lost,
		Queues: queues, Paused: w.paused, LastTurn: w.health.turnedAt,
	}
	for _, r := range w.running {
		s.Running = append(s.Running, RunningJob{JID: r.jid, Klass: r.klass, Queue: r.queue, Since: r.started})
	}
	slices.SortFunc(s.Running, func(a, b RunningJob) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.JID, b.JID))
	})
	return s
}

// Healthy returns nil while the worker does its work: it has been started and not stopped, and
// the server has not kept it waiting for an answer for two poll intervals. A worker that is paused,
// or has no room, asks for nothing. It serves as a readiness probe.
func (w *Worker) Healthy() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch w.state {
	case workerNew:
		return &Error{Op: "work", Code: CodeStopped, Message: "the worker was not started"}
	case workerStopping, workerClosed:
		return &Error{Op: "work", Code: CodeStopped, Message: "the worker was stopped"}
	}
	if silence := time.Since(w.health.askedAt); silence > 2*w.cfg.PollInterval && !w.health.askedAt.IsZero() {
		return &Error{Op: "work", Code: CodeUnavailable,
			Message: "the server has not answered for " + silence.Round(time.Second).String()}
	}
	return nil
}
