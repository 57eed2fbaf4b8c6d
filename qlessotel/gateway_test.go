package qlessotel_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/gateway/lmstfy"
	"github.com/qless/qless-go/qlessotel"
)

// publish publishes a job over HTTP, as a client in any language does that is traced.
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

// A handler publishes a job by the lmstfy gateway, and a worker works it.
func TestATraceGoesThroughAnotherProtocol(t *testing.T) {
	for name, parent := range map[string]bool{"linked": false, "one trace": true} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, qlessotel.Options{Parent: parent})
			plain, err := qless.New(e.rdb, nil)
			require.NoError(t, err)
			server, err := lmstfy.New(lmstfy.Config{
				Pools: map[string]lmstfy.Pool{lmstfy.DefaultPool: {Client: plain}},
				Admin: e.rdb, SkipTokens: true,
			})
			require.NoError(t, err)
			api := httptest.NewServer(server.Handler())
			defer func() {
				api.Close()
				require.NoError(t, server.Shutdown(context.Background()))
				_ = plain.Close()
			}()

			w := e.worker(qless.WorkerConfig{Queues: []string{"orders", "shop/mail"}})
			w.Handle("Order", func(ctx context.Context, _ *qless.Job) error {
				return publish(ctx, api.URL+"/api/shop/mail?tries=3")
			})
			w.Handle(lmstfy.Klass, returning(nil))
			require.NoError(t, w.Start(context.Background()))
			e.put(t.Context(), "orders", "Order")

			put, order := e.one("put orders"), e.one("process orders")
			mail := e.one("process shop/mail")
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
