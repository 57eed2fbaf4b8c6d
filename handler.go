package qless

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/qless/qless-go/internal/redisx"
)

// A Handler does the work of a job. Its result decides what happens to the job:
//
//   - nil completes it and saves its data, unless the handler has ended it itself;
//   - [Next] completes it and puts it into another queue;
//   - [Snooze] releases it for a time, without using up a retry;
//   - [RetryIn] retries it after a time, and [FailWith] fails it at once;
//   - any other error retries it after the worker's [Backoff], or fails it if it has no
//     retries left.
//
// [Job.SetResult] and [TypedResult] give the job a result, which [Client.Result] returns. A panic
// fails the job, with its stack as the message.
//
// The context inherits the values of the one that the worker was started with. [ClientFromContext]
// returns the worker's client, and [Logger] a logger for the job. The context ends when the job's
// lock is lost, the job is canceled or exceeds its MaxRunTime, or the worker is stopped;
// [context.Cause] returns which. Once the lock is lost, the handler's result has no effect. A
// handler that exceeds its MaxRunTime still has the lock and completes the job by returning nil. If
// it returns the context's error instead, [Backoff] and FailGroup are passed [ErrMaxRunTime].
//
// A job is run at least once. A handler may be called again for a job that it has already done, if
// the worker died or lost the lock before the server knew the outcome.
//
// A handler's job has no History, Dependencies or Dependents, and Tracked is not set. [Job.Refresh]
// reads them.
type Handler func(ctx context.Context, job *Job) error

// Typed returns a handler that decodes the job's data into a T before it calls work. Data
// that does not fit fails the job in the group <klass>:data, as a retry would not help. It
// panics if work is nil.
func Typed[T any](work func(ctx context.Context, job *Job, data T) error) Handler {
	if work == nil {
		panic("qless: Typed: nil function")
	}
	return func(ctx context.Context, job *Job) error {
		var data T
		if err := job.Unmarshal(&data); err != nil {
			return FailWith(job.Klass+":data", err)
		}
		return work(ctx, job, data)
	}
}

// TypedResult returns a handler as [Typed] does. The return value of work becomes the job's result
// ([Job.SetResult]) if the job is complete; with an error that makes it anything else, it is
// dropped. A result that can't be JSON fails the job in the group <klass>:result. It panics if work
// is nil.
func TypedResult[T, R any](work func(ctx context.Context, job *Job, data T) (R, error)) Handler {
	if work == nil {
		panic("qless: TypedResult: nil function")
	}
	return Typed(func(ctx context.Context, job *Job, data T) error {
		result, err := work(ctx, job, data)
		if OutcomeOf(err).Action != ActionComplete {
			return err
		}
		if err := job.SetResult(result); err != nil {
			return FailWith(job.Klass+":result", err)
		}
		return err
	})
}

// A Middleware wraps a handler. See [OutcomeOf] for what the handler's error means.
type Middleware func(next Handler) Handler

// A HandleOption changes how the jobs of one klass are run: [MaxRunTime] or [Backoff].
type HandleOption interface{ applyHandle(*route) }

func (d MaxRunTime) applyHandle(r *route) { r.maxRunTime = time.Duration(d) }
func (b Backoff) applyHandle(r *route)    { r.backoff = b }

// A route is a handler with its options.
type route struct {
	handler    Handler
	backoff    Backoff       // nil for the worker's
	maxRunTime time.Duration // 0 for the worker's, -1 for never
}

// newRoute returns the route of a klass. It panics if the arguments are invalid.
func newRoute(klass string, handler Handler, options []HandleOption) *route {
	refuse := func(problem any) { panic(fmt.Sprintf("qless: Handle(%q): %v", klass, problem)) }
	switch {
	case klass == "":
		refuse("the klass is empty")
	case !utf8.ValidString(klass):
		refuse("the klass is not UTF-8")
	case strings.Contains(strings.TrimSuffix(klass, "*"), "*"):
		refuse("a * is a pattern only at the end")
	case handler == nil:
		refuse("nil handler")
	}
	r := &route{handler: handler}
	for _, option := range options {
		if option == nil {
			refuse("nil option")
		}
		if backoff, ok := option.(Backoff); ok && backoff == nil {
			refuse("nil Backoff")
		}
		option.applyHandle(r)
	}
	if r.maxRunTime < 0 && r.maxRunTime != none {
		refuse(fmt.Sprintf("negative MaxRunTime %v", r.maxRunTime))
	}
	return r
}

// A mux finds the handler of a klass.
type mux struct {
	exact    map[string]*route
	prefixes map[string]*route // by the prefix of the klass; "" matches every klass
}

// add registers a route for a klass or, if the pattern ends in *, for every klass with that
// prefix. It panics if there is one already.
func (m *mux) add(pattern string, r *route) {
	if m.exact == nil {
		m.exact, m.prefixes = map[string]*route{}, map[string]*route{}
	}
	routes, name := m.exact, pattern
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		routes, name = m.prefixes, prefix
	}
	if routes[name] != nil {
		panic(fmt.Sprintf("qless: Handle(%q): the klass has a handler already", pattern))
	}
	routes[name] = r
}

// find returns the route of a klass: its own, else that of the longest prefix, else nil.
func (m *mux) find(klass string) *route {
	if r, ok := m.exact[klass]; ok {
		return r
	}
	for end := len(klass); end >= 0; end-- {
		if r, ok := m.prefixes[klass[:end]]; ok {
			return r
		}
	}
	return nil
}

// isEmpty reports whether no handler is registered.
func (m *mux) isEmpty() bool { return len(m.exact)+len(m.prefixes) == 0 }

// klasses returns the klasses and patterns that have a handler, sorted.
func (m *mux) klasses() []string {
	klasses := slices.Collect(maps.Keys(m.exact))
	for prefix := range m.prefixes {
		klasses = append(klasses, prefix+"*")
	}
	slices.Sort(klasses)
	return klasses
}

// clientKey is the context key for the worker's client.
type clientKey struct{}

// ClientFromContext returns the client of the worker that called the handler with this context, for
// instance to put follow-up jobs. It returns nil for any other context.
func ClientFromContext(ctx context.Context) *Client {
	client, _ := ctx.Value(clientKey{}).(*Client)
	return client
}

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
		job.JID, job.Klass, job.Queue, job.Attempt, job.Headers,
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
//   - outcome: the Ending of the [JobEvent]
//   - duration: how long the handler ran
//   - error: why the job failed or is retried, or why the server did not take the outcome
//
// Failures are logged as errors, retries and lost locks as warnings, and all else as information.
// The job's data is never logged, nor is the stack of a panic, which the job's Failure has. Errors
// of handlers are, so they should not have any data in them.
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
