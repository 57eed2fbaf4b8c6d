package qless

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/qless/qless-go/internal/redisx"
)

// A workerLog writes the log of a worker, with one method for each message. They are called without
// a mutex held, because a logger may call the worker's methods.
type workerLog struct {
	logger *slog.Logger

	mu        sync.Mutex
	unknownAt map[string]time.Time // when a klass without a handler was last reported
}

// withHint returns the attributes to log for an error: the server's answer, and what to do about
// it.
func withHint(err error, args ...any) []any {
	if answer := redisx.Answer(err); answer != "" {
		args = append(args, "error", answer)
	} else {
		args = append(args, "error", err)
	}
	if hint := hints[refusalOf(err)]; hint != "" {
		args = append(args, "hint", hint)
	}
	return args
}

// The server.

func (l *workerLog) serverRefuses(err error) {
	l.logger.Warn("qless: the server refuses", withHint(err)...)
}

func (l *workerLog) serverAway(err error) {
	l.logger.Warn("qless: the server does not answer", "error", err)
}

func (l *workerLog) answerLost(asked, next int, err error) {
	l.logger.Warn("qless: no answer to a question for jobs: fewer are asked for at once",
		"asked", asked, "next", next, "error", err, "hint", "if the answer was too long for the "+
			"client's ReadTimeout, raise that, or lower the concurrency or the size of the data")
}

func (l *workerLog) serverBack() { l.logger.Info("qless: the server is back") }

func (l *workerLog) cantRelay(err error) {
	l.logger.Warn("qless: the worker can't listen for jobs of other clients yet", withHint(err)...)
}

func (l *workerLog) cantWake(queues []string, err error) {
	l.logger.Warn("qless: could not wake a worker", withHint(err, "queues", queues)...)
}

func (l *workerLog) tooManyQueues(matched int) {
	l.logger.Warn("qless: the patterns match more queues than a worker asks at once; "+
		"those that have jobs come first, the others in turns", "queues", matched, "asked", maxReserve)
}

// Jobs and their locks.

func (l *workerLog) unknownKlass(a *activeJob, delay time.Duration) {
	if l.isNews(a.klass) {
		l.logger.Warn("qless: no handler for the klass: its jobs are released",
			"klass", a.klass, "queue", a.queue, "delay", delay)
	}
}

// isNews reports whether an unknown klass was not logged within the last minute.
func (l *workerLog) isNews(klass string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.unknownAt[klass]) < time.Minute {
		return false
	}
	if l.unknownAt == nil || len(l.unknownAt) > 1000 {
		l.unknownAt = map[string]time.Time{}
	}
	l.unknownAt[klass] = now
	return true
}

func (l *workerLog) progressRefused(err error) {
	l.logger.Warn("qless: the server refuses the progress of jobs", withHint(err)...)
}

func (l *workerLog) renewalFailed(jobs int, err error) {
	l.logger.Warn("qless: could not renew locks", "jobs", jobs, "error", err)
}

func (l *workerLog) lockLost(a *activeJob, problem string) {
	l.logger.Warn("qless: lost the lock of a job",
		"jid", a.jid, "klass", a.klass, "queue", a.queue, "error", problem)
}

func (l *workerLog) lockExpired(a *activeJob) {
	l.logger.Warn("qless: a lock expired before it could be renewed",
		"jid", a.jid, "klass", a.klass, "queue", a.queue)
}

func (l *workerLog) canceled(a *activeJob) {
	l.logger.Info("qless: a job was canceled while it ran",
		"jid", a.jid, "klass", a.klass, "queue", a.queue)
}

func (l *workerLog) releasedStray(jid string) {
	l.logger.Warn("qless: released a job whose reservation got no answer", "jid", jid)
}

// Outcomes.

// discarded logs an outcome that is not sent, because its job is no longer held. That is expected
// if the worker has released the job to stop.
func (l *workerLog) discarded(a *activeJob, outcome Outcome, cause error) {
	level := slog.LevelWarn
	if errors.Is(cause, ErrStopped) {
		level = slog.LevelInfo
	}
	l.logger.Log(context.Background(), level,
		"qless: discarded the outcome of a job that is not held any more",
		"jid", a.jid, "klass", a.klass, "queue", a.queue, "outcome", outcome.Action, "error", cause)
}

func (l *workerLog) refusedAgain(r *report, problem string) {
	l.logger.Info("qless: the server refused an outcome that it may already have",
		"jid", r.jid, "queue", r.queue, "outcome", r.Action, "error", problem)
}

func (l *workerLog) notTaken(r *report, problem string) {
	l.logger.Warn("qless: the server did not take an outcome",
		"jid", r.jid, "queue", r.queue, "outcome", r.Action, "error", problem)
}

func (l *workerLog) outcomeRefused(r *report, err error) {
	l.logger.Warn("qless: the server refuses an outcome",
		withHint(err, "jid", r.jid, "queue", r.queue, "outcome", r.Action)...)
}

// abandoned logs an outcome that the server never accepted. That is expected of a late one.
func (l *workerLog) abandoned(r *report, err error) {
	level := slog.LevelError
	if r.late {
		level = slog.LevelInfo
	}
	l.logger.Log(context.Background(), level, "qless: gave up an outcome",
		withHint(err, "jid", r.jid, "queue", r.queue, "outcome", r.Action)...)
}

func (l *workerLog) undelivered(outcomes int) {
	l.logger.Warn("qless: the worker stopped before the server took all outcomes",
		"outcomes", outcomes)
}

func (l *workerLog) cantRegister(err error) {
	l.logger.Warn("qless: the worker can't register; it is listed without its queues",
		withHint(err)...)
}

func (l *workerLog) ratesRefused(err error) {
	l.logger.Warn("qless: the server does not take the rates of the worker's jobs", withHint(err)...)
}

func (l *workerLog) cantDeregister(err error) {
	l.logger.Warn("qless: the worker could not deregister", "error", err)
}

// Schedules.

func (l *workerLog) cantFollow(s *schedule, err error) {
	l.logger.Error("qless: a schedule can't be followed", "schedule", s.ID, "error", err)
}

func (l *workerLog) followedDifferently(s *schedule) {
	l.logger.Warn("qless: another worker follows another schedule with the same ID",
		"schedule", s.ID, "spec", s.Spec)
}

func (l *workerLog) cantPut(s *schedule, due time.Time, err error) {
	l.logger.Error("qless: a scheduled job can't be put",
		"schedule", s.ID, "due", due, "error", err)
}
