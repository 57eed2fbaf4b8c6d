package qless

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"

	"github.com/qless/qless-go/internal/redisx"
)

// jobLogKey is the context key for the log of a handler's job.
type jobLogKey struct{}

// A jobLog is what [Logger] makes a logger of.
type jobLog struct {
	logger *slog.Logger
	job    jobAttrs
}

// jobAttrs are what lines of the log say about a job. They have nothing of its data.
type jobAttrs struct {
	jid, klass, queue string
	attempt           int
	headers           map[string]string
}

// args returns the keys and values for a logger.
func (j *jobAttrs) args() []any {
	args := []any{"jid", j.jid, "klass", j.klass, "queue", j.queue, "attempt", j.attempt}
	if id := traceIDOf(j.headers); id != "" {
		args = append(args, "trace_id", id)
	}
	return args
}

// traceparent matches the header of the W3C that carries the context of a trace.
var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}`)

// traceIDOf returns the id of the trace in which a job was put, or the empty string.
func traceIDOf(headers map[string]string) string {
	if parts := traceparent.FindStringSubmatch(headers["traceparent"]); parts != nil {
		return parts[1]
	}
	return ""
}

// withJobLog returns a context in which Logger returns the logger of a job.
func (w *Worker) withJobLog(ctx context.Context, job *Job) context.Context {
	return context.WithValue(ctx, jobLogKey{}, &jobLog{w.log.logger, jobAttrs{
		job.JID, job.Klass, job.Queue, job.Attempt(), job.Headers,
	}})
}

// Logger returns a logger for the handler that was called with this context: the worker's, with the
// attributes jid, klass, queue and attempt, and trace_id if the job has a header traceparent. Any
// other context has [slog.Default].
func Logger(ctx context.Context) *slog.Logger {
	l, _ := ctx.Value(jobLogKey{}).(*jobLog)
	if l == nil {
		return slog.Default()
	}
	return l.logger.With(l.job.args()...)
}

// LogJobs returns an Observer for [WorkerConfig] that logs one line for each run that ends, with
// the attributes of [Logger], and:
//
//   - outcome: the [JobEvent.Ending]
//   - duration: how long the handler ran
//   - error: why the job failed or is retried, or why the server did not take the outcome
//
// What failed for good is an error, what is retried or lost a warning, and the rest information. The
// job's data is never logged, nor is the stack of a panic, which the job's Failure has. Errors of
// handlers are, so they should not have any data in them.
func LogJobs(logger *slog.Logger) func(JobEvent) {
	return func(event JobEvent) {
		if event.Kind != JobEnded {
			return
		}
		job := jobAttrs{event.JID, event.Klass, event.Queue, event.Attempt, event.Headers}
		args := append(job.args(), "outcome", event.Ending(), "duration", event.Ran)
		if err := event.problem(); err != nil {
			args = append(args, "error", errorToLog(err))
		}
		logger.Log(context.Background(), event.level(), "qless: a job has ended", args...)
	}
}

// problem returns why a run has not ended well, or nil.
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
	switch e.Ending() {
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
		return fmt.Sprintf("panic: %v", panicked.Value)
	}
	var misfit *json.UnmarshalTypeError
	if errors.As(err, &misfit) {
		return fmt.Sprintf("the data does not fit: %s is no %s", fieldOf(misfit), misfit.Type)
	}
	return redisx.Text(err)
}

func fieldOf(err *json.UnmarshalTypeError) string {
	if err.Field == "" {
		return "it"
	}
	return err.Field
}
