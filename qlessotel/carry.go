package qlessotel

import (
	"context"
	"encoding/hex"
	"maps"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/qless/qless-go"
)

// Headers returns the headers for carrying the context of a trace, and its baggage, to a job. After
// [Instrumentation.Configure], every put and every [qless.Job.Next] calls Headers. It is exported
// for calls without that hook, such as [qless.Job.Move]. Baggage is dropped if the headers would
// exceed 4 KiB.
func (i *Instrumentation) Headers(ctx context.Context) map[string]string {
	carrier := propagation.MapCarrier{}
	i.options.Propagator.Inject(ctx, carrier)
	if sizeOf(carrier) > maxCarried {
		carrier = propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, carrier)
	}
	return carrier
}

const (
	// maxCarried is the maximum size in bytes of the headers given to a job. Baggage beyond it is
	// dropped, because a put with too large headers would be refused.
	maxCarried = 4 << 10

	// maxHeaders is the maximum size in bytes of all headers of a job.
	maxHeaders = 8 << 10
)

func sizeOf(headers map[string]string) int {
	size := 0
	for key, value := range headers {
		size += len(key) + len(value)
	}
	return size
}

// carryOn makes a job that moves to its next queue carry the context of its last run. The argument
// headers are the job's present headers. Headers set by the handler win.
func (i *Instrumentation) carryOn(
	ctx context.Context, headers map[string]string, err error,
) error {
	outcome := qless.OutcomeOf(err)
	goesOn := outcome.Action == qless.ActionComplete && outcome.Queue != "" && outcome.Err == nil
	if !goesOn || outcome.Headers != nil && len(outcome.Headers) == 0 {
		return err
	}
	if outcome.Headers != nil {
		headers = nil
	}
	carried := i.nextHeaders(ctx, headers)
	maps.Copy(carried, outcome.Headers)
	if sizeOf(carried) > maxHeaders {
		return err
	}
	outcome.Headers = carried
	return &outcome
}

// nextHeaders returns the headers of a job, with a context's headers in place of older headers.
func (i *Instrumentation) nextHeaders(
	ctx context.Context, headers map[string]string,
) map[string]string {
	carried := i.Headers(ctx)
	stale := i.options.Propagator.Fields()
	for key, value := range headers {
		if !contains(stale, key) {
			carried[key] = value
		}
	}
	return carried
}

func contains(keys []string, key string) bool {
	for _, k := range keys {
		if strings.EqualFold(k, key) {
			return true
		}
	}
	return false
}

// extract returns a context with the data carried by a job, and the context of the put's span,
// which may be invalid.
func (i *Instrumentation) extract(
	ctx context.Context, jid string, headers map[string]string,
) (context.Context, trace.SpanContext) {
	ctx = i.options.Propagator.Extract(ctx, propagation.MapCarrier(headers))
	bare := i.options.Propagator.Extract(context.Background(), propagation.MapCarrier(headers))
	put := trace.SpanContextFromContext(bare)
	if !put.IsValid() && i.options.LinkByJID {
		put = contextOf(jid)
	}
	return ctx, put
}

// contextOf returns the context of the trace named by a jid of 128 bits, or an invalid context.
func contextOf(jid string) trace.SpanContext {
	raw, err := hex.DecodeString(strings.ReplaceAll(jid, "-", ""))
	if err != nil || len(raw) != len(trace.TraceID{}) {
		return trace.SpanContext{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(raw), SpanID: trace.SpanID(raw[8:]), Remote: true,
	})
}
