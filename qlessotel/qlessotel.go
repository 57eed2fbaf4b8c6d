package qlessotel

import (
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// scope is the instrumentation scope of spans and metrics.
const scope = "github.com/qless/qless-go/qlessotel"

// Options configure an [Instrumentation]. The zero value means the defaults.
type Options struct {
	// LinkByJID links the run of a job without a trace to a span derived from its jid, if the jid has
	// 128 bits, like the default jids of all clients: the trace ID is the jid, and the span ID its
	// second half. The link connects all runs of a job put by a client in another language. That
	// client may have made a span with these IDs.
	LinkByJID bool

	// MeterProvider makes the metrics. Defaults to the global provider.
	MeterProvider metric.MeterProvider

	// Parent makes the put's span the parent of the run's span, in one trace. By default, the run
	// starts a new trace with a link to the put, because a job may run much later, and several times.
	Parent bool

	// Propagator writes the context of a trace to the headers of jobs, and reads it from there.
	// Defaults to the global propagator, which does nothing unless set by the program.
	Propagator propagation.TextMapPropagator

	// SettleSpans makes each report of an outcome to the server a span. By default, each report is an
	// event of the run's span.
	SettleSpans bool

	// TracerProvider makes the spans. Defaults to the global provider.
	TracerProvider trace.TracerProvider
}

// An Instrumentation records spans and metrics of clients and workers. It is safe for concurrent
// use.
type Instrumentation struct {
	options Options
	tracer  trace.Tracer
	metrics *metrics

	mu      sync.Mutex
	runs    map[runKey]*run // runs begun, as seen by Observe
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
