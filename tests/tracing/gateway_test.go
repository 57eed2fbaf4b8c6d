// Package tracing tests traces that cross modules, which the modules' own tests can't import.
package tracing

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/gateway/lmstfy"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/qlessotel"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// publish publishes a job over HTTP, like a traced client in any language.
func publish(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader("ann"))
	if err != nil {
		return err
	}
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(request.Header))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusCreated {
		return fmt.Errorf("publish: %s", answer.Status)
	}
	return nil
}

// one waits until a span with the name has ended, and returns it.
func one(t *testing.T, spans *tracetest.InMemoryExporter, name string) (found tracetest.SpanStub) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, span := range spans.GetSpans() {
			if span.Name == name {
				found = span
				return true
			}
		}
		return false
	}, testkit.Patience, 5*time.Millisecond, name)
	return found
}

// A handler publishes a job through the lmstfy gateway, and a worker runs it.
func TestATraceGoesThroughAnotherProtocol(t *testing.T) {
	for name, parent := range map[string]bool{"linked": false, "one trace": true} {
		t.Run(name, func(t *testing.T) {
			rdb := testkit.Start(t).Client(t)
			plain, err := qless.New(rdb, nil)
			require.NoError(t, err)
			defer func() { _ = plain.Close() }()
			server, err := lmstfy.New(lmstfy.Config{
				Pools: map[string]lmstfy.Pool{lmstfy.DefaultPool: {Client: plain}},
				Admin: rdb, SkipTokens: true,
			})
			require.NoError(t, err)
			defer func() { require.NoError(t, server.Shutdown(context.Background())) }()
			api := httptest.NewServer(server.Handler())
			defer api.Close()

			spans := tracetest.NewInMemoryExporter()
			telemetry, err := qlessotel.New(qlessotel.Options{
				TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)),
				Propagator:     propagation.TraceContext{}, Parent: parent,
			})
			require.NoError(t, err)
			config := &qless.ClientConfig{Logger: testkit.Quiet()}
			telemetry.Configure(config)
			client, err := qless.New(rdb, config)
			require.NoError(t, err)
			defer func() { _ = client.Close() }()
			w, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"orders", "shop/mail"}})
			require.NoError(t, err)
			w.Use(telemetry.Middleware)
			w.Handle("Order", func(ctx context.Context, _ *qless.Job) error {
				return publish(ctx, api.URL+"/api/shop/mail?tries=3")
			})
			w.Handle(lmstfy.Klass, func(context.Context, *qless.Job) error { return nil })
			require.NoError(t, w.Start(context.Background()))
			defer func() { require.NoError(t, w.Stop(context.Background())) }()
			_, err = client.Queue("orders").Put(t.Context(), "Order", nil)
			require.NoError(t, err)

			put, order := one(t, spans, "put orders"), one(t, spans, "process orders")
			mail := one(t, spans, "process shop/mail")
			if parent {
				require.Equal(t, order.SpanContext.SpanID(), mail.Parent.SpanID())
				require.Equal(t, put.SpanContext.TraceID(), mail.SpanContext.TraceID())
				return
			}
			require.Equal(t, put.SpanContext.SpanID(), order.Links[0].SpanContext.SpanID())
			require.Equal(t, order.SpanContext.SpanID(), mail.Links[0].SpanContext.SpanID())
			require.Equal(t, order.SpanContext.TraceID(), mail.Links[0].SpanContext.TraceID())
		})
	}
}
