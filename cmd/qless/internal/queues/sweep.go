package queues

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/selection"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/inspect"
)

func (a *app) sweepCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "sweep [QUEUE...]",
		Short: "Clean up leftovers that no other call has noticed",
		Long: "Clean up leftovers that no other call has noticed: end jobs whose lives are over,\n" +
			"delete failed jobs that the settings do not keep, and notify jobs with --on-failure of\n" +
			"failures that they were not notified of. In named queues, also move jobs that have fallen\n" +
			"due or whose locks have expired; in a name, * stands for any text.",
		Example: "  qless sweep\n  qless sweep mail sms\n  qless sweep '*' --json",
		RunE:    a.Run(a.sweep),
	}
}

// sweptAtOnce is the number of failed jobs and failure groups that a call of Sweep examines.
const sweptAtOnce = 100

// sweep sweeps until all failed jobs were examined and no leftovers are found.
func (a *app) sweep(ctx context.Context, client *qless.Client, queues []string) error {
	if !slices.Equal(queues, []string{"*"}) {
		var err error
		if queues, err = selection.Matching(ctx, client, queues); err != nil {
			return err
		}
	}
	groups, err := inspect.New(client).FailureGroups(ctx)
	if err != nil {
		return err
	}
	left, swept := 2+len(groups)/sweptAtOnce, 0
	for _, jobs := range groups {
		left += jobs / sweptAtOnce
	}
	for left > 0 {
		n, err := inspect.New(client).Sweep(ctx, queues...)
		if err != nil {
			return err
		}
		if swept += n; n == 0 {
			left--
		}
	}
	if a.JSON {
		return a.Print(map[string]int{"swept": swept}, nil)
	}
	a.Say("swept %s", text.Count(swept, "job"))
	return nil
}
