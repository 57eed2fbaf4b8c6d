package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// listFlags select the list of jobs to print.
type listFlags struct {
	place   placeFlags
	tag     string
	tracked bool
	bytes   int
	part    rangeFlags
}

func (a *app) jobListCommand() *cobra.Command {
	var flags listFlags
	command := &cobra.Command{
		Use:   "ls",
		Short: "List the jobs of a queue, a failure group or a tag, or tracked or complete ones",
		Example: "  qless job ls -q mail\n  qless job ls -q mail -s scheduled --bytes 80\n" +
			"  qless job ls -g timeout --limit 100\n  qless job ls -s completed --json",
		Args: cobra.NoArgs,
		RunE: a.run(func(ctx context.Context, client *qless.Client, _ []string) error {
			page, err := flags.read(ctx, client)
			if err != nil {
				return err
			}
			if page.Total == 0 && flags.place.queue != "" {
				known, err := queuesKnown(ctx, client)
				if err == nil && !slices.Contains(known, flags.place.queue) {
					return notFound("queue", flags.place.queue)
				}
			}
			return a.printPage(page)
		}),
	}
	flags.place.add(a.place, command)
	flags.part.add(command)
	command.Flags().StringVarP(&flags.tag, "tag", "t", "", "jobs with this tag")
	command.Flags().BoolVar(&flags.tracked, "tracked", false, "tracked jobs")
	command.Flags().IntVar(&flags.bytes, "bytes", 0, "number of bytes of the data to print")
	a.completeFlag(command, "tag", tagsKnown)
	return command
}

// read returns a page of the list that the flags name.
func (f *listFlags) read(
	ctx context.Context, client *qless.Client,
) (page inspect.Page[inspect.Row], err error) {
	if err := f.check(); err != nil {
		return page, err
	}
	return f.jobs(inspect.New(client)).WithData(f.bytes).List(ctx, f.part.get())
}

// jobs returns the list that the flags name.
func (f *listFlags) jobs(in *inspect.Inspector) inspect.Selection {
	switch {
	case f.place.group != "":
		return in.Failed(f.place.group)
	case f.tag != "":
		return in.Tagged(f.tag)
	case f.tracked:
		return in.Tracked()
	case f.place.queue == "":
		return in.Completed()
	}
	list := inspect.Waiting
	if len(f.place.states) == 1 {
		list = inspect.List(f.place.states[0])
	}
	return in.Queue(f.place.queue, list)
}

func (f *listFlags) check() error {
	if err := checkStates(f.place.states); err != nil {
		return err
	}
	named := 0
	for _, set := range []bool{
		f.place.group != "", f.tag != "", f.tracked, f.place.queue != "", f.completed(),
	} {
		if set {
			named++
		}
	}
	states := len(f.place.states)
	if named != 1 || states > 1 || states == 1 && !f.ofQueue() && !f.completed() {
		return usageError{errors.New("name one list: --queue, with or without --state, --group, " +
			"--tag, --tracked or --state completed; find looks in several")}
	}
	return nil
}

func (f *listFlags) completed() bool {
	return len(f.place.states) == 1 && f.place.states[0] == stateCompleted
}

// ofQueue reports whether a list of a queue is named.
func (f *listFlags) ofQueue() bool {
	return f.place.queue != "" && f.place.states[0] != stateFailed
}
