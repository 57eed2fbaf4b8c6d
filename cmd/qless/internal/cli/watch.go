package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
)

// A do runs a command once it is connected.
type do = func(ctx context.Context, client *qless.Client, args []string) error

var errTimeout = errors.New("the time is over")

// A watch ends a context when the server takes too long. It stops while the user is asked, and
// restarts with each step of a long command.
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

// A runFunc is the function of a command.
type runFunc = func(*cobra.Command, []string) error

// run returns the function of a command that needs a client and has a time limit.
func (a *app) run(do do) runFunc {
	return a.inTime(func(ctx context.Context, args []string) error {
		client, err := a.client(ctx)
		if err != nil {
			return err
		}
		return do(ctx, client, args)
	})
}

// inTime returns the function of a command that has a time limit.
func (a *app) inTime(do func(ctx context.Context, args []string) error) runFunc {
	return func(command *cobra.Command, args []string) error {
		ctx, end := context.WithCancelCause(command.Context())
		defer end(nil)
		a.watch = newWatch(a.timeout, end)
		defer a.watch.stop()
		err := do(ctx, args)
		if err != nil && context.Cause(ctx) == errTimeout {
			return fmt.Errorf("not done within %s: %w", a.timeout, context.DeadlineExceeded)
		}
		return err
	}
}

// runWaiting is run for a command that waits: only an explicit --timeout limits it.
func (a *app) runWaiting(do do) runFunc {
	return func(command *cobra.Command, args []string) error {
		return a.run(func(ctx context.Context, client *qless.Client, args []string) error {
			if !command.Flags().Changed("timeout") {
				a.watch.stop()
			}
			return do(ctx, client, args)
		})(command, args)
	}
}
