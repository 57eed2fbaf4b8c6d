package qlessotel_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/lease"
	"github.com/qless/qless-go/qlessotel"
)

func TestAPutIsASpanThatGoesWithTheJob(t *testing.T) {
	e := newEnv(t, qlessotel.Options{})
	ctx, request := e.tracer.Start(t.Context(), "request")
	jid := e.put(ctx, "q", "K")
	put := e.one("put q")
	require.Equal(t, trace.SpanKindProducer, put.SpanKind)
	require.Equal(t, request.SpanContext().SpanID(), put.Parent.SpanID())
	require.Equal(t, codes.Unset, put.Status.Code)
	require.Equal(t, map[string]any{
		"messaging.system":           "qless",
		"messaging.operation.name":   "put",
		"messaging.operation.type":   "send",
		"messaging.destination.name": "q",
		"messaging.message.id":       jid,
		"messaging.qless.klass":      "K",
	}, values(put))
	job, err := e.Job(ctx, jid)
	require.NoError(t, err)
	require.Equal(t, "00-"+put.SpanContext.TraceID().String()+"-"+put.SpanContext.SpanID().String()+"-01",
		job.Headers["traceparent"])
}

func TestJobsThatArePutTogetherHaveOneSpan(t *testing.T) {
	e := newEnv(t, qlessotel.Options{})
	jids, err := e.Queue("q").PutMany(t.Context(), []qless.JobSpec{{Klass: "K"}, {Klass: "L"}})
	require.NoError(t, err)
	put := e.one("put q")
	require.Equal(t, map[string]any{
		"messaging.system":              "qless",
		"messaging.operation.name":      "put",
		"messaging.operation.type":      "send",
		"messaging.destination.name":    "q",
		"messaging.batch.message_count": int64(2),
	}, values(put))
	for _, jid := range jids {
		job, err := e.Job(t.Context(), jid)
		require.NoError(t, err)
		require.Contains(t, job.Headers["traceparent"], put.SpanContext.SpanID().String())
	}
}

func TestAPutThatFailsSaysWhy(t *testing.T) {
	e := newEnv(t, qlessotel.Options{})
	e.put(t.Context(), "q", "K", qless.JID("a"))
	e.spans.Reset()
	_, err := e.Queue("q").Put(t.Context(), "K", nil, qless.JID("a"), qless.IfAbsent)
	require.ErrorIs(t, err, qless.ErrExists)
	refused := e.one("put q")
	require.Equal(t, "exists", values(refused)["error.type"])
	require.Equal(t, codes.Unset, refused.Status.Code, "the program asked for that")

	e.spans.Reset()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = e.Queue("q").Put(ctx, "K", nil)
	require.ErrorIs(t, err, qless.ErrUnavailable)
	failed := e.one("put q")
	require.Equal(t, "unavailable", values(failed)["error.type"])
	require.Equal(t, codes.Error, failed.Status.Code)
}

func TestAPopIsASpan(t *testing.T) {
	e := newEnv(t, qlessotel.Options{})
	e.put(t.Context(), "q", "K")
	e.put(t.Context(), "q", "K")
	ctx, parent := e.tracer.Start(t.Context(), "loop")
	_, err := e.Queue("q").Pop(ctx, 10)
	require.NoError(t, err)
	pop := e.one("pop q")
	require.Equal(t, trace.SpanKindClient, pop.SpanKind)
	require.Equal(t, parent.SpanContext().SpanID(), pop.Parent.SpanID())
	require.False(t, pop.EndTime.Before(pop.StartTime))
	require.Equal(t, map[string]any{
		"messaging.system":              "qless",
		"messaging.operation.name":      "pop",
		"messaging.operation.type":      "receive",
		"messaging.destination.name":    "q",
		"messaging.batch.message_count": int64(2),
	}, values(pop))
}

func TestAReceiveIsASpan(t *testing.T) {
	e := newEnv(t, qlessotel.Options{})
	defer func() { _ = e.Client.Close() }()
	ctx, parent := e.tracer.Start(t.Context(), "request")
	e.put(t.Context(), "q", "K", qless.JID("a"))
	_, err := lease.New(e.Client).Take(ctx, lease.Request{Queues: []string{"q", "other"}, Count: 5})
	require.NoError(t, err)
	receive := e.one("take q")
	require.Equal(t, trace.SpanKindClient, receive.SpanKind)
	require.Equal(t, parent.SpanContext().SpanID(), receive.Parent.SpanID())
	require.Equal(t, codes.Unset, receive.Status.Code)
	require.Equal(t, map[string]any{
		"messaging.system":              "qless",
		"messaging.operation.name":      "take",
		"messaging.operation.type":      "receive",
		"messaging.destination.name":    "q",
		"messaging.message.id":          "a",
		"messaging.qless.klass":         "K",
		"messaging.batch.message_count": int64(1),
	}, values(receive))
	require.Equal(t, []point{{map[string]any{
		"messaging.system": "qless", "messaging.operation.name": "take",
		"messaging.destination.name": "q",
	}, 1}}, e.points("messaging.client.consumed.messages"))
}

func TestAReceiveThatGetsNothingIsASpan(t *testing.T) {
	e := newEnv(t, qlessotel.Options{})
	defer func() { _ = e.Client.Close() }()
	config := lease.Request{Queues: []string{"q"}}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := lease.New(e.Client).Take(ctx, config)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	waited := e.one("take q")
	require.Equal(t, codes.Unset, waited.Status.Code, "the program was ready to wait for so long")
	require.Equal(t, "unavailable", values(waited)["error.type"])
	require.Equal(t, int64(0), values(waited)["messaging.batch.message_count"])

	e.spans.Reset()
	require.NoError(t, e.Client.Close())
	_, err = lease.New(e.Client).Take(t.Context(), config)
	require.ErrorIs(t, err, qless.ErrUnavailable)
	require.Equal(t, codes.Error, e.one("take q").Status.Code)
}

func TestAWorkersLoopHasNoSpans(t *testing.T) {
	e := newEnv(t, qlessotel.Options{SettleSpans: true})
	e.work("K", returning(nil))
	e.put(t.Context(), "q", "K")
	e.one("process q")
	require.Len(t, e.spans.GetSpans(), 3, "put, process and complete")
}

func TestBaggageThatIsTooMuchIsLeftOut(t *testing.T) {
	e := newEnv(t, qlessotel.Options{})
	member, err := baggage.NewMember("much", strings.Repeat("x", 5000))
	require.NoError(t, err)
	bag, err := baggage.New(member)
	require.NoError(t, err)
	jid := e.put(baggage.ContextWithBaggage(t.Context(), bag), "q", "K")
	job, err := e.Job(t.Context(), jid)
	require.NoError(t, err)
	require.Contains(t, job.Headers, "traceparent")
	require.NotContains(t, job.Headers, "baggage")
}

func TestMetricsOfAClient(t *testing.T) {
	e := newEnv(t, qlessotel.Options{})
	ctx := t.Context()
	e.put(ctx, "q", "K", qless.JID("a"))
	_, err := e.Queue("q").PutMany(ctx, []qless.JobSpec{{Klass: "K"}, {Klass: "K"}})
	require.NoError(t, err)
	_, err = e.Queue("q").Put(ctx, "K", nil, qless.JID("a"), qless.IfAbsent)
	require.ErrorIs(t, err, qless.ErrExists)
	jobs, err := e.Queue("q").Pop(ctx, 10)
	require.NoError(t, err)
	require.NoError(t, jobs[0].Complete(ctx))

	require.Equal(t, []point{{map[string]any{"queue": "q", "klass": "K"}, 3}},
		e.points("qless.client.puts"))
	sent := map[string]any{
		"messaging.system": "qless", "messaging.operation.name": "put",
		"messaging.destination.name": "q",
	}
	refused := map[string]any{
		"messaging.system": "qless", "messaging.operation.name": "put",
		"messaging.destination.name": "q", "error.type": "exists",
	}
	require.ElementsMatch(t, []point{{sent, 3}, {refused, 1}}, e.points("messaging.client.sent.messages"))
	require.Equal(t, []point{{map[string]any{
		"messaging.system": "qless", "messaging.operation.name": "pop", "messaging.destination.name": "q",
	}, 3}}, e.points("messaging.client.consumed.messages"))

	operations := map[string]float64{}
	for _, p := range e.points("messaging.client.operation.duration") {
		name, _ := p.labels["messaging.operation.name"].(string)
		kind, _ := p.labels["messaging.operation.type"].(string)
		operations[name+" "+kind] += p.value
	}
	require.Equal(t, map[string]float64{"put send": 3, "pop receive": 1, "complete settle": 1}, operations)
	calls := map[string]float64{}
	for _, p := range e.points("qless.client.call.duration") {
		calls[p.labels["command"].(string)] += p.value
		require.Equal(t, "", p.labels["code"])
	}
	require.Equal(t, map[string]float64{"put": 2, "put.many": 1, "pop": 1, "complete": 1}, calls)
}

func TestMetricsOfAWorker(t *testing.T) {
	e := newEnv(t, qlessotel.Options{})
	running, end := make(chan bool), make(chan bool)
	w := e.worker(qless.WorkerConfig{Concurrency: 3})
	w.Handle("K", func(context.Context, *qless.Job) error {
		running <- true
		<-end
		return nil
	})
	require.NoError(t, w.Start(context.Background()))
	e.put(t.Context(), "q", "K")
	<-running
	gauge := func(name string) float64 {
		points := e.points(name)
		require.Len(t, points, 1, name)
		require.Empty(t, points[0].labels)
		return points[0].value
	}
	require.EqualValues(t, 3, gauge("qless.worker.slots"))
	require.EqualValues(t, 1, gauge("qless.worker.busy"))
	require.Positive(t, gauge("qless.worker.oldest_running"))
	require.InDelta(t, time.Now().Unix(), gauge("qless.worker.last_turn"), 60)
	require.Zero(t, gauge("qless.worker.lost"))
	close(end)
	require.NoError(t, w.Stop(context.Background()))
	require.Zero(t, gauge("qless.worker.slots"))
	require.Equal(t, []point{{map[string]any{"queue": "q", "klass": "K"}, 1}},
		e.points("qless.worker.job.wait"))
}
