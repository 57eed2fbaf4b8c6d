package jobs

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/place"
	"github.com/qless/qless-go/cmd/qless/internal/selection"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/terms"
)

// listFlags select the list of jobs to print.
type listFlags struct {
	place   selection.ListFlags
	tag     string
	tracked bool
	bytes   int
	part    out.RangeFlags
}

func (a *app) jobListCommand() *cobra.Command {
	var flags listFlags
	command := &cobra.Command{
		Use:   "ls",
		Short: "List the jobs of a queue, a failure group or a tag, or tracked or complete ones",
		RunE: a.Run(func(ctx context.Context, client *qless.Client, _ []string) error {
			page, err := flags.read(ctx, client)
			if err == nil && page.Total == 0 && flags.place.Queue != "" {
				known, err := place.QueuesKnown(ctx, client)
				if err == nil && !slices.Contains(known, flags.place.Queue) {
					return out.NotFound("queue", flags.place.Queue)
				}
			}
			return a.PrintPage(page, err)
		}),
	}
	flags.place.Add(a.Place, command)
	flags.part.Add(command)
	command.Flags().StringVarP(&flags.tag, "tag", "t", "", "jobs with this tag")
	command.Flags().BoolVar(&flags.tracked, "tracked", false, "tracked jobs")
	command.Flags().IntVar(&flags.bytes, "bytes", 0, "number of bytes of the data to print")
	a.CompleteFlag(command, "tag", place.TagsKnown)
	return command
}

// read returns a page of the list named by the flags.
func (f *listFlags) read(
	ctx context.Context, client *qless.Client,
) (page inspect.Page[inspect.Row], err error) {
	if err := f.check(); err != nil {
		return page, err
	}
	return f.jobs(inspect.New(client)).WithData(f.bytes).List(ctx, f.part.Get())
}

// jobs returns the list named by the flags.
func (f *listFlags) jobs(in *inspect.Inspector) inspect.Selection {
	switch {
	case f.place.Group != "":
		return in.Failed(f.place.Group)
	case f.tag != "":
		return in.Tagged(f.tag)
	case f.tracked:
		return in.Tracked()
	case f.place.Queue == "":
		return in.Completed()
	}
	list := inspect.Waiting
	if len(f.place.States) == 1 {
		list = inspect.List(f.place.States[0])
	}
	return in.Queue(f.place.Queue, list)
}

func (f *listFlags) check() error {
	if err := selection.CheckStates(f.place.States); err != nil {
		return err
	}
	named := 0
	for _, set := range []bool{
		f.place.Group != "", f.tag != "", f.tracked, f.place.Queue != "", f.completed(),
	} {
		if set {
			named++
		}
	}
	states := len(f.place.States)
	if named != 1 || states > 1 || states == 1 && !f.ofQueue() && !f.completed() {
		return out.Error(errors.New("name one list: --queue, with or without --state, --group, " +
			"--tag, --tracked or --state completed; find looks in several"))
	}
	return nil
}

func (f *listFlags) completed() bool {
	return len(f.place.States) == 1 && f.place.States[0] == selection.StateCompleted
}

// ofQueue reports whether the flags name a list of a queue.
func (f *listFlags) ofQueue() bool {
	return f.place.Queue != "" && f.place.States[0] != selection.StateFailed
}

func (a *app) jobFindCommand() *cobra.Command {
	var flags selection.Flags
	command := &cobra.Command{
		Use:               "find [WORD...]",
		Short:             "Find jobs by klass, tag, jid or data",
		ValidArgsFunction: cobra.FixedCompletions(terms.Words, cobra.ShellCompDirectiveNoSpace),
	}
	command.RunE = a.Run(func(ctx context.Context, client *qless.Client, args []string) error {
		if err := flags.AddWords(args); err != nil {
			return err
		}
		if !flags.SaysWhich() && !command.Flags().Changed("limit") {
			return out.Error(errors.New("which jobs? Name a klass, tag, jid, data, queue, group, state " +
				"or unique key; --limit 25 alone finds any"))
		}
		return a.findJobs(ctx, client, flags)
	})
	flags.Lists.Add(a.Place, command)
	flags.AddFilter(a.Place, command)
	command.Flags().IntVar(&flags.Limit, "limit", 25, "maximum number of jobs to find, -1 for all")
	command.Flags().StringVar(&flags.Cursor, "cursor", "", "continue where another call stopped")
	command.Flags().IntVar(&flags.Bytes, "bytes", 0, "number of bytes of the data to print")
	command.Flags().StringArrayVar(&flags.Unique, "unique", nil,
		"the job that holds a unique key: a `part` of it, as JSON or text; may be repeated")
	return command
}

func (a *app) findJobs(ctx context.Context, client *qless.Client, flags selection.Flags) error {
	found, err := flags.Find(ctx, a.Console, client)
	if err != nil {
		return err
	}
	if err := a.PrintSummaries(found, found.Items); err != nil {
		return err
	}
	if !a.JSON {
		a.Footer(len(found.Items), len(found.Items), "job")
		if found.Next != "" {
			a.Say("there may be more: --cursor %s", found.Next)
		}
	}
	return nil
}
