package qlessotel

import (
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// scope is the name under which spans and metrics are recorded.
const scope = "github.com/qless/qless-go/qlessotel"

// Options configure an [Instrumentation]. The zero value means the defaults.
type Options struct {
	// TracerProvider makes the spans. Defaults to the global one.
	TracerProvider trace.TracerProvider

	// MeterProvider makes the metrics. Defaults to the global one.
	MeterProvider metric.MeterProvider

	// Propagator writes the context of a trace into the headers of jobs, and reads it. Defaults to
	// the global one, which does nothing unless the program has set it.
	Propagator propagation.TextMapPropagator

	// Parent makes the span of the put the parent of that of the run, so that both are in one trace.
	// By default the run begins a trace of its own, with a link to the put: a job may run much later,
	// and several times.
	Parent bool

	// SettleSpans makes a span of each report of an outcome to the server. By default it is an event
	// of the run's span.
	SettleSpans bool

	// LinkByJID gives the run of a job without the context of a trace a link that is made from its
	// jid, if that has 128 bits as the default jids of all clients do: the trace ID is the jid, and
	// the span ID its second half. So all runs of a job that a client in another language has put are
	// found together, and that client may have made a span with these IDs.
	LinkByJID bool
}

// An Instrumentation records spans and metrics of clients and workers. It is safe for concurrent
// use.
type Instrumentation struct {
	options Options
	tracer  trace.Tracer
	metrics *metrics

	mu      sync.Mutex
	runs    map[runKey]*run // the runs that Observe has seen begin
	workers watched
}

// New returns an instrumentation. It fails if the MeterProvider refuses an instrument.
func New(options Options) (*Instrumentation, error) {
	if options.TracerProvider == nil {
		options.TracerProvider = otel.GetTracerProvider()
	}
	if options.MeterProvider == nil {
		options.MeterProvider = otel.GetMeterProvider()
	}
	if options.Propagator == nil {
		options.Propagator = otel.GetTextMapPropagator()
	}
	i := &Instrumentation{
		options: options,
		tracer:  options.TracerProvider.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL)),
		runs:    map[runKey]*run{},
	}
	meter := options.MeterProvider.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL))
	var err error
	i.metrics, err = newMetrics(meter)
	if err != nil {
		return nil, err
	}
	return i, i.metrics.watch(meter, i.look)
}
