package qlessotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"
	"go.opentelemetry.io/otel/trace"

	"github.com/qless/qless-go"
)

// beginPut begins the span of a put.
func (i *Instrumentation) beginPut(
	ctx context.Context, put qless.Command,
) (context.Context, func(put qless.Command)) {
	op := operation{
		name: "put", kind: messagingconv.OperationTypeSend, queue: put.Queue, klass: put.Klass,
		jid: put.JID,
	}
	attributes := op.attributes()
	if put.Name == "put.many" {
		attributes = append(attributes, semconv.MessagingBatchMessageCount(put.Count))
	}
	ctx, span := i.tracer.Start(ctx, op.spanName(),
		trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(attributes...))
	return ctx, func(put qless.Command) {
		if put.JID != op.jid { // the put has become an existing job
			span.SetAttributes(semconv.MessagingMessageID(put.JID))
		}
		end(span, put.Err)
		i.metrics.put(ctx, put)
	}
}

// end ends the span of a call. A job not put because it exists, or a call that has waited to the
// end of its time, is not an error of the program.
func end(span trace.Span, err error, options ...trace.SpanEndOption) {
	if err != nil {
		span.SetAttributes(errorType(err))
	}
	if err != nil && !errors.Is(err, qless.ErrExists) && !isWaited(err) {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End(options...)
}

// isWaited reports whether a call of Take received no job in the given time.
func isWaited(err error) bool {
	var failed *qless.Error
	return errors.As(err, &failed) && failed.Op == "take" &&
		errors.Is(err, context.DeadlineExceeded)
}

// commands are the commands that take jobs or end runs.
var commands = map[string]messagingconv.OperationTypeAttr{
	"pop":      messagingconv.OperationTypeReceive,
	"take":     messagingconv.OperationTypeReceive,
	"reserve":  messagingconv.OperationTypeReceive,
	"complete": messagingconv.OperationTypeSettle,
	"end":      messagingconv.OperationTypeSettle,
	"fail":     messagingconv.OperationTypeSettle,
	"finish":   messagingconv.OperationTypeSettle,
	"release":  messagingconv.OperationTypeSettle,
	"retry":    messagingconv.OperationTypeSettle,
}

// observeCall records a command.
func (i *Instrumentation) observeCall(ctx context.Context, call qless.Command) {
	i.metrics.call(ctx, call)
	kind, known := commands[call.Name]
	if !known {
		return
	}
	op := operation{
		name: call.Name, kind: kind, queue: call.Queue, klass: call.Klass, jid: call.JID,
	}
	switch {
	case call.Name == "pop" || call.Name == "take":
		i.recordCall(ctx, &op, call, semconv.MessagingBatchMessageCount(call.Count))
	case kind == messagingconv.OperationTypeSettle && call.Name != "finish":
		runOf(ctx).setSettled()
		if i.options.SettleSpans {
			i.recordCall(ctx, &op, call)
		}
	}
	i.metrics.operation(ctx, &op, call)
}

// recordCall makes the span of a finished command.
func (i *Instrumentation) recordCall(
	ctx context.Context, op *operation, call qless.Command, more ...attribute.KeyValue,
) {
	now := time.Now()
	_, span := i.tracer.Start(ctx, op.spanName(), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(now.Add(-call.Duration)),
		trace.WithAttributes(append(op.attributes(), more...)...))
	end(span, call.Err, trace.WithTimestamp(now))
}
