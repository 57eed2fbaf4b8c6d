package out

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go/cmd/qless/internal/text"
)

// Again adds the flag --watch to a command, to repeat the command at intervals until interrupted.
func (c *Console) Again(command *cobra.Command) *cobra.Command {
	var every time.Duration
	command.Flags().DurationVar(&every, "watch", 0, "print it again at this interval")
	command.Flags().Lookup("watch").NoOptDefVal = "2s"
	once := command.RunE
	command.RunE = func(command *cobra.Command, args []string) error {
		if every < 0 {
			return Error(fmt.Errorf("--watch %s is negative", every))
		}
		for {
			if every > 0 && text.IsTerminal(c.Out) {
				fmt.Fprint(c.Out, "\x1b[H\x1b[2J")
			}
			err := once(command, args)
			if every > 0 && command.Context().Err() != nil {
				return nil
			}
			if every == 0 || err != nil || !Pause(command.Context(), every) {
				return err
			}
		}
	}
	return command
}

// Pause waits, and reports whether the context is still alive.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
