package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
)

func (a *app) jobFindCommand() *cobra.Command {
	var flags findFlags
	command := &cobra.Command{
		Use:   "find",
		Short: "Find jobs by klass, tag, jid or data",
		Long: "Find jobs by klass, tag, jid or data: in the queues, or one of them, and among failed\n" +
			"jobs. Completed jobs are searched only with --state completed. Each job is read, unless\n" +
			"there is a --tag and no other flag says where to look.",
		Example: "  qless job find --klass Mail --data ann@example.com\n" +
			"  qless job find -q mail -s waiting,scheduled --tag urgent\n" +
			"  qless job find --group timeout --limit -1 --jids | qless job unfail - --yes\n" +
			"  qless job find --unique invoice --unique 7",
		Args: cobra.NoArgs,
	}
	command.RunE = a.run(func(ctx context.Context, client *qless.Client, _ []string) error {
		if !flags.saysWhich() && !command.Flags().Changed("limit") {
			return usageError{errors.New("which jobs? Name a klass, tag, jid, data, queue, group, state " +
				"or unique key; --limit 25 alone finds any")}
		}
		return a.findJobs(ctx, client, flags)
	})
	flags.place.add(a.place, command)
	flags.addFilter(a.place, command)
	command.Flags().IntVar(&flags.limit, "limit", 25, "maximum number of jobs to find, -1 for all")
	command.Flags().StringVar(&flags.cursor, "cursor", "", "continue where another call stopped")
	command.Flags().IntVar(&flags.bytes, "bytes", 0, "number of bytes of the data to print")
	command.Flags().StringArrayVar(&flags.unique, "unique", nil,
		"the job that holds a unique key: a `part` of it, as JSON or text; may be repeated")
	return command
}

func (a *app) findJobs(ctx context.Context, client *qless.Client, flags findFlags) error {
	found, err := flags.find(ctx, a.console, client)
	if err != nil {
		return err
	}
	if err := a.printSummaries(found, found.Items); err != nil {
		return err
	}
	if !a.json {
		a.footer(len(found.Items), len(found.Items), "job")
		if found.Next != "" {
			a.say("there may be more: --cursor %s", found.Next)
		}
	}
	return nil
}
