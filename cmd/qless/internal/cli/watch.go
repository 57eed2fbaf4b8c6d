package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
)

// A do is what a command does once it is connected.
type do = func(ctx context.Context, client *qless.Client, args []string) error

var errTimeout = errors.New("the time is over")

// A watch ends a context when the server takes too long. It stands still while a person is asked,
// and starts again with each step of a long work.
type watch struct {
	timer *time.Timer
	limit time.Duration
}

func newWatch(limit time.Duration, end context.CancelCauseFunc) *watch {
	return &watch{time.AfterFunc(limit, func() { end(errTimeout) }), limit}
}

func (w *watch) stop() {
	if w != nil {
		w.timer.Stop()
	}
}

func (w *watch) restart() {
	if w != nil && w.timer.Stop() {
		w.timer.Reset(w.limit)
	}
}

func (w *watch) resume() {
	if w != nil {
		w.timer.Reset(w.limit)
	}
}

// run makes a command's function out of one that needs a client, and that ends in time.
func (a *app) run(do do) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		ctx, end := context.WithCancelCause(command.Context())
		defer end(nil)
		a.watch = newWatch(a.timeout, end)
		defer a.watch.stop()
		client, err := a.client(ctx)
		if err == nil {
			err = do(ctx, client, args)
		}
		if err != nil && context.Cause(ctx) == errTimeout {
			return fmt.Errorf("not done within %s: %w", a.timeout, context.DeadlineExceeded)
		}
		return err
	}
}

// runWaiting is run for a command that waits: only a timeout that was asked for ends it.
func (a *app) runWaiting(do do) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		return a.run(func(ctx context.Context, client *qless.Client, args []string) error {
			if !command.Flags().Changed("timeout") {
				a.watch.stop()
			}
			return do(ctx, client, args)
		})(command, args)
	}
}
