package qless

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/qless/qless-go/internal/redisx"
)

// WorkerStats describes what a worker is doing and has done since it was started.
type WorkerStats struct {
	// Completed counts jobs that were completed, for good or into another queue.
	Completed int `json:"completed"`

	// Failed counts jobs that were failed at once. A job that ran out of retries counts as retried.
	Failed int `json:"failed"`

	// Retried counts jobs that were retried, or failed because they had no retries left.
	Retried int `json:"retried"`

	// Released counts jobs that were released without using up a retry.
	Released int `json:"released"`

	// Ended counts jobs that were ended by their own handlers.
	Ended int `json:"ended"`

	// Canceled counts jobs that were canceled while they ran.
	Canceled int `json:"canceled"`

	// Lost counts outcomes that were discarded because the lock was lost or the server refused
	// them.
	Lost int `json:"lost"`

	// Slots is how many jobs the worker runs at once, as its Concurrency says.
	Slots int `json:"slots"`

	// Prefetched is how many jobs the worker holds ahead of its free slots. They are locked, but do
	// not run yet.
	Prefetched int `json:"prefetched"`

	// Running are the running jobs, oldest first.
	Running []RunningJob `json:"running"`

	// Queues are the queues that jobs are taken from, as the patterns match now.
	Queues []string `json:"queues"`

	// Schedules are the schedules that the worker follows, in the order of its config.
	Schedules []ScheduleStatus `json:"schedules"`

	// Paused reports whether the worker is paused.
	Paused bool `json:"paused"`

	// Idle reports whether the worker has nothing to do: no handler runs, the server has taken
	// all outcomes, and had no job for the worker when it was asked since something last woke
	// the worker.
	Idle bool `json:"idle"`

	// LastTurn is when the server last answered.
	LastTurn time.Time `json:"last_turn,omitzero"`
}

// A RunningJob is a job that a worker is running.
type RunningJob struct {
	JID   string    `json:"jid"`
	Klass string    `json:"klass"`
	Queue string    `json:"queue"`
	Since time.Time `json:"since"`
}

// ScheduleStatus is how a worker follows a schedule.
type ScheduleStatus struct {
	ID string `json:"id"`

	// Looked is when the worker last checked whether the schedule was due, by this machine's
	// clock; zero before it has.
	Looked time.Time `json:"looked,omitzero"`

	// Next is when the schedule is due next, by the server's clock; zero if that is never, or
	// not known yet.
	Next time.Time `json:"next,omitzero"`
}

// Stats returns what the worker does and has done.
func (w *Worker) Stats() WorkerStats {
	s := w.counters.read()
	s.Idle, s.Slots = w.isIdle(), w.cfg.Concurrency
	s.Queues, s.Paused, s.LastTurn = w.loop.askedQueues(), w.isPaused(), w.health.lastTurn()
	s.Running, s.Prefetched = w.running()
	for _, schedule := range w.schedules {
		s.Schedules = append(s.Schedules, schedule.status())
	}
	slices.SortFunc(s.Running, func(a, b RunningJob) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.JID, b.JID))
	})
	return s
}

// running returns the jobs that run and are held, and how many were taken ahead.
func (w *Worker) running() (running []RunningJob, ahead int) {
	held := w.locks.held()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range held {
		if !a.started.IsZero() {
			job := RunningJob{JID: a.jid, Klass: a.klass, Queue: a.queue, Since: a.started}
			running = append(running, job)
		}
	}
	return running, len(w.ahead.jobs)
}

// isIdle reports whether there is nothing to do. A job goes from the worker's active ones to those
// that are being finished, and its report to the outbox, so they are asked in that order.
func (w *Worker) isIdle() bool {
	if !w.loop.isRested() || w.rates.isAsked() {
		return false
	}
	return !w.runsHandlers() && w.finishing.Load() == 0 && w.isQuiet()
}

// Healthy returns nil while the worker does its work, for a readiness probe: it was started and
// not stopped, and the server has answered it within two poll intervals and accepted its last
// command. A worker that is paused or fully busy asks nothing, and is healthy.
//
// If the server refuses commands, the error has its message. It is [ErrServer], or
// [ErrUnavailable] while the server takes no commands at all.
func (w *Worker) Healthy() error {
	switch w.currentState() {
	case workerNew:
		return &Error{Op: "work", Code: CodeStopped, Message: "the worker was not started"}
	case workerStopping, workerClosed:
		return &Error{Op: "work", Code: CodeStopped, Message: "the worker was stopped"}
	}
	return w.health.check(2 * w.cfg.PollInterval)
}

// counters count what a worker has done.
type counters struct {
	mu    sync.Mutex
	stats WorkerStats // only the counts are used
}

// add increments the counter that a function returns.
func (c *counters) add(count func(*WorkerStats) *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*count(&c.stats)++
}

func (c *counters) read() WorkerStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

func countEnded(s *WorkerStats) *int    { return &s.Ended }
func countCanceled(s *WorkerStats) *int { return &s.Canceled }
func countLost(s *WorkerStats) *int     { return &s.Lost }

// health tracks the exchanges of a worker with the server.
type health struct {
	mu         sync.Mutex
	answeredAt time.Time // when the server last answered
	askedAt    time.Time // since when an exchange is due or in progress; zero if none is
	refused    error     // the server's error, if it refused the last exchange
}

// asks records that there is something to exchange with the server.
func (h *health) asks() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.askedAt.IsZero() {
		h.askedAt = time.Now()
	}
}

// asksNothing records that no exchange is due any more.
func (h *health) asksNothing() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.askedAt = time.Time{}
}

// answered records that the server has answered, before the exchange is over.
func (h *health) answered() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answeredAt = time.Now()
}

// succeeded records that an exchange succeeded.
func (h *health) succeeded() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answeredAt, h.askedAt, h.refused = time.Now(), time.Time{}, nil
}

// failed records that an exchange failed.
func (h *health) failed(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused = nil
	if redisx.IsAnswer(err) {
		h.refused = err
	}
}

func (h *health) lastTurn() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.answeredAt
}

// check returns an error if the server refuses, or has not answered for longer than the limit.
func (h *health) check(limit time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	message := ""
	switch silence := time.Since(h.askedAt); {
	case h.refused != nil:
		code := CodeServer
		if errors.Is(h.refused, ErrUnavailable) {
			code = CodeUnavailable
		}
		return &Error{Op: "work", Code: code, Err: h.refused,
			Message: "the server refuses: " + redisx.Answer(h.refused)}
	case h.answeredAt.IsZero():
		message = "the server has not answered yet"
	case !h.askedAt.IsZero() && silence > limit:
		message = "the server has not answered for " + silence.Round(time.Second).String()
	default:
		return nil
	}
	return &Error{Op: "work", Code: CodeUnavailable, Message: message}
}
