package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/inspect"
)

func (a *app) sweepCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "sweep [QUEUE...]",
		Short: "Clear away what nobody else has come across",
		Long: "Clear away what nobody else has come across: end the lives of jobs that are over,\n" +
			"delete failed jobs that are too old or too many by the settings, and tell jobs with an\n" +
			"OnFailure of failures that they have not heard of. In queues that are named, also move the\n" +
			"jobs that have fallen due, and those whose locks have ended; \"*\" stands for all queues.",
		Example:           "  qless sweep\n  qless sweep mail sms\n  qless sweep '*' --json",
		RunE:              a.run(a.sweep),
		ValidArgsFunction: a.completeNames(queuesKnown),
	}
}

// sweptAtOnce is how many failed jobs, and failure groups, a call of Sweep looks at.
const sweptAtOnce = 100

// sweep sweeps until all failed jobs were looked at, and nothing more is found.
func (a *app) sweep(ctx context.Context, client *qless.Client, queues []string) error {
	groups, err := inspect.New(client).FailureGroups(ctx)
	if err != nil {
		return err
	}
	left, swept := 2+len(groups)/sweptAtOnce, 0
	for _, jobs := range groups {
		left += jobs / sweptAtOnce
	}
	for left > 0 {
		n, err := client.Sweep(ctx, queues...)
		if err != nil {
			return err
		}
		if swept += n; n == 0 {
			left--
		}
	}
	if a.json {
		return a.print(map[string]int{"swept": swept}, nil)
	}
	a.say("swept %s", text.Count(swept, "job"))
	return nil
}
