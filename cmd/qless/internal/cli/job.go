package cli

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
	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/units"
)

func (a *app) jobCommand() *cobra.Command {
	command := group("job", "Show, put and change jobs",
		a.jobShowCommand(), a.jobPutCommand(), a.jobFindCommand(), a.jobListCommand(),
		a.jobEditCommand(), a.jobGraphCommand(), a.jobWaitCommand())
	command.AddCommand(a.jobChanges()...)
	return command
}

func (a *app) jobShowCommand() *cobra.Command {
	var follow bool
	command := &cobra.Command{
		Use:   "show JID...",
		Short: "Show all details of jobs",
		Example: "  qless job show 4b0f1c\n  qless job show 4b0f1c --json | jq .data\n" +
			"  qless job show 4b0f1c --follow\n" +
			"  qless job find --klass Mail --jids | qless job show -",
		Args: cobra.MinimumNArgs(1),
		RunE: a.run(func(ctx context.Context, client *qless.Client, args []string) error {
			switch {
			case !follow:
				return a.showJobs(ctx, client, args)
			case len(args) > 1 || a.json || a.jids:
				return usageError{errors.New("--follow takes one jid, and neither --json nor --jids")}
			}
			return a.follow(ctx, client, args[0])
		}),
		ValidArgsFunction: a.completeNames(trackedJIDs),
	}
	command.Flags().BoolVar(&follow, "follow", false,
		"print its history, entry by entry, until it has ended")
	return command
}

func (a *app) showJobs(ctx context.Context, client *qless.Client, args []string) error {
	jids, err := a.names(args)
	if err != nil {
		return err
	}
	jobs := []*qless.Job{}
	for page := range slices.Chunk(jids, inPage) {
		a.watch.restart()
		found, err := client.Jobs(ctx, page...)
		if err != nil {
			return err
		}
		jobs = append(jobs, found...)
	}
	if err := a.printJobs(ctx, client, jobs, len(jids) == 1 && args[0] != stdin); err != nil {
		return err
	}
	return missing("job", jids, func(yield func(string) bool) {
		for _, job := range jobs {
			if !yield(job.JID) {
				return
			}
		}
	})
}

// printJobs prints all details of jobs. As JSON, a single one is an object and not an array.
func (a *app) printJobs(
	ctx context.Context, client *qless.Client, jobs []*qless.Job, single bool,
) error {
	switch {
	case single && len(jobs) == 0:
		return nil
	case a.jids:
		return a.printFullJobs(jobs)
	case a.json && single:
		return a.print(jobs[0], nil)
	case a.json:
		return a.print(jobs, nil)
	}
	for i, job := range jobs {
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		result, err := client.Result(ctx, job.JID)
		switch {
		case errors.Is(err, qless.ErrUnfinished), errors.Is(err, qless.ErrNotFound):
		case err != nil:
			return err
		}
		if err := a.printJob(job, result); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printJob(job *qless.Job, result qless.Result) error {
	if err := jobTable(job).write(a.out); err != nil {
		return err
	}
	if job.Failure != nil {
		a.block("failure", job.Failure.Message)
	}
	a.block("data", indented(job.Data))
	if result.Data != nil {
		a.block("result", indented(result.Data))
	}
	if len(job.Attempts) > 0 {
		fmt.Fprintln(a.out, "attempts:")
		if err := attempts(job).write(a.out); err != nil {
			return err
		}
	}
	if len(job.History) == 0 {
		return nil
	}
	fmt.Fprintln(a.out, "history:")
	return history(job).write(a.out)
}

// jobTable returns the fields that are set in a job.
func jobTable(job *qless.Job) *table {
	t := &table{}
	set := func(name, value string) {
		if value != "" && value != "-" {
			t.add(name, value)
		}
	}
	set("jid", job.JID)
	set("klass", job.Klass)
	set("queue", job.Queue)
	t.add("state", paintedState(job.State))
	t.add("priority", job.Priority)
	t.add("retries", retriesLeft(job.Remaining, job.Retries)+" left")
	set("worker", job.Worker)
	set(lockEnds(job.Expires), at(job.Expires))
	if job.Parked == "" {
		set("due", at(job.Due))
	}
	set("tags", list(job.Tags))
	set("waits for limit", job.Parked)
	set("waits for", list(job.Dependencies))
	set("dependents", list(job.Dependents))
	for _, failed := range job.FailedDependencies {
		set("failed parent", failed.JID+" ("+failed.Group+")")
	}
	set("spawned from", job.SpawnedFrom)
	if job.Tracked {
		set("tracked", "yes")
	}
	set("life ends", at(job.Until))
	style := jobopts.Style{Duration: units.Duration, Time: at}
	for _, option := range style.Show(job.Options) {
		set(strings.ToLower(option.Label), option.Text)
	}
	set("parents", list(job.Options.Parents))
	if p := job.Progress; p != nil {
		set("progress", progressText(p))
	}
	for _, key := range slices.Sorted(maps.Keys(job.Headers)) {
		set("header", key+": "+job.Headers[key])
	}
	if f := job.Failure; f != nil {
		t.add("failed as", painted{f.Group, red})
		set("failed", at(f.When))
		set("failed by", f.Worker)
	}
	return t
}

func attempts(job *qless.Job) *table {
	t := &table{
		header: []string{"  BEGAN", "WHAT", "RAN", "DELAY", "QUEUE", "WORKER", "GROUP", "MESSAGE"},
	}
	for _, a := range job.Attempts {
		t.add("  "+since(a.Began), a.What, units.Duration(a.Ran), elapsed(a.Delay), dash(a.Queue),
			dash(a.Worker), dash(a.Group), dash(a.Message))
	}
	return t
}

func history(job *qless.Job) *table {
	t := &table{header: []string{"  WHEN", "WHAT", "QUEUE", "WORKER", "DETAILS"}}
	for _, entry := range job.History {
		details := entry.Group
		if entry.Details != nil {
			text, _ := json.Marshal(entry.Details)
			details = string(text)
		}
		t.add("  "+since(entry.When), entry.What, dash(entry.Queue), dash(entry.Worker),
			dash(details))
	}
	return t
}
