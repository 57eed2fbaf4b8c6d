package jobs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/usage"
	"github.com/qless/qless-go/inspect"
)

func (a *app) tagCommand() *cobra.Command {
	return usage.Group("tag", "Show tags and their jobs", a.tagListCommand(), a.tagJobsCommand())
}

func (a *app) tagListCommand() *cobra.Command {
	var flags out.RangeFlags
	command := &cobra.Command{
		Use:   "ls",
		Short: "List the tags that at least two jobs have, most used first",
		RunE: a.Run(func(ctx context.Context, client *qless.Client, _ []string) error {
			page, err := inspect.New(client).Tags(ctx, flags.Get())
			if err != nil {
				return err
			}
			err = a.Print(page, func() *out.Table {
				t := out.NewTable("TAG", "no tags that two jobs have")
				for _, tag := range page.Items {
					t.Add(tag)
				}
				return t
			})
			a.Footer(len(page.Items), page.Total, "tag")
			return err
		}),
	}
	flags.Add(command)
	return command
}

func (a *app) tagJobsCommand() *cobra.Command {
	var flags out.RangeFlags
	command := &cobra.Command{
		Use:   "jobs TAG",
		Short: "List the jobs that have a tag",
		RunE: a.Run(func(ctx context.Context, client *qless.Client, args []string) error {
			return a.PrintPage(inspect.New(client).Tagged(args[0]).List(ctx, flags.Get()))
		}),
	}
	flags.Add(command)
	return command
}
