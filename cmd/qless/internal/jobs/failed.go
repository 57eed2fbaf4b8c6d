package jobs

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/selection"
	"github.com/qless/qless-go/cmd/qless/internal/usage"
	"github.com/qless/qless-go/inspect"
)

func (a *app) failedCommand() *cobra.Command {
	return usage.Group("failed", "Show failed jobs, and retry or cancel them by group",
		a.failedListCommand(), a.failedShowCommand(),
		a.failedUnfailCommand(), a.failedCancelCommand())
}

func (a *app) failedListCommand() *cobra.Command {
	var flags out.RangeFlags
	var times selection.TimeFlags
	command := &cobra.Command{
		Use:   "ls [GROUP]",
		Short: "List the failure groups, or the failed jobs of one",
		RunE: a.Run(func(ctx context.Context, client *qless.Client, args []string) error {
			if len(args) == 0 {
				return a.listGroups(ctx, client, flags.Limit, times)
			}
			if times != (selection.TimeFlags{}) {
				if flags.Get().Offset > 0 {
					return out.Error(errors.New("--offset is for lists without --since and --until"))
				}
				return a.findJobs(ctx, client, inGroup(args[0], times, flags.Limit))
			}
			return a.PrintPage(inspect.New(client).Failed(args[0]).List(ctx, flags.Get()))
		}),
	}
	flags.Add(command)
	times.Add(command, "failures")
	return command
}

// inGroup selects a group's jobs that failed in a period.
func inGroup(group string, times selection.TimeFlags, limit int) selection.Flags {
	return selection.Flags{
		Lists: selection.ListFlags{Group: group}, Times: times, Limit: limit,
	}
}

// listGroups lists the failure groups, the largest first. For a period, it lists the groups with
// the first failure before the end, and the last failure after the beginning, of the period.
func (a *app) listGroups(
	ctx context.Context, client *qless.Client, limit int, times selection.TimeFlags,
) error {
	groups, err := inspect.New(client).FailureGroups(ctx)
	if err != nil {
		return err
	}
	if err := a.dropOthers(ctx, client, groups, times); err != nil {
		return err
	}
	names := slices.SortedFunc(maps.Keys(groups), func(x, y string) int {
		return cmp.Or(groups[y]-groups[x], cmp.Compare(x, y))
	})
	shown := out.Part(names, &out.RangeFlags{Limit: limit})
	maps.DeleteFunc(groups, func(name string, _ int) bool { return !slices.Contains(shown, name) })
	err = a.Print(groups, func() *out.Table {
		t := out.NewTable("GROUP  JOBS", "no failed jobs")
		for _, name := range shown {
			t.Add(out.Paint(name, out.Red), groups[name])
		}
		return t
	})
	a.Footer(len(shown), len(names), "group")
	return err
}

// dropOthers removes the groups without failures in a period.
func (a *app) dropOthers(
	ctx context.Context, client *qless.Client, groups map[string]int, times selection.TimeFlags,
) error {
	period, err := times.Period()
	if err != nil || times == (selection.TimeFlags{}) {
		return err
	}
	for name, jobs := range groups {
		a.Watch.Restart()
		failed := inspect.New(client).Failed(name)
		last, err := failed.List(ctx, inspect.Range{Limit: 1})
		if err != nil {
			return err
		}
		first, err := failed.List(ctx, inspect.Range{Offset: max(0, jobs-1), Limit: 1})
		if err != nil {
			return err
		}
		ends := slices.Concat(first.Items, last.Items)
		if len(ends) == 0 || !period.Overlaps(ends[0].Since, ends[len(ends)-1].Since) {
			delete(groups, name)
		}
	}
	return nil
}

func (a *app) failedShowCommand() *cobra.Command {
	var limit int
	command := &cobra.Command{
		Use:   "show GROUP",
		Short: "Show the klasses of the failed jobs of a group, and why they failed",
		RunE: a.Run(func(ctx context.Context, client *qless.Client, args []string) error {
			return a.showGroup(ctx, client, args[0], limit)
		}),
	}
	command.Flags().IntVar(&limit, "limit", 1000,
		"number of latest jobs to read, -1 for all")
	return command
}

func (a *app) showGroup(
	ctx context.Context, client *qless.Client, name string, limit int,
) error {
	summary, err := inspect.New(client).Failures(ctx, name, limit)
	if err != nil {
		return err
	}
	if summary.Total == 0 {
		return out.NotFound("group", name)
	}
	err = a.Print(summary, func() *out.Table {
		t := out.NewTable("KLASS  JOBS  FIRST  LAST  SAMPLE  MESSAGE", "")
		for _, k := range summary.Klasses {
			t.Add(k.Klass, k.Count, out.Since(k.First), out.Since(k.Last), out.Dash(k.Sample), k.Message)
		}
		return t
	})
	a.Footer(summary.Examined, summary.Total, "job")
	return err
}

// repairFlags select the failed jobs of a group.
type repairFlags struct {
	limit int
	times selection.TimeFlags
}

func (f *repairFlags) add(command *cobra.Command) {
	f.times.Add(command, "failures")
	command.Flags().IntVar(&f.limit, "limit", -1,
		"maximum number of jobs, the oldest failures first, -1 for all")
}

func (a *app) failedUnfailCommand() *cobra.Command {
	var flags repairFlags
	var options unfailFlags
	command := &cobra.Command{
		Use:   "unfail GROUP...",
		Short: "Put the failed jobs of groups back into their queues",
		RunE: a.Run(func(ctx context.Context, client *qless.Client, args []string) error {
			return a.repairGroups(ctx, client, args, flags, unfail(options.options))
		}),
	}
	flags.add(command)
	options.add(command)
	return command
}

func (a *app) failedCancelCommand() *cobra.Command {
	var flags repairFlags
	command := &cobra.Command{
		Use:   "cancel GROUP...",
		Short: "Delete the failed jobs of groups",
		RunE: a.Run(func(ctx context.Context, client *qless.Client, args []string) error {
			return a.repairGroups(ctx, client, args, flags, cancel)
		}),
	}
	flags.add(command)
	return command
}

// repairGroups changes the failed jobs of groups, the oldest first: at most limit jobs, or all that
// exist at the beginning.
func (a *app) repairGroups(
	ctx context.Context, client *qless.Client, args []string, flags repairFlags, c selection.Change,
) error {
	names, err := a.Names(args)
	if err != nil {
		return err
	}
	groups, err := inspect.New(client).FailureGroups(ctx)
	if err != nil {
		return err
	}
	limit := flags.limit
	counts, total := make([]int, len(names)), 0
	for i, name := range names {
		if counts[i] = groups[name]; groups[name] == 0 {
			return out.NotFound("group", name)
		}
		if limit >= 0 {
			counts[i] = min(counts[i], limit-total)
		}
		total += counts[i]
	}
	if flags.times != (selection.TimeFlags{}) {
		c.Confirmed = true
		return a.repairInTime(ctx, client, names, flags, c)
	}
	if goOn, err := a.Confirm(c.Sentence(total)); !goOn {
		return err
	}
	sum := inspect.Repair{Reasons: map[string]*qless.Error{}}
	for i, name := range names {
		if counts[i] == 0 {
			break
		}
		var done inspect.Repair
		failed := inspect.New(client).Failed(name).AtMost(counts[i])
		done, err = c.Repair(ctx, a.Console, failed, counts[i])
		sum.Changed, sum.Unchanged = sum.Changed+done.Changed, sum.Unchanged+done.Unchanged
		maps.Copy(sum.Reasons, done.Reasons)
		if err != nil {
			break
		}
	}
	if reported := c.Report(a.Console, sum); err == nil {
		err = reported
	}
	return err
}

// repairInTime changes the jobs of groups that failed in a period.
func (a *app) repairInTime(
	ctx context.Context, client *qless.Client, groups []string, flags repairFlags, c selection.Change,
) error {
	var jids []string
	for _, group := range groups {
		limit := flags.limit
		if limit >= 0 {
			if limit -= len(jids); limit <= 0 {
				break
			}
		}
		asked := inGroup(group, flags.times, limit)
		found, err := asked.Find(ctx, a.Console, client)
		if err != nil {
			return err
		}
		for i := range found.Items {
			jids = append(jids, found.Items[i].JID)
		}
	}
	return c.Of(ctx, a.Console, client, jids)
}
