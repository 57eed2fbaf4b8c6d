package qless

import (
	"cmp"
	"slices"
	"time"
)

// health is what a worker knows of itself. The worker's mutex guards it.
type health struct {
	turnedAt  time.Time // when an exchange with the server last went well
	completed int
	failed    int
	retried   int
	released  int
	ended     int
	lost      int
	unknownAt map[string]time.Time // when a klass was last reported
}

func (h *health) turned(now time.Time) { h.turnedAt = now }

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

// Healthy returns nil while the worker does its work: it has been started and not stopped,
// and the server has answered it lately, within three poll intervals. It serves as a
// readiness probe.
func (w *Worker) Healthy() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch w.state {
	case workerNew:
		return &Error{Op: "work", Code: CodeStopped, Message: "the worker was not started"}
	case workerStopping, workerClosed:
		return &Error{Op: "work", Code: CodeStopped, Message: "the worker was stopped"}
	}
	full := w.busy >= w.cfg.Concurrency || w.paused
	if silence := time.Since(w.health.turnedAt); silence > 3*w.cfg.PollInterval && !full {
		return &Error{Op: "work", Code: CodeUnavailable,
			Message: "the server has not answered for " + silence.Round(time.Second).String()}
	}
	return nil
}
