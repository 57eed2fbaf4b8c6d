package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/place"
	"github.com/qless/qless-go/cmd/qless/internal/selection"
	"github.com/qless/qless-go/cmd/qless/internal/usage"
	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/stacks"
	"github.com/qless/qless-go/internal/units"
)

// Commands returns the commands of this package.
func Commands(p *place.Place) []*cobra.Command {
	a := &app{p}
	return []*cobra.Command{a.jobCommand(), a.batchCommand(), a.failedCommand(), a.tagCommand()}
}

func (a *app) jobCommand() *cobra.Command {
	command := usage.Group("job", "Show, put and change jobs",
		a.jobShowCommand(), a.jobPutCommand(), a.jobFindCommand(), a.jobListCommand(),
		a.jobEditCommand(), a.jobGraphCommand(), a.jobStackCommand(), a.jobWaitCommand())
	command.AddCommand(a.jobChanges()...)
	return command
}

func (a *app) jobShowCommand() *cobra.Command {
	var follow bool
	command := &cobra.Command{
		Use:   "show JID...",
		Short: "Show all details of jobs",
		RunE: a.Run(func(ctx context.Context, client *qless.Client, args []string) error {
			switch {
			case !follow:
				return a.showJobs(ctx, client, args)
			case len(args) > 1 || a.JSON || a.JIDs:
				return out.Error(errors.New("--follow takes one jid, and neither --json nor --jids"))
			}
			return a.follow(ctx, client, args[0])
		}),
	}
	command.Flags().BoolVar(&follow, "follow", false,
		"print its history, entry by entry, until it has ended")
	return command
}

func (a *app) jobStackCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stack JID",
		Short: "Show the stack of a running job's handler",
		RunE: a.Run(func(ctx context.Context, client *qless.Client, args []string) error {
			job, err := client.Job(ctx, args[0])
			if err != nil {
				return err
			}
			answer, err := stacks.Ask(ctx, client, job.JID, string(job.State), job.Worker)
			switch {
			case err != nil:
				return err
			case answer.Problem != "":
				return &qless.Error{
					Op: "job stack", Code: qless.ErrNotFound, JID: job.JID, Message: answer.Problem,
				}
			case a.JSON:
				return a.PrintJSON(answer)
			}
			a.Block("stack", answer.Stack)
			return nil
		}),
	}
}

func (a *app) showJobs(ctx context.Context, client *qless.Client, args []string) error {
	jids, err := a.Names(args)
	if err != nil {
		return err
	}
	jobs, err := selection.Jobs(ctx, a.Console, client, jids)
	if err != nil {
		return err
	}
	if a.JIDs {
		err = a.PrintFullJobs(jobs)
	} else {
		single := len(jids) == 1 && args[0] != out.Stdin
		err = out.PrintEach(a.Console, jobs, single, func(job *qless.Job) error {
			return a.printJob(ctx, client, job)
		})
	}
	if err != nil {
		return err
	}
	return out.NotFound("job", slices.DeleteFunc(jids, func(jid string) bool {
		return slices.ContainsFunc(jobs, func(job *qless.Job) bool { return job.JID == jid })
	})...)
}

func (a *app) printJob(ctx context.Context, client *qless.Client, job *qless.Job) error {
	result, err := client.Result(ctx, job.JID)
	if err != nil && !errors.Is(err, qless.ErrUnfinished) && !errors.Is(err, qless.ErrNotFound) {
		return err
	}
	if err := jobTable(job).Write(a.Out); err != nil {
		return err
	}
	if job.Failure != nil {
		a.Block("failure", job.Failure.Message)
	}
	a.Block("data", out.Indented(job.Data))
	if result.Data != nil {
		a.Block("result", out.Indented(result.Data))
	}
	if len(job.Attempts) > 0 {
		fmt.Fprintln(a.Out, "attempts:")
		if err := attempts(job).Write(a.Out); err != nil {
			return err
		}
	}
	if len(job.History) == 0 {
		return nil
	}
	fmt.Fprintln(a.Out, "history:")
	return history(job).Write(a.Out)
}

// jobTable returns the nonempty fields of a job.
func jobTable(job *qless.Job) *out.Table {
	t := &out.Table{}
	set := func(name, value string) {
		if value != "" && value != "-" {
			t.Add(name, value)
		}
	}
	set("jid", job.JID)
	set("klass", job.Klass)
	set("queue", job.Queue)
	t.Add("state", out.PaintedState(job.State))
	t.Add("priority", job.Priority)
	t.Add("retries", out.RetriesLeft(job.Remaining, job.Retries)+" left")
	set("worker", job.Worker)
	set(out.LockEnds(job.Expires), out.At(job.Expires))
	if job.Parked == "" {
		set("due", out.At(job.Due))
	}
	set("tags", out.List(job.Tags))
	set("waits for limit", job.Parked)
	set("waits for", out.List(job.Dependencies))
	set("dependents", out.List(job.Dependents))
	for _, failed := range job.FailedDependencies {
		set("failed parent", failed.JID+" ("+failed.Group+")")
	}
	set("spawned from", job.SpawnedFrom)
	if job.Tracked {
		set("tracked", "yes")
	}
	set("life ends", out.At(job.Until))
	style := jobopts.Style{Duration: units.Duration, Time: out.At}
	for _, option := range style.Show(job.Options) {
		set(strings.ToLower(option.Label), option.Text)
	}
	set("parents", out.List(job.Options.Parents))
	if p := job.Progress; p != nil {
		set("progress", out.ProgressText(p))
	}
	for _, key := range slices.Sorted(maps.Keys(job.Headers)) {
		set("header", key+": "+job.Headers[key])
	}
	if f := job.Failure; f != nil {
		t.Add("failed as", out.Paint(f.Group, out.Red))
		set("failed", out.At(f.When))
		set("failed by", f.Worker)
	}
	return t
}

func attempts(job *qless.Job) *out.Table {
	t := &out.Table{
		Header: []string{"  BEGAN", "WHAT", "RAN", "DELAY", "QUEUE", "WORKER", "GROUP", "MESSAGE"},
	}
	for _, a := range job.Attempts {
		t.Add("  "+out.Since(a.Began), a.What, units.Duration(a.Ran), out.Elapsed(a.Delay),
			out.Dash(a.Queue), out.Dash(a.Worker), out.Dash(a.Group), out.Dash(a.Message))
	}
	return t
}

func history(job *qless.Job) *out.Table {
	t := &out.Table{Header: []string{"  WHEN", "WHAT", "QUEUE", "WORKER", "DETAILS"}}
	for _, entry := range job.History {
		details := entry.Group
		if entry.Details != nil {
			text, _ := json.Marshal(entry.Details)
			details = string(text)
		}
		t.Add("  "+out.Since(entry.When), entry.What, out.Dash(entry.Queue), out.Dash(entry.Worker),
			out.Dash(details))
	}
	return t
}
