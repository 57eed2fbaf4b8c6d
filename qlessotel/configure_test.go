package qlessotel_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/qlessotel"
)

// newOther configures a client with functions already in its config.
func newOther(e *env, config qless.ClientConfig) *qless.Client {
	e.t.Helper()
	config.Logger = testkit.Quiet()
	e.telemetry.Configure(&config)
	client, err := qless.New(e.rdb, &config)
	require.NoError(e.t, err)
	return client
}

func TestHeadersOfAConfigAreKept(t *testing.T) {
	e := newEnv(t, qlessotel.Options{})
	client := newOther(e, qless.ClientConfig{
		Headers: func(context.Context) map[string]string {
			return map[string]string{"tenant": "7", "traceparent": "stale"}
		},
		NextHeaders: func(_ context.Context, headers map[string]string) map[string]string {
			headers["next"] = "yes"
			return headers
		},
	})
	jid, err := client.Queue("q").Put(t.Context(), "K", nil)
	require.NoError(t, err)
	job, err := client.Job(t.Context(), jid)
	require.NoError(t, err)
	require.Equal(t, "7", job.Headers["tenant"])
	put := e.one("put q").SpanContext
	require.Contains(t, job.Headers["traceparent"], put.SpanID().String())

	jobs, err := client.Queue("q").Pop(t.Context(), 1)
	require.NoError(t, err)
	ctx, span := e.tracer.Start(t.Context(), "run")
	require.NoError(t, jobs[0].Next(ctx, "r"))
	span.End()
	require.NoError(t, job.Refresh(t.Context()))
	require.Equal(t, "7", job.Headers["tenant"])
	require.Equal(t, "yes", job.Headers["next"])
	require.Contains(t, job.Headers["traceparent"], span.SpanContext().SpanID().String())
}

func TestObserversOfAConfigAreCalled(t *testing.T) {
	e := newEnv(t, qlessotel.Options{})
	var seen []string
	silent := false
	client := newOther(e, qless.ClientConfig{
		Observer: func(_ context.Context, call qless.Command) { seen = append(seen, call.Name) },
		PutObserver: func(ctx context.Context, _ qless.Command) (context.Context, func(qless.Command)) {
			seen = append(seen, "begin")
			if silent {
				return ctx, nil
			}
			return ctx, func(qless.Command) {
				require.Empty(t, e.spans.GetSpans(), "the span ends later")
				seen = append(seen, "end")
			}
		},
	})
	for _, silent = range []bool{false, true} {
		_, err := client.Queue("q").Put(t.Context(), "K", nil)
		require.NoError(t, err)
	}
	require.Equal(t, []string{"begin", "put", "end", "begin", "put"}, seen)
	require.Len(t, e.named("put q", 2), 2)
}
