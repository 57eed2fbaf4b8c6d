package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/place"
	"github.com/qless/qless-go/cmd/qless/internal/selection"
	"github.com/qless/qless-go/inspect"
)

// jobChanges returns the commands that change named jobs.
func (a *app) jobChanges() []*cobra.Command {
	return []*cobra.Command{
		a.jobChange("cancel", "Delete jobs in any state but complete", cancel),
		a.jobUnfailCommand(),
		a.jobMoveCommand(),
		a.jobChange("promote", "Make scheduled jobs due now",
			selection.Change{Verb: "promote", Done: "promoted", Do: inspect.Selection.Promote}),
		a.jobChange("timeout", "Take running jobs from their workers",
			selection.Change{
				Verb: "time out", Done: "timed out", Confirmed: true, Do: inspect.Selection.Timeout,
			}),
		a.jobPriorityCommand(),
		a.jobTags("tag", "tagged", "Add tags to jobs", inspect.Selection.Tag),
		a.jobTags("untag", "untagged", "Remove tags from jobs", inspect.Selection.Untag),
		a.jobChange("track", "Track jobs: publish their events, and list them",
			selection.Change{Verb: "track", Done: "tracked", Do: inspect.Selection.Track}),
		a.jobChange("untrack", "Stop tracking jobs",
			selection.Change{Verb: "untrack", Done: "untracked", Do: inspect.Selection.Untrack}),
		a.jobDependCommand(), a.jobUndependCommand(), a.jobLogCommand(),
	}
}

// jobChange returns a command that changes jobs.
func (a *app) jobChange(verb, short string, change selection.Change) *cobra.Command {
	return a.jobChangeBy(verb, short, func() (selection.Change, error) { return change, nil })
}

// jobChangeBy returns a command whose change depends on its flags.
func (a *app) jobChangeBy(
	verb, short string, change func() (selection.Change, error),
) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " JID...",
		Short: short,
		Long:  short + ". A - stands for the jids on standard input, one per line.",
		RunE: func(command *cobra.Command, args []string) error {
			made, err := change()
			if err != nil {
				return out.Error(err)
			}
			return a.Run(made.Run(a.Console))(command, args)
		},
	}
}

// cancel is the change that deletes jobs.
var cancel = selection.Change{
	Verb: "cancel", Done: "canceled", Confirmed: true, Do: inspect.Selection.Cancel,
}

// unfail returns the change that puts failed jobs back.
func unfail(options func() []qless.UnfailOption) selection.Change {
	return selection.Change{Verb: "unfail", Done: "unfailed", Many: true,
		Do: func(jobs inspect.Selection, ctx context.Context) (inspect.Repair, error) {
			return jobs.Unfail(ctx, options()...)
		}}
}

func (a *app) jobUnfailCommand() *cobra.Command {
	var flags unfailFlags
	command := a.jobChange("unfail", "Put failed jobs back into their queues",
		unfail(flags.options))
	flags.add(command)
	return command
}

// unfailFlags are the options for putting failed jobs back.
type unfailFlags struct {
	command *cobra.Command
	retries int
	ttl     time.Duration
}

func (f *unfailFlags) add(command *cobra.Command) {
	f.command = command
	command.Flags().IntVar(&f.retries, "retries", 0,
		"number of retries (default: as before)")
	command.Flags().DurationVar(&f.ttl, "ttl", 0, "time until the jobs are deleted, in any state")
}

func (f *unfailFlags) options() []qless.UnfailOption {
	var options []qless.UnfailOption
	if f.command.Flags().Changed("retries") {
		options = append(options, qless.Retries(f.retries))
	}
	if f.command.Flags().Changed("ttl") {
		options = append(options, qless.TTL(f.ttl))
	}
	return options
}

func (a *app) jobMoveCommand() *cobra.Command {
	var to string
	flags := putFlags{}
	command := a.jobChangeBy("move", "Put jobs in any state into another queue",
		func() (selection.Change, error) {
			options, err := flags.options()
			return selection.Change{Verb: "move", Done: "moved", Rest: " to " + to, Confirmed: true,
				Do: func(jobs inspect.Selection, ctx context.Context) (inspect.Repair, error) {
					return jobs.Move(ctx, to, options...)
				}}, err
		})
	command.Flags().StringVar(&to, "to", "", "the queue")
	flags.addForMove(command)
	_ = command.MarkFlagRequired("to")
	a.CompleteFlag(command, "to", place.QueuesKnown)
	return command
}

func (a *app) jobPriorityCommand() *cobra.Command {
	var priority int
	command := a.jobChange("priority", "Change the priorities of jobs",
		selection.Change{Verb: "change the priority of", Done: "changed the priority of",
			Do: func(jobs inspect.Selection, ctx context.Context) (inspect.Repair, error) {
				return jobs.SetPriority(ctx, priority)
			}})
	command.Flags().IntVar(&priority, "to", 0, "the priority")
	_ = command.MarkFlagRequired("to")
	return command
}

func (a *app) jobTags(verb, done, short string,
	do func(jobs inspect.Selection, ctx context.Context, tags ...string) (inspect.Repair, error),
) *cobra.Command {
	var tags []string
	command := a.jobChange(verb, short,
		selection.Change{Verb: verb, Done: done,
			Do: func(jobs inspect.Selection, ctx context.Context) (inspect.Repair, error) {
				return do(jobs, ctx, tags...)
			}})
	command.Flags().StringArrayVarP(&tags, "tag", "t", nil, "a `tag`; may be repeated")
	_ = command.MarkFlagRequired("tag")
	a.CompleteFlag(command, "tag", place.TagsKnown)
	return command
}

func (a *app) jobDependCommand() *cobra.Command {
	var on []string
	command := a.jobChange("depend", "Make jobs that wait for others wait for more jobs",
		selection.Change{Verb: "add dependencies to", Done: "added dependencies to",
			Do: selection.OfEach(func(ctx context.Context, job *qless.Job) error {
				return job.Depend(ctx, on...)
			})})
	command.Flags().StringSliceVar(&on, "on", nil, "jids of the jobs to wait for")
	_ = command.MarkFlagRequired("on")
	return command
}

func (a *app) jobUndependCommand() *cobra.Command {
	var on []string
	var all bool
	command := a.jobChangeBy("undepend", "Remove dependencies of jobs",
		func() (selection.Change, error) {
			if all == (len(on) > 0) {
				return selection.Change{}, errors.New("one of --on and --all is needed")
			}
			remove := func(ctx context.Context, job *qless.Job) error { return job.Undepend(ctx, on...) }
			if all {
				remove = func(ctx context.Context, job *qless.Job) error { return job.UndependAll(ctx) }
			}
			return selection.Change{
				Verb: "remove dependencies of", Done: "removed dependencies of", Confirmed: all,
				Do: selection.OfEach(remove),
			}, nil
		})
	command.Flags().StringSliceVar(&on, "on", nil, "jids of the jobs to wait for no longer")
	command.Flags().BoolVar(&all, "all", false, "wait for no job")
	return command
}

func (a *app) jobLogCommand() *cobra.Command {
	var message, details string
	command := a.jobChangeBy("log", "Add an entry to the history of jobs",
		func() (selection.Change, error) {
			var fields any
			if details != "" {
				if !json.Valid([]byte(details)) {
					return selection.Change{}, errors.New("the details are not JSON")
				}
				fields = json.RawMessage(details)
			}
			return selection.Change{
				Verb: "add to the history of", Done: "added to the history of",
				Do: selection.OfEach(func(ctx context.Context, job *qless.Job) error {
					return job.Log(ctx, message, fields)
				}),
			}, nil
		})
	command.Flags().StringVarP(&message, "message", "m", "", "what happened")
	command.Flags().StringVar(&details, "details", "", "a JSON object")
	_ = command.MarkFlagRequired("message")
	return command
}
