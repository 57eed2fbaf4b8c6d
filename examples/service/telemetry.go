package main

import (
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlessotel"
	"github.com/qless/qless-go/qlessprom"
)

// telemetry has the traces and the metrics of the service.
type telemetry struct {
	*qlessotel.Instrumentation
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	jobs     *qlessprom.WorkerMetrics
	registry *prometheus.Registry
}

// newTelemetry returns telemetry with a tracer provider configured by the options.
func newTelemetry(options ...sdktrace.TracerProviderOption) (*telemetry, error) {
	provider := sdktrace.NewTracerProvider(options...)
	traced := qlessotel.Options{TracerProvider: provider, Propagator: propagation.TraceContext{}}
	instrumentation, err := qlessotel.New(traced)
	if err != nil {
		return nil, err
	}
	return &telemetry{
		Instrumentation: instrumentation, provider: provider, tracer: provider.Tracer("service"),
		jobs:     qlessprom.NewWorkerMetrics(qlessprom.ProcessOptions{}),
		registry: prometheus.NewRegistry(),
	}, nil
}

// clientConfig returns the config of a client with traces and metrics.
func (t *telemetry) clientConfig() *qless.ClientConfig {
	config := &qless.ClientConfig{Namespace: "service:ql:"}
	t.Configure(config)
	return config
}

// watch exports the metrics of the worker, its server and the outbox.
func (t *telemetry) watch(s *service) {
	t.Watch(s.worker)
	oldest := prometheus.GaugeOpts{
		Name: "outbox_oldest_seconds", Help: "Age of the oldest row that no relay has moved.",
	}
	t.registry.MustRegister(t.jobs, prometheus.NewGaugeFunc(oldest, s.oldestRow),
		qlessprom.NewCollector(s.client, qlessprom.Options{}))
}
