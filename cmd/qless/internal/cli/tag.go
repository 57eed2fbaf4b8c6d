package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

func (a *app) tagCommand() *cobra.Command {
	return group("tag", "Show tags and their jobs", a.tagListCommand(), a.tagJobsCommand())
}

func (a *app) tagListCommand() *cobra.Command {
	var flags rangeFlags
	command := &cobra.Command{
		Use:     "ls",
		Short:   "List the tags that at least two jobs have, most used first",
		Example: "  qless tag ls\n  qless tag ls --limit 100 --json",
		Args:    cobra.NoArgs,
		RunE: a.run(func(ctx context.Context, client *qless.Client, _ []string) error {
			page, err := inspect.New(client).Tags(ctx, flags.get())
			if err != nil {
				return err
			}
			err = a.print(page, func() *table {
				t := &table{header: []string{"TAG"}, empty: "no tags that two jobs have"}
				for _, tag := range page.Items {
					t.add(tag)
				}
				return t
			})
			a.footer(len(page.Items), page.Total, "tag")
			return err
		}),
	}
	flags.add(command)
	return command
}

func (a *app) tagJobsCommand() *cobra.Command {
	var flags rangeFlags
	command := &cobra.Command{
		Use:   "jobs TAG",
		Short: "List the jobs that have a tag",
		Example: "  qless tag jobs urgent\n" +
			"  qless tag jobs urgent --limit -1 --jids | qless job cancel - --yes",
		Args: cobra.ExactArgs(1),
		RunE: a.run(func(ctx context.Context, client *qless.Client, args []string) error {
			page, err := inspect.New(client).Tagged(args[0]).List(ctx, flags.get())
			if err != nil {
				return err
			}
			return a.printPage(page)
		}),
		ValidArgsFunction: a.completeEach(tagsKnown),
	}
	flags.add(command)
	return command
}
