package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/cmd/qless/internal/top"
)

func (a *app) topCommand() *cobra.Command {
	var every, old time.Duration
	var queue string
	var readOnly bool
	command := &cobra.Command{
		Use:   "top",
		Short: "Watch queues, workers and failures in the terminal",
		Long: "Watch queues, workers and failures in the terminal, sort them, look into a queue and\n" +
			"pause it. The key ? tells the keys.\n\n" +
			"What is shown is read every 2 s (--every). Reading the queues runs about 16 commands on the\n" +
			"server for each queue, 3 for each worker, 1 for each failure group and 6 for each of up to\n" +
			"50 limits; a list of jobs runs 2 for each of up to 100. Readings take no more than a\n" +
			"twentieth of the time: the longer one takes, the later is the next one.",
		Example: "  qless top\n  qless top --every 10s\n  qless top --queue mail",
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if every < 100*time.Millisecond {
				return usageError{errors.New("--every is too short: want 100ms or more")}
			}
			if !text.IsTerminal(a.in) || !text.IsTerminal(a.out) {
				return usageError{errors.New("top needs a terminal: elsewhere, use \"qless status\"")}
			}
			connecting, cancel := context.WithTimeout(command.Context(), a.timeout)
			defer cancel()
			client, err := a.client(connecting)
			if err != nil {
				return err
			}
			return top.Run(command.Context(), top.Server{Client: client, Old: old}, top.Config{
				Server: a.serverName(), Queue: queue, Every: every, Timeout: min(a.timeout, topTimeout),
				ReadOnly: readOnly, In: a.in, Out: a.out, Style: text.StyleOf(a.out),
			})
		},
	}
	flags := command.Flags()
	flags.DurationVar(&every, "every", 2*time.Second, "how often to read")
	flags.DurationVar(&old, "old", 5*time.Minute,
		"from which age of its oldest job on a queue is late")
	flags.BoolVar(&readOnly, "read-only", false, "let the keys change nothing: no queue is paused")
	flags.StringVar(&queue, "queue", "", "begin with the jobs of this queue")
	return command
}

// topTimeout is when a server is taken to be away.
const topTimeout = 5 * time.Second
