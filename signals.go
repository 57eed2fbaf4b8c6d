package qless

import (
	"context"
	"os/signal"
	"syscall"
)

// UntilSignal returns a context that ends when the process is told to stop, by SIGINT or
// SIGTERM, for [Worker.Run]. A second signal then ends the process as usual.
func UntilSignal(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
