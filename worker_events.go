package qless

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/qless/qless-go/internal/calls"
	"github.com/qless/qless-go/internal/guard"
	"github.com/qless/qless-go/internal/redisx"
)

// A workerLog writes the log of a worker, with one method for each message, called without a mutex
// held, because a logger may call the worker's methods.
type workerLog struct {
	logger *slog.Logger

	mu          sync.Mutex
	unhandledAt map[unhandled]time.Time // when a klass without a handler was last reported
}

// The server.

func (l *workerLog) serverRefuses(err error) {
	l.logger.Warn("qless: the server refuses", redisx.WithHint(err)...)
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

func (l *workerLog) tooManyQueues(matched int) {
	l.logger.Warn("qless: the patterns match more queues than a worker asks at once; "+
		"those that have jobs come first, the others in turns", "queues", matched, "asked", maxReserve)
}

// Jobs and their locks.

func (l *workerLog) unknownKlass(r *run, delay time.Duration) {
	if l.isNews(unhandled{r.queue, r.klass}) {
		l.logger.Warn("qless: no handler for the klass: its jobs are released",
			"klass", r.klass, "queue", r.queue, "delay", delay)
	}
}

// isNews reports whether jobs of a queue without a handler were not logged within the last minute.
func (l *workerLog) isNews(jobs unhandled) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.unhandledAt[jobs]) < time.Minute {
		return false
	}
	if l.unhandledAt == nil || len(l.unhandledAt) > 1000 {
		l.unhandledAt = map[unhandled]time.Time{}
	}
	l.unhandledAt[jobs] = now
	return true
}

// unhandled returns up to 10 kinds of jobs without a handler that the worker has recently received.
func (l *workerLog) unhandled() (met []unhandled) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for jobs, at := range l.unhandledAt {
		if time.Since(at) < 2*registerInterval && len(met) < 10 {
			met = append(met, jobs)
		}
	}
	return met
}

func (l *workerLog) progressRefused(err error) {
	l.logger.Warn("qless: the server refuses the progress of jobs", redisx.WithHint(err)...)
}

func (l *workerLog) renewalFailed(jobs int, err error) {
	l.logger.Warn("qless: could not renew locks", "jobs", jobs, "error", err)
}

func (l *workerLog) lockLost(r *run, problem error) {
	l.logger.Warn("qless: lost the lock of a job",
		"jid", r.jid, "klass", r.klass, "queue", r.queue, "error", problem)
}

func (l *workerLog) lockExpired(r *run) {
	l.logger.Warn("qless: a lock expired before it could be renewed",
		"jid", r.jid, "klass", r.klass, "queue", r.queue)
}

func (l *workerLog) canceled(r *run) {
	l.logger.Info("qless: a job was canceled while it ran",
		"jid", r.jid, "klass", r.klass, "queue", r.queue)
}

func (l *workerLog) releasedStray(jid string) {
	l.logger.Warn("qless: released a job whose reservation got no answer", "jid", jid)
}

// Outcomes.

// discarded logs an outcome that is not sent, because the job is no longer held. The loss has been
// logged before.
func (l *workerLog) discarded(r *run, outcome Outcome, cause error) {
	l.logger.Info("qless: discarded the outcome of a job that is not held any more",
		"jid", r.jid, "klass", r.klass, "queue", r.queue, "outcome", outcome.Action, "error", cause)
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
		redisx.WithHint(err, "jid", r.jid, "queue", r.queue, "outcome", r.Action)...)
}

// abandoned logs an outcome that the server never accepted. That is expected of a late one.
func (l *workerLog) abandoned(r *report, err error) {
	level := slog.LevelError
	if r.late {
		level = slog.LevelInfo
	}
	l.logger.Log(context.Background(), level, "qless: gave up an outcome",
		redisx.WithHint(err, "jid", r.jid, "queue", r.queue, "outcome", r.Action)...)
}

func (l *workerLog) undelivered(outcomes int) {
	l.logger.Warn("qless: the worker stopped before the server took all outcomes",
		"outcomes", outcomes)
}

func (l *workerLog) cantRegister(err error) {
	l.logger.Warn("qless: the worker can't register; it is listed without its queues",
		redisx.WithHint(err)...)
}

func (l *workerLog) ratesRefused(err error) {
	l.logger.Warn("qless: the server does not take the rates of the worker's jobs",
		redisx.WithHint(err)...)
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
		"schedule", s.ID, "when", s.When)
}

func (l *workerLog) cantPut(s *schedule, due time.Time, err error) {
	l.logger.Error("qless: a scheduled job can't be put",
		"schedule", s.ID, "due", due, "error", err)
}

// A JobEventKind is the kind of a [JobEvent].
type JobEventKind string

// The kinds of events. Every started job has exactly one JobEventEnded, as its last event.
const (
	JobEventStarted  JobEventKind = "started"   // the handler is about to be called
	JobEventPanicked JobEventKind = "panicked"  // the handler panicked: Err is the *PanicError
	JobEventLockLost JobEventKind = "lock_lost" // the lock was lost during the run
	JobEventCanceled JobEventKind = "canceled"  // the job was canceled during the run
	JobEventEnded    JobEventKind = "ended"     // the handler has returned, and the outcome is final
)

// A JobEvent is an event in the run of a job, for the Observer of [WorkerConfig].
type JobEvent struct {
	Kind   JobEventKind
	Worker string // the name of the worker

	// JID, Klass, Queue and Attempt describe the job as popped.
	JID     string
	Klass   string
	Queue   string
	Attempt int

	// Outcome is the outcome of the job, for JobEventEnded. The Action is empty if the handler has
	// canceled or moved the job.
	Outcome Outcome

	// Waited is how long the job waited until the pop, as in [Job.Waited], or 0 if unknown.
	Waited time.Duration

	// Ran is how long the handler ran, for JobEventEnded.
	Ran time.Duration

	// Err is the reason why the lock was lost, or the panic of the handler. For JobEventEnded, it is
	// nil if the server accepted the outcome, and otherwise [ErrLockLost], [ErrCanceled],
	// [ErrStopped], or the server's error.
	Err error

	// Ending is a word for how the run ended, for labels of metrics, traces and logs: one of these for
	// JobEventEnded, and otherwise empty:
	//
	//   - complete, next: the job is complete, and has ended or moved to another queue
	//   - retry, exhausted: the job is retried, or has failed for lack of retries
	//   - fail: the job has failed at once
	//   - release: the job was put back without using up a retry
	//   - moved: the handler has moved or canceled the job
	//   - canceled: the job was canceled during the run
	//   - lost: the server did not take the outcome, or the lock was lost before
	//   - stopped: the worker stopped before the outcome was delivered
	Ending string

	// Exhausted reports that the job failed for lack of retries.
	Exhausted bool

	// PoppedAt is when the job was popped. With the Worker and the JID, it identifies a run.
	PoppedAt time.Time

	// Headers are the job's headers, not to be changed.
	Headers map[string]string

	// Time is when the event happened.
	Time time.Time
}

// ending returns the Ending of an ended run.
func (e *JobEvent) ending() string {
	switch {
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

// An observer reports events, one at a time for each job, without a mutex held.
type observer struct {
	worker string
	notify func(JobEvent) // nil if there is no Observer
	guard  *guard.Guard
}

func newObserver(worker string, cfg WorkerConfig) *observer {
	return &observer{worker, cfg.Observer, guard.New("WorkerConfig.Observer", cfg.Logger)}
}

func (o *observer) send(r *run, event JobEvent) {
	event.Worker, event.Time = o.worker, time.Now()
	event.JID, event.Klass, event.Queue = r.jid, r.klass, r.queue
	event.Attempt, event.Waited = r.attempt, r.waited
	event.PoppedAt, event.Headers = r.poppedAt, r.headers
	_ = o.guard.Call(func() { o.notify(event) })
}

func (o *observer) started(r *run) {
	if o.notify != nil {
		o.send(r, JobEvent{Kind: JobEventStarted})
	}
}

func (o *observer) panicked(r *run, err *PanicError) {
	if o.notify != nil {
		o.send(r, JobEvent{Kind: JobEventPanicked, Err: err})
	}
}

func (o *observer) canceled(r *run) {
	if o.notify != nil {
		o.send(r, JobEvent{Kind: JobEventCanceled, Err: ErrCanceled})
	}
}

// lost reports the loss of a running job, unless the worker released it to stop. The method ended
// waits for that.
func (o *observer) lost(r *run, cause error) {
	if o.notify == nil {
		return
	}
	defer close(r.lossKnown)
	switch {
	case errors.Is(cause, ErrCanceled):
		o.canceled(r)
	case !errors.Is(cause, ErrStopped):
		o.send(r, JobEvent{Kind: JobEventLockLost, Err: cause})
	}
}

// ended reports the end of a job. The job may be nil.
func (o *observer) ended(r *run, outcome Outcome, err error) {
	o.end(r, JobEvent{Outcome: outcome, Err: err})
}

// end reports the end of a job, once, as a JobEventEnded.
func (o *observer) end(r *run, event JobEvent) {
	if o.notify == nil || r.over.Swap(true) {
		return
	}
	if r.hold.Lost.Load() {
		<-r.lossKnown
	}
	event.Kind, event.Ran, event.Ending = JobEventEnded, r.ran, event.ending()
	o.send(r, event)
}

// jobLogKey is the context key for the log of a handler's job.
type jobLogKey struct{}

// A jobLog holds the parts of the logger of [Logger].
type jobLog struct {
	logger *slog.Logger
	job    jobAttrs
}

// jobAttrs are the attributes of a job in log lines. Data is not among them.
type jobAttrs struct {
	jid, klass, queue string
	attempt           int
	headers           map[string]string
}

// args returns the keys and values for a logger.
func (j *jobAttrs) args() []any {
	args := []any{"jid", j.jid, "klass", j.klass, "queue", j.queue, "attempt", j.attempt}
	if id := calls.TraceID(j.headers); id != "" {
		args = append(args, "trace_id", id)
	}
	return args
}

// withJob returns a context in which Logger returns the logger of a job.
func (l *workerLog) withJob(ctx context.Context, job *Job) context.Context {
	return context.WithValue(ctx, jobLogKey{}, &jobLog{l.logger, jobAttrs{
		job.JID, job.Klass, job.Queue, job.Attempt, job.Headers,
	}})
}

// withCall returns a context in which Logger returns the logger of a bulk call.
func (l *workerLog) withCall(ctx context.Context, klass string, jobs int) context.Context {
	logger := l.logger.With("klass", klass, "jobs", jobs)
	return context.WithValue(ctx, jobLogKey{}, &jobLog{logger: logger})
}

// Logger returns a logger for the handler that was called with this context: the worker's, with the
// attributes jid, klass, queue and attempt, and trace_id if the job has a header traceparent. That
// of a bulk handler has klass and the number of jobs. For any other context, the result is
// [slog.Default].
func Logger(ctx context.Context) *slog.Logger {
	l, _ := ctx.Value(jobLogKey{}).(*jobLog)
	if l == nil {
		return slog.Default()
	}
	if l.job.jid == "" {
		return l.logger
	}
	return l.logger.With(l.job.args()...)
}

// LogJobs returns an Observer for [WorkerConfig] that logs one line for each run that ends, with
// the attributes of [Logger] and the outcome, the duration and the error. Failures are logged as
// errors, retries and lost locks as warnings, and everything else as information. Neither the job's
// data nor the stack of a panic is logged.
func LogJobs(logger *slog.Logger) func(JobEvent) {
	return func(event JobEvent) {
		if event.Kind != JobEventEnded {
			return
		}
		job := jobAttrs{event.JID, event.Klass, event.Queue, event.Attempt, event.Headers}
		args := append(job.args(), "outcome", event.Ending, "duration", event.Ran)
		if err := event.problem(); err != nil {
			args = append(args, "error", errorToLog(err))
		}
		logger.Log(context.Background(), event.level(), "qless: a job has ended", args...)
	}
}

// problem returns the error of a failed run, or nil.
func (e JobEvent) problem() error {
	if e.Err != nil {
		return e.Err
	}
	if e.Outcome.Action == ActionFail || e.Outcome.Action == ActionRetry {
		return e.Outcome.Err
	}
	return nil
}

func (e JobEvent) level() slog.Level {
	switch e.Ending {
	case "exhausted", "fail":
		return slog.LevelError
	case "lost", "retry":
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// errorToLog returns the text of an error without the stack of a panic, and without the parts of
// the data that an error of encoding/json quotes.
func errorToLog(err error) string {
	var panicked *PanicError
	if errors.As(err, &panicked) {
		return "panic: " + guard.PanicValue(panicked.Value)
	}
	var misfit *json.UnmarshalTypeError
	if errors.As(err, &misfit) {
		return fmt.Sprintf("the data does not fit: %s is not a valid %s", fieldOf(misfit), misfit.Type)
	}
	return guard.Message(guard.Text(err))
}

func fieldOf(err *json.UnmarshalTypeError) string {
	if err.Field == "" {
		return "it"
	}
	return err.Field
}
