package qlessotel_test

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlessotel"
)

var errWhy = errors.New("why")

// untilOver waits until the handler's context ends, and returns its error.
func untilOver(ctx context.Context, _ *qless.Job) error {
	<-ctx.Done()
	return ctx.Err()
}

func returning(err error) qless.Handler {
	return func(context.Context, *qless.Job) error { return err }
}

func TestARunIsASpanHoweverItEnds(t *testing.T) {
	const panicked, failed = "panic", codes.Error
	for klass, c := range map[string]struct {
		handler   qless.Handler // nil if the worker has none
		options   []qless.PutOption
		outcome   string
		errorType string
		status    codes.Code
		events    []string
		delay     time.Duration // an hour if it is 0
	}{
		"Complete": {handler: returning(nil), outcome: "complete"},
		"Next":     {handler: returning(qless.Next("other")), outcome: "next"},
		"Retry": {
			handler: returning(errWhy), outcome: "retry", errorType: "*errors.errorString", status: failed,
		},
		"RetryIn": {handler: returning(qless.RetryIn(time.Hour, nil)), outcome: "retry"},
		"Exhausted": {
			handler: returning(errWhy), options: []qless.PutOption{qless.Retries(0)},
			outcome: "exhausted", errorType: "*errors.errorString", status: failed,
		},
		"Fail": {
			handler: returning(qless.FailWith("g", nil)), outcome: "fail", errorType: "failed",
			status: failed,
		},
		"Snooze": {handler: returning(qless.Snooze(time.Hour)), outcome: "release"},
		"Throttled": {
			handler: returning(qless.Throttled(time.Hour)),
			options: []qless.PutOption{qless.Limits{"smtp"}}, outcome: "release",
		},
		"Panic": {
			handler: func(context.Context, *qless.Job) error { panic("oh") },
			outcome: "fail", errorType: panicked, status: failed, events: []string{"exception"},
		},
		"Goexit": {
			handler: func(context.Context, *qless.Job) error { runtime.Goexit(); return nil },
			outcome: "retry", errorType: "*errors.errorString", status: failed,
		},
		"TimedOut": {
			handler: untilOver, options: []qless.PutOption{qless.MaxRunTime(time.Millisecond)},
			outcome: "retry", errorType: "max_run_time", status: failed,
		},
		"Misfit": {
			handler: qless.Typed(func(context.Context, *qless.Job, []string) error { return nil }),
			outcome: "fail", errorType: "invalid", status: failed,
		},
		"Unhandled": {outcome: "release", delay: time.Minute},
		"EndsIt": {
			handler: func(ctx context.Context, job *qless.Job) error { return job.Complete(ctx) },
			outcome: "complete",
		},
		"CancelsIt": {
			handler: func(ctx context.Context, job *qless.Job) error { return job.Cancel(ctx) },
			outcome: "moved",
		},
		"Canceled": {
			handler: func(ctx context.Context, job *qless.Job) error {
				_ = qless.ClientFromContext(ctx).Cancel(ctx, job.JID)
				return untilOver(ctx, job)
			},
			outcome: "canceled", events: []string{"canceled"},
		},
		"LockLost": {
			handler: func(ctx context.Context, job *qless.Job) error {
				_, _ = qless.ClientFromContext(ctx).Do(ctx, "timeout", job.JID)
				return untilOver(ctx, job)
			},
			outcome: "lost", errorType: "lock_lost", status: failed, events: []string{"lock_lost"},
		},
	} {
		t.Run(klass, func(t *testing.T) {
			e := newEnv(t, qlessotel.Options{})
			handler, handled := c.handler, klass
			if handler == nil {
				handler, handled = returning(nil), "Another"
			}
			w := e.worker(qless.WorkerConfig{Backoff: inAnHour, UnknownKlassDelay: time.Minute})
			w.Handle(handled, func(ctx context.Context, job *qless.Job) error {
				w.Pause()
				return handler(ctx, job)
			})
			jid, err := e.Queue("q").Put(t.Context(), klass, map[string]string{"a": "b"}, c.options...)
			require.NoError(t, err)
			require.NoError(t, w.Start(context.Background()))

			put, run := e.one("put q"), e.one("process q")
			require.Equal(t, trace.SpanKindConsumer, run.SpanKind)
			require.Equal(t, c.status, run.Status.Code)
			require.Equal(t, append(c.events, "settle"), events(run))
			require.Len(t, run.Links, 1)
			require.Equal(t, put.SpanContext.SpanID(), run.Links[0].SpanContext.SpanID())
			require.Equal(t, put.SpanContext.TraceID(), run.Links[0].SpanContext.TraceID())
			require.NotEqual(t, put.SpanContext.TraceID(), run.SpanContext.TraceID())
			require.False(t, run.Parent.IsValid())

			got := values(run)
			require.Positive(t, got["messaging.qless.wait"])
			delete(got, "messaging.qless.wait")
			want := map[string]any{
				"messaging.system":           "qless",
				"messaging.operation.name":   "process",
				"messaging.operation.type":   "process",
				"messaging.destination.name": "q",
				"messaging.message.id":       jid,
				"messaging.client.id":        w.Name(),
				"messaging.qless.klass":      klass,
				"messaging.qless.attempt":    int64(1),
				"messaging.qless.outcome":    c.outcome,
			}
			if c.errorType != "" {
				want["error.type"] = c.errorType
			}
			switch c.outcome {
			case "retry", "release":
				want["messaging.qless.delay"] = cmp.Or(c.delay, time.Hour).Seconds()
			}
			require.Equal(t, want, got)

			labels := map[string]any{"queue": "q", "klass": klass, "outcome": c.outcome}
			require.Equal(t, []point{{labels, 1}}, e.points("qless.worker.jobs"))
			require.Equal(t, []point{{labels, 1}}, e.points("qless.worker.job.duration"))
			processed := map[string]any{
				"messaging.system": "qless", "messaging.operation.name": "process",
				"messaging.destination.name": "q",
			}
			require.Equal(t, []point{{processed, 1}}, e.points("messaging.client.consumed.messages"))
			if c.errorType != "" {
				processed["error.type"] = c.errorType
			}
			require.Equal(t, []point{{processed, 1}}, e.points("messaging.process.duration"))
		})
	}
}

func TestARunThatTheWorkerStoppedIsASpan(t *testing.T) {
	e := newEnv(t, qlessotel.Options{})
	w := e.worker(qless.WorkerConfig{ShutdownTimeout: -1})
	started := make(chan bool)
	w.Handle("K", func(ctx context.Context, job *qless.Job) error {
		started <- true
		return untilOver(ctx, job)
	})
	e.put(t.Context(), "q", "K")
	require.NoError(t, w.Start(context.Background()))
	<-started
	require.ErrorIs(t, w.Stop(context.Background()), qless.ErrStopped)
	run := e.one("process q")
	require.Equal(t, "stopped", values(run)["messaging.qless.outcome"])
	require.Equal(t, codes.Unset, run.Status.Code)
}

func TestAPanicIsAnEventWithItsStack(t *testing.T) {
	e := newEnv(t, qlessotel.Options{})
	e.work("K", func(context.Context, *qless.Job) error { panic("oh") })
	e.put(t.Context(), "q", "K")
	run := e.one("process q")
	require.Equal(t, "panic: oh", run.Status.Description)
	got := valuesOf(run.Events[0].Attributes)
	require.Equal(t, "panic", got["exception.type"])
	require.Equal(t, "panic: oh", got["exception.message"])
	require.Contains(t, got["exception.stacktrace"], "worker_test.go")
}

func TestTheRunsOfARetriedJobHaveLinksToItsPut(t *testing.T) {
	e := newEnv(t, qlessotel.Options{})
	e.work("K", func(_ context.Context, job *qless.Job) error {
		if job.Attempt == 1 {
			return qless.RetryIn(0, errWhy)
		}
		return nil
	})
	e.put(t.Context(), "q", "K")
	put, runs := e.one("put q"), e.named("process q", 2)
	for n, run := range runs {
		require.Equal(t, int64(n+1), values(run)["messaging.qless.attempt"])
		require.Equal(t, put.SpanContext.SpanID(), run.Links[0].SpanContext.SpanID())
	}
	require.NotEqual(t, runs[0].SpanContext.TraceID(), runs[1].SpanContext.TraceID())
}

func TestARunCanBeAChildOfItsPut(t *testing.T) {
	e := newEnv(t, qlessotel.Options{Parent: true})
	e.work("K", returning(nil))
	e.put(t.Context(), "q", "K")
	put, run := e.one("put q"), e.one("process q")
	require.Equal(t, put.SpanContext.TraceID(), run.SpanContext.TraceID())
	require.Equal(t, put.SpanContext.SpanID(), run.Parent.SpanID())
	require.Empty(t, run.Links)
}

func TestAPutInAHandlerIsPartOfTheRun(t *testing.T) {
	e := newEnv(t, qlessotel.Options{})
	e.work("K", func(ctx context.Context, _ *qless.Job) error {
		_, err := qless.ClientFromContext(ctx).Queue("other").Put(ctx, "L", nil)
		return err
	})
	e.put(t.Context(), "q", "K")
	run, put := e.one("process q"), e.one("put other")
	require.Equal(t, run.SpanContext.SpanID(), put.Parent.SpanID())
}

func TestAJobThatGoesOnCarriesTheRunThatSentIt(t *testing.T) {
	e := newEnv(t, qlessotel.Options{})
	w := e.worker(qless.WorkerConfig{Queues: []string{"q", "other"}})
	w.Handle("K", func(_ context.Context, job *qless.Job) error {
		if job.Queue == "q" {
			return qless.Next("other")
		}
		return nil
	})
	require.NoError(t, w.Start(context.Background()))
	jid := e.put(t.Context(), "q", "K", qless.Headers{"customer": "7"})
	first, second := e.one("process q"), e.one("process other")
	require.Equal(t, first.SpanContext.SpanID(), second.Links[0].SpanContext.SpanID())
	job, err := e.Job(t.Context(), jid)
	require.NoError(t, err)
	require.Equal(t, "7", job.Headers["customer"])
	require.Contains(t, job.Headers["traceparent"], first.SpanContext.SpanID().String())
}

func TestWhatAHandlerSaysAboutHeadersWins(t *testing.T) {
	e := newEnv(t, qlessotel.Options{})
	w := e.worker(qless.WorkerConfig{})
	w.Handle("None", returning(qless.Next("other", qless.Headers(nil))))
	w.Handle("Own", returning(qless.Next("other", qless.Headers{"traceparent": "own"})))
	w.Handle("More", returning(qless.Next("other", qless.Headers{"a": "1"})))
	require.NoError(t, w.Start(context.Background()))
	headers := map[string]map[string]string{}
	for _, klass := range []string{"None", "Own", "More"} {
		jid := e.put(t.Context(), "q", klass)
		require.Eventually(t, func() bool {
			job, err := e.Job(t.Context(), jid)
			require.NoError(t, err)
			headers[klass] = job.Headers
			return job.Queue == "other"
		}, patience, 5*time.Millisecond)
	}
	require.Empty(t, headers["None"])
	require.Equal(t, map[string]string{"traceparent": "own"}, headers["Own"])
	require.Equal(t, "1", headers["More"]["a"])
	require.NotEmpty(t, headers["More"]["traceparent"])
}

func TestTheMethodNextCarriesTheRunThatCallsIt(t *testing.T) {
	e := newEnv(t, qlessotel.Options{})
	w := e.worker(qless.WorkerConfig{Queues: []string{"q", "other"}})
	options := map[string][]qless.NextOption{
		"None": {qless.Headers(nil)}, "Own": {qless.Headers{"traceparent": "own"}},
		"More": {qless.Headers{"a": "1"}}, "Plain": nil,
	}
	for klass, options := range options {
		w.Handle(klass, func(ctx context.Context, job *qless.Job) error {
			return job.Next(ctx, "last", options...)
		})
	}
	require.NoError(t, w.Start(context.Background()))
	headers := map[string]map[string]string{}
	for klass := range options {
		jid := e.put(t.Context(), "q", klass, qless.Headers{"customer": "7"})
		require.Eventually(t, func() bool {
			job, err := e.Job(t.Context(), jid)
			require.NoError(t, err)
			headers[klass] = job.Headers
			return job.Queue == "last"
		}, patience, 5*time.Millisecond)
	}
	require.Empty(t, headers["None"])
	require.Equal(t, map[string]string{"traceparent": "own"}, headers["Own"])
	require.Equal(t, "1", headers["More"]["a"])
	require.NotContains(t, headers["More"], "customer")
	require.NotEmpty(t, headers["More"]["traceparent"])
	require.Equal(t, "7", headers["Plain"]["customer"])
	runs := map[string]bool{}
	require.Eventually(t, func() bool {
		for _, span := range e.spans.GetSpans() {
			if span.Name == "process q" {
				runs[span.SpanContext.SpanID().String()] = true
			}
		}
		return len(runs) == len(options)
	}, patience, 5*time.Millisecond)
	for _, klass := range []string{"More", "Plain"} {
		parts := strings.Split(headers[klass]["traceparent"], "-")
		require.Len(t, parts, 4)
		require.Contains(t, runs, parts[2], klass)
	}
}

func TestBaggageGoesWithTheJob(t *testing.T) {
	e := newEnv(t, qlessotel.Options{})
	seen := make(chan string, 1)
	e.work("K", func(ctx context.Context, _ *qless.Job) error {
		seen <- baggage.FromContext(ctx).Member("customer").Value()
		return nil
	})
	member, err := baggage.NewMember("customer", "7")
	require.NoError(t, err)
	bag, err := baggage.New(member)
	require.NoError(t, err)
	e.put(baggage.ContextWithBaggage(t.Context(), bag), "q", "K")
	select {
	case got := <-seen:
		require.Equal(t, "7", got)
	case <-time.After(patience):
		t.Fatal("the job did not run")
	}
}

func TestTheReportOfAnOutcomeCanBeASpan(t *testing.T) {
	e := newEnv(t, qlessotel.Options{SettleSpans: true})
	w := e.worker(qless.WorkerConfig{Backoff: inAnHour})
	w.Handle("Complete", returning(nil))
	w.Handle("Retry", returning(errWhy))
	w.Handle("EndsIt", func(ctx context.Context, job *qless.Job) error {
		return job.Release(ctx, time.Hour)
	})
	require.NoError(t, w.Start(context.Background()))
	for klass, name := range map[string]string{
		"Complete": "complete q", "Retry": "retry q", "EndsIt": "release q",
	} {
		e.spans.Reset()
		e.put(t.Context(), "q", klass)
		run, settle := e.one("process q"), e.one(name)
		require.Equal(t, trace.SpanKindClient, settle.SpanKind)
		require.Equal(t, "settle", values(settle)["messaging.operation.type"])
		require.Equal(t, run.SpanContext.SpanID(), settle.Parent.SpanID())
		require.Empty(t, run.Events)
	}
}

func TestAJobWithoutATraceCanHaveALinkMadeOfItsJID(t *testing.T) {
	const jid = "0af7651916cd43dd8448eb211c80319c"
	for name, linked := range map[string]bool{"with": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, qlessotel.Options{LinkByJID: linked})
			e.work("K", returning(nil))
			for _, id := range []string{jid, "order-7"} {
				e.spans.Reset()
				e.put(t.Context(), "q", "K", qless.JID(id), qless.Headers(nil))
				run := e.one("process q")
				if !linked || id != jid {
					require.Empty(t, run.Links)
					continue
				}
				require.Equal(t, jid, run.Links[0].SpanContext.TraceID().String())
				require.Equal(t, jid[16:], run.Links[0].SpanContext.SpanID().String())
			}
		})
	}
}

func TestTheMiddlewareAloneSaysWhatTheHandlerReturned(t *testing.T) {
	e := newEnv(t, qlessotel.Options{})
	w, err := qless.NewWorker(e.Client, qless.WorkerConfig{Queues: []string{"q"}, Backoff: inAnHour})
	require.NoError(t, err)
	defer func() { _ = w.Stop(context.Background()) }()
	w.Use(e.telemetry.Middleware)
	w.Handle("Retry", returning(errWhy))
	w.Handle("Panic", func(context.Context, *qless.Job) error { panic("oh") })
	require.NoError(t, w.Start(context.Background()))
	for klass, outcome := range map[string]string{"Retry": "retry", "Panic": "fail"} {
		e.spans.Reset()
		e.put(t.Context(), "q", klass)
		run := e.one("process q")
		require.Equal(t, outcome, values(run)["messaging.qless.outcome"])
		require.Equal(t, codes.Error, run.Status.Code)
	}
}

func TestTheObserverAloneMakesTheSpans(t *testing.T) {
	e := newEnv(t, qlessotel.Options{})
	w, err := qless.NewWorker(e.Client, qless.WorkerConfig{
		Queues: []string{"q"}, Observer: e.telemetry.Observe,
	})
	require.NoError(t, err)
	defer func() { _ = w.Stop(context.Background()) }()
	w.Handle("K", returning(nil))
	require.NoError(t, w.Start(context.Background()))
	e.put(t.Context(), "q", "K")
	put, run := e.one("put q"), e.one("process q")
	require.Equal(t, put.SpanContext.SpanID(), run.Links[0].SpanContext.SpanID())
	require.False(t, run.EndTime.Before(run.StartTime))
}

func TestTheChildOfARecurringJobSaysWhoseItIs(t *testing.T) {
	e := newEnv(t, qlessotel.Options{})
	e.work("K", returning(nil))
	_, err := e.Queue("q").Recur(t.Context(), "K", nil, time.Hour, qless.JID("hourly"))
	require.NoError(t, err)
	run := e.one("process q")
	require.Equal(t, "hourly", values(run)["messaging.qless.spawned_from"])
	require.Empty(t, run.Links)
}
