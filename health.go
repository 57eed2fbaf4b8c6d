package qless

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/redisx"
)

// health is what a worker knows of itself. The worker's mutex guards it.
type health struct {
	turnedAt  time.Time            // when an exchange with the server last went well
	askedAt   time.Time            // since when an exchange is due, or tried; zero when none is
	refused   error                // what the server said when it refused the last exchange
	stats     WorkerStats          // the counts alone
	unknownAt map[string]time.Time // when a klass was last reported
}

// asks notes that there is something to exchange with the server.
func (h *health) asks(now time.Time) {
	if h.askedAt.IsZero() {
		h.askedAt = now
	}
}

// asksNothing notes that no exchange is due any more.
func (h *health) asksNothing() { h.askedAt = time.Time{} }

// turned notes that an exchange went well.
func (h *health) turned(now time.Time) { h.turnedAt, h.askedAt, h.refused = now, time.Time{}, nil }

func (h *health) count(a Action) { *actions[a].count(&h.stats)++ }

// WorkerStats is what a worker does and has done since it was started.
type WorkerStats struct {
	Completed int // jobs completed, for good or into a next queue
	Failed    int // jobs failed at once; one that has no retries left counts as retried
	Retried   int // jobs retried, or failed because they had no retries left
	Released  int // jobs released without using up a retry
	Ended     int // jobs that their handlers ended themselves
	Canceled  int // jobs that were canceled while they ran
	Lost      int // results that were discarded: the lock was lost, or the server refused them

	Running  []RunningJob // oldest first
	Queues   []string     // where jobs are taken from, as the patterns match now
	Paused   bool
	LastTurn time.Time // when the server last answered
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
	s := w.health.stats
	s.Queues, s.Paused, s.LastTurn = queues, w.paused, w.health.turnedAt
	for _, r := range w.running {
		s.Running = append(s.Running, RunningJob{JID: r.jid, Klass: r.klass, Queue: r.queue, Since: r.started})
	}
	slices.SortFunc(s.Running, func(a, b RunningJob) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.JID, b.JID))
	})
	return s
}

// Healthy returns nil while the worker does its work: it has been started and not stopped, the
// server has answered it, did not refuse what it was last asked, and has not kept it waiting for
// an answer for two poll intervals. A worker that is paused, or has no room, asks for nothing.
// When the server refuses, the error has its words, and is [ErrServer], or [ErrUnavailable] while
// it takes no commands at all. Healthy serves as a readiness probe.
func (w *Worker) Healthy() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch w.state {
	case workerNew:
		return &Error{Op: "work", Code: CodeStopped, Message: "the worker was not started"}
	case workerStopping, workerClosed:
		return &Error{Op: "work", Code: CodeStopped, Message: "the worker was stopped"}
	}
	if err := w.health.refused; err != nil {
		return refusedWork(err)
	}
	if w.health.turnedAt.IsZero() {
		return &Error{Op: "work", Code: CodeUnavailable, Message: "the server has not answered yet"}
	}
	if silence := time.Since(w.health.askedAt); silence > 2*w.cfg.PollInterval && !w.health.askedAt.IsZero() {
		return &Error{Op: "work", Code: CodeUnavailable,
			Message: "the server has not answered for " + silence.Round(time.Second).String()}
	}
	return nil
}

// refusedWork is the error of a worker whose server refuses.
func refusedWork(err error) *Error {
	code := CodeServer
	if errors.Is(err, ErrUnavailable) {
		code = CodeUnavailable
	}
	return &Error{Op: "work", Code: code, Message: "the server refuses: " + redisx.Answer(err), Err: err}
}

// hints says what to do about what a server refuses, by the first word of what it says.
var hints = map[string]string{
	"BUSY":        "a script has run for too long: see SCRIPT KILL",
	"CLUSTERDOWN": "the cluster does not serve all slots: check its nodes",
	"LOADING":     "the server is reading its data from disk: wait",
	"MASTERDOWN":  "it is a replica without a master: connect to the master",
	"MAXCLIENTS":  "raise maxclients, or open fewer connections",
	"MISCONF":     "the server can't save its data: see its log and the disk",
	"NOAUTH":      "give the client the server's password",
	"NOPERM":      "grant the worker the permissions in docs/security.md",
	"NOREPLICAS":  "too few replicas are connected: see min-replicas-to-write",
	"OOM":         "free memory or raise maxmemory",
	"READONLY":    "it is a replica: connect to the master",
	"TRYAGAIN":    "the cluster is moving the slot: wait",
	"WRONGPASS":   "give the client a user and a password that the server knows",
}

// firstWord matches the word by which a refusal says its kind. Redis 6 says it inside of a script's
// error.
var firstWord = regexp.MustCompile(`^(?:ERR .*?: -)?([A-Z]+) `)

// refusalOf returns the kind of a server's refusal, as hints lists them: empty when the server
// said nothing.
func refusalOf(err error) string {
	answer := redisx.Answer(err)
	switch {
	case strings.Contains(answer, "ACL failure in script"),
		strings.Contains(answer, "The user executing the script can't"):
		return "NOPERM"
	case strings.Contains(answer, "Protocol error: unauthenticated"): // of a long command
		return "NOAUTH"
	case strings.Contains(answer, "max number of clients"):
		return "MAXCLIENTS"
	}
	if word := firstWord.FindStringSubmatch(answer); word != nil {
		return word[1]
	}
	return answer
}

// isGeneral reports whether a refusal is about the server or the user, and not about what was
// asked.
func isGeneral(err error) bool {
	_, known := hints[refusalOf(err)]
	return known || redisx.IsAnswer(err) && redisx.NeverRan(err)
}

// withHint returns what to log of an error, with what the server said and what to do about it.
func withHint(err error, args ...any) []any {
	if answer := redisx.Answer(err); answer != "" {
		args = append(args, "answer", answer)
	} else {
		args = append(args, "error", err)
	}
	if hint := hints[refusalOf(err)]; hint != "" {
		args = append(args, "hint", hint)
	}
	return args
}

// notes collects what is to be logged when the mutex is free again: a logger may ask the worker.
type notes []note

type note struct {
	level   slog.Level
	message string
	args    []any
	do      func() // instead of logging
}

func (n *notes) add(level slog.Level, message string, args ...any) {
	*n = append(*n, note{level: level, message: message, args: args})
}

func (n *notes) do(do func()) { *n = append(*n, note{do: do}) }

// report logs what was collected. The mutex is not held.
func (w *Worker) report(log notes) {
	for _, n := range log {
		if n.do != nil {
			n.do()
		} else {
			w.log.Log(context.Background(), n.level, n.message, n.args...)
		}
	}
}
