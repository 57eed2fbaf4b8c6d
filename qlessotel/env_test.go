package qlessotel_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/qlessotel"
)

// patience turns a hang into a failure.
const patience = 30 * time.Second

func TestMain(m *testing.M) { testkit.Main(m) }

// An env is a real server, a traced client, and the recorded data.
type env struct {
	*qless.Client
	t         *testing.T
	rdb       *redis.Client
	telemetry *qlessotel.Instrumentation
	tracer    trace.Tracer
	spans     *tracetest.InMemoryExporter
	reader    *sdkmetric.ManualReader
}

func newEnv(t *testing.T, options qlessotel.Options) *env {
	t.Helper()
	e := &env{
		t: t, rdb: testkit.Start(t).Client(t), spans: tracetest.NewInMemoryExporter(),
		reader: sdkmetric.NewManualReader(),
	}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(e.spans))
	options.TracerProvider = tracers
	options.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(e.reader))
	options.Propagator = propagation.NewCompositeTextMapPropagator(
		propagation.TraceContext{}, propagation.Baggage{})
	e.tracer = tracers.Tracer("test")
	var err error
	e.telemetry, err = qlessotel.New(options)
	require.NoError(t, err)
	config := &qless.ClientConfig{Logger: testkit.Quiet()}
	e.telemetry.Configure(config)
	e.Client, err = qless.New(e.rdb, config)
	require.NoError(t, err)
	return e
}

// worker makes a traced worker of the queue q, stopped with the test.
func (e *env) worker(config qless.WorkerConfig) *qless.Worker {
	e.t.Helper()
	if config.Queues == nil {
		config.Queues = []string{"q"}
	}
	config.Observer = e.telemetry.Observe
	w, err := qless.NewWorker(e.Client, config)
	require.NoError(e.t, err)
	w.Use(e.telemetry.Middleware)
	e.telemetry.Watch(w)
	e.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = w.Stop(ctx)
	})
	return w
}

// work starts a worker with one handler.
func (e *env) work(klass string, handler qless.Handler) *qless.Worker {
	e.t.Helper()
	w := e.worker(qless.WorkerConfig{Backoff: inAnHour, UnknownKlassDelay: time.Minute})
	w.Handle(klass, handler)
	require.NoError(e.t, w.Start(context.Background()))
	return w
}

func inAnHour(*qless.Job, int, error) time.Duration { return time.Hour }

func (e *env) put(ctx context.Context, queue, klass string, options ...qless.PutOption) string {
	e.t.Helper()
	jid, err := e.Queue(queue).Put(ctx, klass, nil, options...)
	require.NoError(e.t, err)
	return jid
}

// named returns the ended spans with a name, once the wanted number has ended.
func (e *env) named(name string, want int) []tracetest.SpanStub {
	e.t.Helper()
	var found []tracetest.SpanStub
	require.Eventually(e.t, func() bool {
		found = slices.DeleteFunc(e.spans.GetSpans(), func(s tracetest.SpanStub) bool {
			return s.Name != name
		})
		return len(found) >= want
	}, patience, 5*time.Millisecond, name)
	require.Len(e.t, found, want)
	return found
}

func (e *env) one(name string) tracetest.SpanStub {
	e.t.Helper()
	return e.named(name, 1)[0]
}

// values returns the attributes of a span by key.
func values(s tracetest.SpanStub) map[string]any { return valuesOf(s.Attributes) }

func valuesOf(attributes []attribute.KeyValue) map[string]any {
	all := map[string]any{}
	for _, a := range attributes {
		all[string(a.Key)] = a.Value.AsInterface()
	}
	return all
}

// events returns the names of a span's events.
func events(s tracetest.SpanStub) []string {
	var names []string
	for _, event := range s.Events {
		names = append(names, event.Name)
	}
	return names
}

// A point is a measurement: a count, or the number of values in a histogram.
type point struct {
	labels map[string]any
	value  float64
}

// points returns the measurements under a name.
func (e *env) points(name string) []point {
	e.t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(e.t, e.reader.Collect(e.t.Context(), &all))
	var points []point
	add := func(set attribute.Set, value float64) {
		points = append(points, point{valuesOf(set.ToSlice()), value})
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, float64(p.Count))
				}
			default:
				e.t.Fatalf("%s: %T", name, data)
			}
		}
	}
	return points
}
