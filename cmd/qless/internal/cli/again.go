package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go/cmd/qless/internal/text"
)

// again adds the flag --watch to a command, which repeats the command at intervals until it is
// interrupted.
func (c *console) again(command *cobra.Command) *cobra.Command {
	var every time.Duration
	command.Flags().DurationVar(&every, "watch", 0, "print it again at this interval")
	command.Flags().Lookup("watch").NoOptDefVal = "2s"
	once := command.RunE
	command.RunE = func(command *cobra.Command, args []string) error {
		if every < 0 {
			return usageError{fmt.Errorf("--watch %s is negative", every)}
		}
		for {
			if every > 0 && text.IsTerminal(c.out) {
				fmt.Fprint(c.out, "\x1b[H\x1b[2J")
			}
			err := once(command, args)
			if every > 0 && command.Context().Err() != nil {
				return nil
			}
			if every == 0 || err != nil || !pause(command.Context(), every) {
				return err
			}
		}
	}
	return command
}

// pause waits, and reports whether the context is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
