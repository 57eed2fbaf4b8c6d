package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
)

// run returns the function of a command that needs a client and has a time limit.
func (p *place) run(do do) runFunc {
	return p.inTime(func(ctx context.Context, args []string) error {
		client, err := p.client(ctx)
		if err != nil {
			return err
		}
		return do(ctx, client, args)
	})
}

// inTime returns the function of a command that has a time limit.
func (p *place) inTime(do func(ctx context.Context, args []string) error) runFunc {
	return func(command *cobra.Command, args []string) error {
		ctx, end := context.WithCancelCause(command.Context())
		defer end(nil)
		p.watch = newWatch(p.timeout, end)
		defer p.watch.stop()
		err := do(ctx, args)
		if err != nil && context.Cause(ctx) == errTimeout {
			return fmt.Errorf("not done within %s: %w", p.timeout, context.DeadlineExceeded)
		}
		return err
	}
}

// runWaiting is run for a command that waits: only an explicit --timeout limits it.
func (p *place) runWaiting(do do) runFunc {
	return func(command *cobra.Command, args []string) error {
		return p.run(func(ctx context.Context, client *qless.Client, args []string) error {
			if !command.Flags().Changed("timeout") {
				p.watch.stop()
			}
			return do(ctx, client, args)
		})(command, args)
	}
}

// A do runs a command once it is connected.
type do = func(ctx context.Context, client *qless.Client, args []string) error

// A runFunc is the function of a command.
type runFunc = func(*cobra.Command, []string) error
