package health

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/cmd/qless/internal/top"
	"github.com/qless/qless-go/doctor"
)

func (a *app) topCommand() *cobra.Command {
	var every, old time.Duration
	var queue string
	var readOnly bool
	command := &cobra.Command{
		Use:   "top",
		Short: "Watch queues, workers and failures in the terminal",
		RunE: func(command *cobra.Command, _ []string) error {
			if every < 100*time.Millisecond {
				return out.Error(errors.New("--every is too short: want 100ms or more"))
			}
			if !text.IsTerminal(a.In) || !text.IsTerminal(a.Out) {
				return out.Error(errors.New("top needs a terminal: elsewhere, use \"qless status\""))
			}
			connecting, cancel := context.WithTimeout(command.Context(), a.Timeout)
			defer cancel()
			client, err := a.Client(connecting)
			if err != nil {
				return err
			}
			return top.Run(command.Context(), top.Server{Client: client, Old: old}, top.Config{
				Server: a.ServerName(), Queue: queue, Every: every, Timeout: min(a.Timeout, topTimeout),
				ReadOnly: readOnly, In: a.In, Out: a.Out, Style: text.StyleOf(a.Out),
			})
		},
	}
	flags := command.Flags()
	flags.DurationVar(&every, "every", 2*time.Second, "interval between two readings")
	flags.DurationVar(&old, "old", doctor.Late,
		"age of the oldest job at which a queue is late")
	flags.BoolVar(&readOnly, "read-only", false, "disable the keys that change something")
	flags.StringVar(&queue, "queue", "", "start with the jobs of this queue")
	return command
}

// topTimeout is the time after which a server counts as unavailable.
const topTimeout = 5 * time.Second
