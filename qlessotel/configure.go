package qlessotel

import (
	"context"
	"maps"

	"github.com/qless/qless-go"
)

// Configure makes the clients of a config record their calls. It sets Headers, NextHeaders,
// Observer and PutObserver. Existing functions of the config are called as well, and their headers
// are kept unless a trace sets the same headers.
func (i *Instrumentation) Configure(config *qless.ClientConfig) {
	config.Headers = i.wrapHeaders(config.Headers)
	config.NextHeaders = i.wrapNextHeaders(config.NextHeaders)
	config.Observer = i.wrapObserver(config.Observer)
	config.PutObserver = i.wrapPutObserver(config.PutObserver)
}

func (i *Instrumentation) wrapHeaders(
	next func(context.Context) map[string]string,
) func(context.Context) map[string]string {
	if next == nil {
		return i.Headers
	}
	return func(ctx context.Context) map[string]string {
		headers := map[string]string{}
		maps.Copy(headers, next(ctx))
		maps.Copy(headers, i.Headers(ctx))
		return headers
	}
}

func (i *Instrumentation) wrapNextHeaders(
	next func(context.Context, map[string]string) map[string]string,
) func(context.Context, map[string]string) map[string]string {
	if next == nil {
		return i.nextHeaders
	}
	return func(ctx context.Context, headers map[string]string) map[string]string {
		return i.nextHeaders(ctx, next(ctx, headers))
	}
}

func (i *Instrumentation) wrapObserver(
	next func(context.Context, qless.Command),
) func(context.Context, qless.Command) {
	if next == nil {
		return i.observeCall
	}
	return func(ctx context.Context, call qless.Command) {
		i.observeCall(ctx, call)
		next(ctx, call)
	}
}

// wrapPutObserver begins the span of a put before the other function, and ends it after that.
func (i *Instrumentation) wrapPutObserver(
	next func(context.Context, qless.Command) (context.Context, func(qless.Command)),
) func(context.Context, qless.Command) (context.Context, func(qless.Command)) {
	if next == nil {
		return i.beginPut
	}
	return func(ctx context.Context, put qless.Command) (context.Context, func(qless.Command)) {
		ctx, end := i.beginPut(ctx, put)
		ctx, nextEnd := next(ctx, put)
		return ctx, func(put qless.Command) {
			if nextEnd != nil {
				nextEnd(put)
			}
			end(put)
		}
	}
}
