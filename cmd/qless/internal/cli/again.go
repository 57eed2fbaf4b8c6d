package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/text"
)

// again adds the flag --watch to a command, which repeats the command at intervals until it is
// interrupted.
func (a *app) again(command *cobra.Command) *cobra.Command {
	var every time.Duration
	command.Flags().DurationVar(&every, "watch", 0, "print it again at this interval")
	command.Flags().Lookup("watch").NoOptDefVal = "2s"
	once := command.RunE
	command.RunE = func(command *cobra.Command, args []string) error {
		if every < 0 {
			return usageError{fmt.Errorf("--watch %s is negative", every)}
		}
		for {
			if every > 0 && text.IsTerminal(a.out) {
				fmt.Fprint(a.out, "\x1b[H\x1b[2J")
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

// followEvery is the interval at which a followed job is read.
const followEvery = time.Second

// follow prints the history of a job, entry by entry, until the job has ended.
func (a *app) follow(ctx context.Context, client *qless.Client, jid string) error {
	for printed := 0; ; {
		a.watch.restart()
		job, err := client.Job(ctx, jid)
		if err != nil {
			return err
		}
		if len(job.History) > printed {
			rest := *job
			rest.History = job.History[printed:]
			printed = len(job.History)
			t := history(&rest)
			t.header = nil
			if err := t.write(a.out); err != nil {
				return err
			}
		}
		if job.State == qless.StateComplete || job.State == qless.StateFailed {
			return nil
		}
		if !pause(ctx, followEvery) {
			return nil
		}
	}
}
