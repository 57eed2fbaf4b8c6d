package queues

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/place"
	"github.com/qless/qless-go/cmd/qless/internal/selection"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/inspect"
)

// eachQueue returns a function for treating all named queues alike.
func (a *app) eachQueue(
	verb, done string, confirmed bool,
	do func(ctx context.Context, client *qless.Client, queue string) error,
) place.Do {
	run := selection.Each(a.Console, verb, done, "queue", confirmed, do)
	return func(ctx context.Context, client *qless.Client, args []string) error {
		args, err := selection.Matching(ctx, client, args)
		if err != nil {
			return err
		}
		if err := a.warnOfQueues(ctx, client, args); err != nil {
			return err
		}
		return run(ctx, client, args)
	}
}

// warnOfQueues names queues that never had a job, perhaps misspelt.
func (a *app) warnOfQueues(ctx context.Context, client *qless.Client, names []string) error {
	known, err := place.QueuesKnown(ctx, client)
	for _, name := range names {
		if err == nil && name != out.Stdin && !slices.Contains(known, name) {
			fmt.Fprintf(a.Err, "warning: the queue %q is unknown so far\n", name)
		}
	}
	return err
}

func (a *app) queuePauseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pause QUEUE...",
		Short: "Stop workers from taking jobs of queues",
		RunE:  a.Run(a.eachQueue("pause", "paused", true, pauseQueue)),
	}
}

func (a *app) queueResumeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "resume QUEUE...",
		Short: "Let workers take jobs of queues again",
		RunE:  a.Run(a.eachQueue("resume", "resumed", false, resumeQueue)),
	}
}

func (a *app) queueForgetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "forget QUEUE...",
		Short: "Remove empty queues from the list until jobs are put into them",
		RunE:  a.Run(a.eachQueue("forget", "forgot", true, forgetQueue)),
	}
}

func pauseQueue(ctx context.Context, client *qless.Client, queue string) error {
	return client.Queue(queue).Pause(ctx)
}

func resumeQueue(ctx context.Context, client *qless.Client, queue string) error {
	return client.Queue(queue).Resume(ctx)
}

func forgetQueue(ctx context.Context, client *qless.Client, queue string) error {
	return inspect.New(client).ForgetQueue(ctx, queue)
}

func (a *app) queueMoveCommand() *cobra.Command {
	flags := selection.Flags{}
	command := &cobra.Command{
		Use:   "move FROM TO",
		Short: "Move the jobs of a queue into another queue",
		RunE: a.Run(func(ctx context.Context, client *qless.Client, args []string) error {
			flags.Lists.Queue = args[0]
			return a.moveQueue(ctx, client, flags, args[1])
		}),
	}
	flags.AddFilter(a.Place, command)
	command.Flags().IntVar(&flags.Limit, "limit", -1, "maximum number to move, -1 for all")
	command.Flags().StringSliceVarP(&flags.Lists.States, "state", "s", []string{"waiting"},
		out.Alternatives(selection.QueueStates))
	place.CompleteWords(command, "state", selection.QueueStates...)
	return command
}

func (a *app) moveQueue(
	ctx context.Context, client *qless.Client, flags selection.Flags, to string,
) error {
	if err := checkStates(flags.Lists.States); err != nil {
		return err
	}
	if to == flags.Lists.Queue {
		return out.Error(errors.New("the queues are the same"))
	}
	found, err := flags.Find(ctx, a.Console, client)
	if err != nil {
		return err
	}
	jids := out.Strings(found.Items, func(job inspect.Row) string { return job.JID })
	return selection.Change{
		Verb: "move", Done: "moved", Rest: " to " + to, Confirmed: true,
		Do: func(jobs inspect.Selection, ctx context.Context) (inspect.Repair, error) {
			return jobs.Move(ctx, to)
		},
	}.Of(ctx, a.Console, client, jids)
}

func checkStates(states []string) error {
	for _, state := range states {
		if !slices.Contains(selection.QueueStates, state) {
			return out.Error(errors.New("the jobs of a queue are " +
				out.Alternatives(selection.QueueStates)))
		}
	}
	return nil
}

func (a *app) queueWaitCommand() *cobra.Command {
	var states []string
	var poll time.Duration
	command := &cobra.Command{
		Use:   "wait QUEUE...",
		Short: "Wait until queues have no jobs",
		RunE: a.RunWaiting(func(ctx context.Context, client *qless.Client, args []string) error {
			return a.waitForQueues(ctx, client, args, states, poll)
		}),
	}
	command.Flags().StringSliceVarP(&states, "state", "s", selection.QueueStates,
		out.Alternatives(selection.QueueStates))
	command.Flags().DurationVar(&poll, "every", time.Second, "interval between two checks")
	place.CompleteWords(command, "state", selection.QueueStates...)
	return command
}

func (a *app) waitForQueues(
	ctx context.Context, client *qless.Client, args, states []string, poll time.Duration,
) error {
	if err := checkStates(states); err != nil {
		return err
	}
	names, err := a.Names(args)
	if err != nil {
		return err
	}
	timer := time.NewTicker(max(poll, 10*time.Millisecond))
	defer timer.Stop()
	for {
		queues, err := selection.Matching(ctx, client, names)
		if err != nil {
			return err
		}
		left, err := jobsLeft(ctx, client, queues, states)
		if err != nil {
			return err
		}
		if left == 0 {
			return a.PrintJSON(waited{queues, left})
		}
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// waited is the result of waiting for queues.
type waited struct {
	Queues []string `json:"queues"`
	Jobs   int      `json:"jobs"`
}

// jobsLeft returns the number of jobs that queues have in some states.
func jobsLeft(
	ctx context.Context, client *qless.Client, names, states []string,
) (left int, err error) {
	for _, name := range names {
		counts, err := client.Queue(name).Counts(ctx)
		if err != nil {
			return 0, err
		}
		for _, state := range states {
			left += inspect.List(state).Count(&counts)
		}
	}
	return left, nil
}

func (a *app) sweepCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "sweep [QUEUE...]",
		Short: "Clean up leftovers that no other call has noticed",
		RunE:  a.Run(a.sweep),
	}
}

// sweptAtOnce is the number of failed jobs and failure groups examined by a call of Sweep.
const sweptAtOnce = 100

// sweep sweeps until all failed jobs were examined and no leftovers remain.
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
