package out

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go/cmd/qless/internal/text"
)

// ErrTimeout is the cause of a context that a Watch has ended.
var ErrTimeout = errors.New("the time is over")

// A Watch ends a context when the server takes too long. It stops while the user is asked, and
// restarts with each step of a long command.
type Watch struct {
	timer *time.Timer
	limit time.Duration
}

// NewWatch returns a watch that calls end after a time.
func NewWatch(limit time.Duration, end context.CancelCauseFunc) *Watch {
	return &Watch{time.AfterFunc(limit, func() { end(ErrTimeout) }), limit}
}

// Stop stops the watch. A nil Watch has no limit.
func (w *Watch) Stop() {
	if w != nil {
		w.timer.Stop()
	}
}

// Restart resets the time of a running watch.
func (w *Watch) Restart() {
	if w != nil && w.timer.Stop() {
		w.timer.Reset(w.limit)
	}
}

// Resume starts a stopped watch again, with all of its time.
func (w *Watch) Resume() {
	if w != nil {
		w.timer.Reset(w.limit)
	}
}

// Again adds the flag --watch to a command, which repeats the command at intervals until it is
// interrupted.
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
