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
		a.jobCancelCommand(), a.jobUnfailCommand(), a.jobMoveCommand(), a.jobPromoteCommand(),
		a.jobTimeoutCommand(), a.jobPriorityCommand(), a.jobTagCommand(), a.jobUntagCommand(),
		a.jobTrackCommand(), a.jobUntrackCommand(), a.jobDependCommand(), a.jobUndependCommand(),
		a.jobLogCommand(),
	}
}

// jobChange returns a command that changes jobs. Its action is built once the flags are known.
func (a *app) jobChange(
	verb, short, example string, begin func() (selection.Change, error),
) *cobra.Command {
	return &cobra.Command{
		Use:     verb + " JID...",
		Short:   short,
		Long:    short + ". A - stands for the jids on standard input, one per line.",
		Example: example,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			c, err := begin()
			if err != nil {
				return out.Error(err)
			}
			return a.Run(c.Run(a.Console))(command, args)
		},
		ValidArgsFunction: a.CompleteNames(place.TrackedJIDs),
	}
}

func (a *app) jobCancelCommand() *cobra.Command {
	return a.jobChange("cancel", "Delete jobs in any state but complete",
		"  qless job cancel 4b0f1c\n"+
			"  qless job find -q mail --klass Mail --limit -1 --jids | qless job cancel - --yes",
		func() (selection.Change, error) {
			return selection.Change{Verb: "cancel", Done: "canceled", Confirmed: true,
				Do: func(ctx context.Context, jobs inspect.Selection) (inspect.Repair, error) {
					return jobs.Cancel(ctx)
				}}, nil
		})
}

func (a *app) jobUnfailCommand() *cobra.Command {
	var flags unfailFlags
	command := a.jobChange("unfail", "Put failed jobs back into their queues",
		"  qless job unfail 4b0f1c\n"+
			"  qless job find -g timeout -k Mail --limit -1 --jids | qless job unfail - --yes",
		func() (selection.Change, error) {
			options := flags.options()
			return selection.Change{Verb: "unfail", Done: "unfailed", Many: true,
				Do: func(ctx context.Context, jobs inspect.Selection) (inspect.Repair, error) {
					return jobs.Unfail(ctx, options...)
				}}, nil
		})
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
	command := a.jobChange("move", "Put jobs in any state into another queue",
		"  qless job move 4b0f1c --to slow\n"+
			"  qless job find -q mail -k Mail --jids | qless job move - --to slow --yes",
		func() (selection.Change, error) {
			options, err := flags.options()
			return selection.Change{Verb: "move", Done: "moved", Rest: " to " + to, Confirmed: true,
				Do: func(ctx context.Context, jobs inspect.Selection) (inspect.Repair, error) {
					return jobs.Move(ctx, to, options...)
				}}, err
		})
	command.Flags().StringVar(&to, "to", "", "the queue")
	flags.addForMove(command)
	_ = command.MarkFlagRequired("to")
	a.CompleteFlag(command, "to", place.QueuesKnown)
	return command
}

func (a *app) jobPromoteCommand() *cobra.Command {
	return a.jobChange("promote", "Make scheduled jobs due now",
		"  qless job promote 4b0f1c\n"+
			"  qless job find -q mail -s scheduled --jids | qless job promote -",
		func() (selection.Change, error) {
			return selection.Change{Verb: "promote", Done: "promoted",
				Do: func(ctx context.Context, jobs inspect.Selection) (inspect.Repair, error) {
					return jobs.Promote(ctx)
				}}, nil
		})
}

func (a *app) jobTimeoutCommand() *cobra.Command {
	return a.jobChange("timeout", "Take running jobs from their workers",
		"  qless job timeout 4b0f1c\n"+
			"  qless worker show host-17-ab12cd --jids | qless job timeout - --yes",
		func() (selection.Change, error) {
			return selection.Change{Verb: "time out", Done: "timed out", Confirmed: true,
				Do: func(ctx context.Context, jobs inspect.Selection) (inspect.Repair, error) {
					return jobs.Timeout(ctx)
				}}, nil
		})
}

func (a *app) jobPriorityCommand() *cobra.Command {
	var priority int
	command := a.jobChange("priority", "Change the priorities of jobs",
		"  qless job priority 4b0f1c --to 10\n"+
			"  qless job find -q mail --tag urgent --jids | qless job priority - --to 10",
		func() (selection.Change, error) {
			return selection.Change{Verb: "change the priority of", Done: "changed the priority of",
				Do: func(ctx context.Context, jobs inspect.Selection) (inspect.Repair, error) {
					return jobs.SetPriority(ctx, priority)
				}}, nil
		})
	command.Flags().IntVar(&priority, "to", 0, "the priority")
	_ = command.MarkFlagRequired("to")
	return command
}

func (a *app) jobTagCommand() *cobra.Command {
	return a.jobTags("tag", "tagged", "Add tags to jobs", inspect.Selection.Tag)
}

func (a *app) jobUntagCommand() *cobra.Command {
	return a.jobTags("untag", "untagged", "Remove tags from jobs", inspect.Selection.Untag)
}

func (a *app) jobTags(verb, done, short string,
	do func(jobs inspect.Selection, ctx context.Context, tags ...string) (inspect.Repair, error),
) *cobra.Command {
	var tags []string
	command := a.jobChange(verb, short,
		"  qless job "+verb+" 4b0f1c --tag urgent --tag eu\n"+
			"  qless job find -k Mail --jids | qless job "+verb+" - --tag urgent",
		func() (selection.Change, error) {
			return selection.Change{Verb: verb, Done: done,
				Do: func(ctx context.Context, jobs inspect.Selection) (inspect.Repair, error) {
					return do(jobs, ctx, tags...)
				}}, nil
		})
	command.Flags().StringArrayVarP(&tags, "tag", "t", nil, "a `tag`; may be repeated")
	_ = command.MarkFlagRequired("tag")
	a.CompleteFlag(command, "tag", place.TagsKnown)
	return command
}

func (a *app) jobTrackCommand() *cobra.Command {
	return a.jobChange("track", "Track jobs: publish their events, and list them",
		"  qless job track 4b0f1c\n  qless job ls --tracked",
		func() (selection.Change, error) {
			return selection.Change{Verb: "track", Done: "tracked",
				Do: func(ctx context.Context, jobs inspect.Selection) (inspect.Repair, error) {
					return jobs.Track(ctx)
				}}, nil
		})
}

func (a *app) jobUntrackCommand() *cobra.Command {
	return a.jobChange("untrack", "Stop tracking jobs",
		"  qless job untrack 4b0f1c\n  qless job ls --tracked --jids | qless job untrack -",
		func() (selection.Change, error) {
			return selection.Change{Verb: "untrack", Done: "untracked",
				Do: func(ctx context.Context, jobs inspect.Selection) (inspect.Repair, error) {
					return jobs.Untrack(ctx)
				}}, nil
		})
}

func (a *app) jobDependCommand() *cobra.Command {
	var on []string
	command := a.jobChange("depend", "Make jobs that wait for others wait for more jobs",
		"  qless job depend 4b0f1c --on 77aa01,77aa02",
		func() (selection.Change, error) {
			return selection.Change{Verb: "add dependencies to", Done: "added dependencies to",
				Do: selection.OfEach(func(ctx context.Context, job *qless.Job) error {
					return job.Depend(ctx, on...)
				})}, nil
		})
	command.Flags().StringSliceVar(&on, "on", nil, "jids of the jobs to wait for")
	_ = command.MarkFlagRequired("on")
	return command
}

func (a *app) jobUndependCommand() *cobra.Command {
	var on []string
	var all bool
	command := a.jobChange("undepend", "Remove dependencies of jobs",
		"  qless job undepend 4b0f1c --on 77aa01\n  qless job undepend 4b0f1c --all",
		func() (selection.Change, error) {
			if all == (len(on) > 0) {
				return selection.Change{}, errors.New("one of --on and --all is needed")
			}
			return selection.Change{
				Verb: "remove dependencies of", Done: "removed dependencies of", Confirmed: all,
				Do: selection.OfEach(func(ctx context.Context, job *qless.Job) error {
					if all {
						return job.UndependAll(ctx)
					}
					return job.Undepend(ctx, on...)
				}),
			}, nil
		})
	command.Flags().StringSliceVar(&on, "on", nil, "jids of the jobs to wait for no longer")
	command.Flags().BoolVar(&all, "all", false, "wait for no job")
	return command
}

func (a *app) jobLogCommand() *cobra.Command {
	var message, details string
	command := a.jobChange("log", "Add an entry to the history of jobs",
		"  qless job log 4b0f1c -m 'asked the provider' --details '{\"ticket\": 7}'",
		func() (selection.Change, error) {
			var fields any
			if details != "" {
				if !json.Valid([]byte(details)) {
					return selection.Change{}, errors.New("the details are not JSON")
				}
				fields = json.RawMessage(details)
			}
			return selection.Change{Verb: "add to the history of", Done: "added to the history of",
				Do: selection.OfEach(func(ctx context.Context, job *qless.Job) error {
					return job.Log(ctx, message, fields)
				})}, nil
		})
	command.Flags().StringVarP(&message, "message", "m", "", "what happened")
	command.Flags().StringVar(&details, "details", "", "a JSON object")
	_ = command.MarkFlagRequired("message")
	return command
}
