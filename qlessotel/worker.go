package qlessotel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"
	"go.opentelemetry.io/otel/trace"

	"github.com/qless/qless-go"
)

// Observe records the events of the jobs of workers. Observe must be the Observer of the workers'
// [qless.WorkerConfig], or be called by it.
//
// Observe records the metrics, and ends the spans begun by [Instrumentation.Middleware] once the
// outcome of the job is known. Without the middleware, Observe also makes the spans, but handlers
// can't use them.
func (i *Instrumentation) Observe(event qless.JobEvent) {
	key := runKey{event.Worker, event.JID, event.PoppedAt.UnixNano()}
	if event.Kind == qless.JobEventStarted {
		i.mu.Lock()
		i.runs[key] = &run{started: event.Time}
		i.mu.Unlock()
		i.metrics.started(event)
		return
	}
	i.mu.Lock()
	r := i.runs[key]
	if event.Kind == qless.JobEventEnded {
		delete(i.runs, key)
	}
	i.mu.Unlock()
	if r == nil {
		return
	}
	switch event.Kind {
	case qless.JobEventEnded:
		i.ended(r, event)
	case qless.JobEventPanicked:
		r.event(semconv.ExceptionEventName, event.Time, exception(event.Err)...)
	default:
		r.event(string(event.Kind), event.Time)
	}
}

// A runKey identifies a run of any job.
type runKey struct {
	worker, jid string
	popped      int64
}

// A run is the run of a job by a worker, from JobEventStarted to JobEventEnded.
type run struct {
	started time.Time

	mu       sync.Mutex
	span     trace.Span // nil before the middleware is called
	returned time.Time  // when the middleware returned
	settled  bool       // the handler has ended the job itself
}

// contextKey is the context key for the run of a handler.
type contextKey struct{}

// runOf returns the run of a handler's context, or nil.
func runOf(ctx context.Context) *run {
	r, _ := ctx.Value(contextKey{}).(*run)
	return r
}

func (r *run) setSettled() {
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.settled = true
	}
}

func (r *run) setSpan(span trace.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.span = span
}

func (r *run) setReturned() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.returned = time.Now()
}

// event adds an event to the span, if begun.
func (r *run) event(name string, at time.Time, attributes ...attribute.KeyValue) {
	r.mu.Lock()
	span := r.span
	r.mu.Unlock()
	if span != nil {
		span.AddEvent(name, trace.WithTimestamp(at), trace.WithAttributes(attributes...))
	}
}

// exception returns the attributes of the event of an error.
func exception(err error) []attribute.KeyValue {
	attributes := []attribute.KeyValue{
		semconv.ExceptionTypeKey.String(errorType(err).Value.AsString()),
		semconv.ExceptionMessage(message(err)),
	}
	var panicked *qless.PanicError
	if errors.As(err, &panicked) {
		attributes = append(attributes, semconv.ExceptionStacktrace(string(panicked.Stack)))
	}
	return attributes
}

// message returns the text of an error, without a stack.
func message(err error) string {
	var panicked *qless.PanicError
	if errors.As(err, &panicked) {
		return fmt.Sprintf("panic: %v", panicked.Value)
	}
	return err.Error()
}

// ended ends the span of a run.
func (i *Instrumentation) ended(r *run, event qless.JobEvent) {
	r.mu.Lock()
	span, returned, settled := r.span, r.returned, r.settled
	r.mu.Unlock()
	if span == nil { // no handler, or no middleware
		_, span = i.process(context.Background(), processed{
			jid: event.JID, klass: event.Klass, queue: event.Queue, attempt: event.Attempt,
			waited: event.Waited, worker: event.Worker, headers: event.Headers, started: r.started,
		})
	}
	ctx := trace.ContextWithSpan(context.Background(), span)
	if returned.IsZero() {
		returned = r.started.Add(event.Ran)
	}
	until := event.Time
	switch action := string(event.Outcome.Action); {
	case action == "" || !i.options.SettleSpans:
		span.AddEvent("settle", trace.WithTimestamp(event.Time),
			trace.WithAttributes(outcomeKey.String(event.Ending)))
	case settled:
		until = returned
	default:
		until = returned
		i.settle(ctx, action, returned, event)
	}
	setOutcome(span, event)
	i.metrics.ended(ctx, event)
	span.End(trace.WithTimestamp(until))
}

// settle makes the span of the report of an outcome.
func (i *Instrumentation) settle(
	ctx context.Context, action string, began time.Time, event qless.JobEvent,
) {
	op := operation{
		name: action, kind: messagingconv.OperationTypeSettle, queue: event.Queue,
		klass: event.Klass, jid: event.JID,
	}
	_, span := i.tracer.Start(ctx, op.spanName(), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(began), trace.WithAttributes(op.attributes()...))
	end(span, event.Err, trace.WithTimestamp(event.Time))
}

// problemOf returns the error of a run, or nil.
func problemOf(event qless.JobEvent) error {
	switch event.Ending {
	case "lost":
		return event.Err
	case "retry":
		return event.Outcome.Err
	case "fail", "exhausted":
		if event.Outcome.Err == nil {
			return errFailed
		}
		return event.Outcome.Err
	}
	return nil
}

// errFailed is the error of a job failed by its handler without a reason.
var errFailed error = &qless.Error{Code: qless.ErrFailed, Message: "the job has failed"}

// setOutcome records the outcome of a run, and when the job can run again.
func setOutcome(span trace.Span, event qless.JobEvent) {
	span.SetAttributes(outcomeKey.String(event.Ending))
	goesBack := event.Ending == "retry" || event.Ending == "release"
	if delay := event.Outcome.Delay; goesBack && delay > 0 {
		span.SetAttributes(delayKey.Float64(delay.Seconds()))
	}
	if problem := problemOf(event); problem != nil {
		span.SetAttributes(errorType(problem))
		span.SetStatus(codes.Error, message(problem))
	}
}

// processed returns the operation of a run of a job.
type processed struct {
	jid, klass, queue, worker, spawnedFrom string

	attempt int
	waited  time.Duration
	headers map[string]string
	started time.Time
}

// process begins the span of a run.
func (i *Instrumentation) process(
	ctx context.Context, p processed,
) (context.Context, trace.Span) {
	op := operation{
		name: "process", kind: messagingconv.OperationTypeProcess, queue: p.queue, klass: p.klass,
		jid: p.jid,
	}
	attributes := append(op.attributes(), attemptKey.Int(p.attempt),
		waitKey.Float64(p.waited.Seconds()), semconv.MessagingClientID(p.worker))
	if p.spawnedFrom != "" {
		attributes = append(attributes, spawnedFromKey.String(p.spawnedFrom))
	}
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithTimestamp(p.started),
		trace.WithAttributes(attributes...),
	}
	ctx, put := i.extract(ctx, p.jid, p.headers)
	switch {
	case put.IsValid() && i.options.Parent:
		ctx = trace.ContextWithRemoteSpanContext(ctx, put)
	case put.IsValid():
		options = append(options, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: put}))
	default:
		options = append(options, trace.WithNewRoot())
	}
	return i.tracer.Start(ctx, op.spanName(), options...)
}

// Middleware adds the span of the run and the baggage of the put to the context of handlers, and
// makes jobs moved by [qless.Next] carry the run's context. Middleware should be outermost.
//
// Without [Instrumentation.Observe], the span ends when the handler returns, with the handler's
// outcome, regardless of later changes of the job.
func (i *Instrumentation) Middleware(next qless.Handler) qless.Handler {
	if next == nil {
		return nil
	}
	return func(ctx context.Context, job *qless.Job) (err error) {
		r := i.runFor(job)
		p := processed{
			jid: job.JID, klass: job.Klass, queue: job.Queue, worker: job.Worker,
			spawnedFrom: job.SpawnedFrom, attempt: job.Attempt, waited: job.Waited,
			headers: maps.Clone(job.Headers), started: time.Now(),
		}
		if r != nil {
			p.started = r.started
		}
		ctx, span := i.process(ctx, p)
		returned := false
		if r == nil {
			defer func() { endAlone(span, err, returned) }()
		} else {
			r.setSpan(span)
			defer r.setReturned()
			ctx = context.WithValue(ctx, contextKey{}, r)
		}
		err = i.carryOn(ctx, p.headers, next(ctx, job))
		returned = true
		return err
	}
}

// runFor returns the run of a job, if its beginning was seen by Observe.
func (i *Instrumentation) runFor(job *qless.Job) *run {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.runs[runKey{job.Worker, job.JID, job.PoppedAt.UnixNano()}]
}

// endAlone ends the span of a run with the handler's outcome.
func endAlone(span trace.Span, err error, returned bool) {
	event := qless.JobEvent{Kind: qless.JobEventEnded, Outcome: qless.OutcomeOf(err)}
	if !returned {
		event.Outcome = qless.Outcome{Action: qless.ActionFail, Err: errPanicked}
	}
	event.Ending = endingOf(event.Outcome)
	setOutcome(span, event)
	span.End()
}

// endingOf returns the Ending of a run with an accepted outcome.
func endingOf(outcome qless.Outcome) string {
	if outcome.Action == qless.ActionComplete && outcome.Queue != "" {
		return "next"
	}
	return string(outcome.Action)
}

// errPanicked stands for a panic that propagates to the worker.
var errPanicked error = &qless.PanicError{Value: "the handler did not return"}
