package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

func (a *app) scheduleCommand() *cobra.Command {
	return group("schedule", "Show the schedules of workers, and run them now",
		a.scheduleListCommand(), a.scheduleShowCommand(), a.scheduleRunCommand(),
		a.scheduleForgetCommand())
}

func (a *app) scheduleListCommand() *cobra.Command {
	var flags rangeFlags
	command := &cobra.Command{
		Use:   "ls",
		Short: "List the schedules that workers have registered",
		Example: "  qless schedule ls\n" +
			"  qless schedule ls --json | jq '.items[] | select(.followers == [])'",
		Args: cobra.NoArgs,
		RunE: a.run(func(ctx context.Context, client *qless.Client, _ []string) error {
			page, err := inspect.New(client).Schedules(ctx, flags.get())
			if err != nil {
				return err
			}
			err = a.print(page, func() *table { return schedulesTable(page.Items) })
			a.footer(len(page.Items), page.Total, "schedule")
			return err
		}),
	}
	flags.add(command)
	return command
}

func schedulesTable(schedules []inspect.ScheduleInfo) *table {
	t := &table{
		header: []string{
			"ID", "SPEC", "KLASS", "QUEUE", "LAST", "NEXT", "OVERDUE", "MISSED", "WORKERS",
		},
		empty: "no schedules",
	}
	for _, s := range schedules {
		t.add(s.ID, specOf(s), s.Klass, s.Queue, since(s.Last), since(s.Next), alarming(s.Overdue),
			s.Missed, followers(len(s.Followers)))
	}
	return t
}

func specOf(s inspect.ScheduleInfo) string {
	if s.Zone == "" || s.Zone == "UTC" {
		return s.When
	}
	return s.When + " (" + s.Zone + ")"
}

func followers(n int) any {
	if n == 0 {
		return painted{"0", red}
	}
	return n
}

func (a *app) scheduleShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show a schedule, and the workers that follow it",
		Example: "  qless schedule show nightly\n" +
			"  qless schedule show nightly --json | jq .next",
		Args:              cobra.ExactArgs(1),
		RunE:              a.run(a.showSchedule),
		ValidArgsFunction: a.completeEach(schedulesKnown),
	}
}

func (a *app) showSchedule(ctx context.Context, client *qless.Client, args []string) error {
	s, err := inspect.New(client).Schedule(ctx, args[0])
	if err != nil {
		return err
	}
	err = a.print(s, func() *table {
		t := &table{}
		t.add("id", s.ID)
		t.add("spec", specOf(*s))
		t.add("klass", s.Klass)
		t.add("queue", s.Queue)
		t.add("last", at(s.Last))
		t.add("last jid", dash(s.LastJID))
		t.add("next", at(s.Next))
		t.add("overdue", alarming(s.Overdue))
		t.add("missed", s.Missed)
		t.add("on missed", s.OnMissed)
		t.add("registered", at(s.Since))
		for _, f := range s.Followers {
			text := fmt.Sprintf("%s, seen %s", f.Worker, since(f.Seen))
			if f.Differs {
				text += ", with another schedule of this id"
			}
			t.add("worker", text)
		}
		if len(s.Followers) == 0 {
			t.add("worker", painted{"none: no jobs are put", red})
		}
		return t
	})
	if err == nil && !a.json {
		a.block("data", indented(s.Data))
	}
	return err
}

func (a *app) scheduleRunCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "run ID",
		Short:   "Put a job of a schedule now, in addition to the others",
		Example: "  qless schedule run nightly",
		Args:    cobra.ExactArgs(1),
		RunE: a.run(func(ctx context.Context, client *qless.Client, args []string) error {
			s, err := inspect.New(client).Schedule(ctx, args[0])
			if err != nil {
				return err
			}
			if !a.goOn("put a job of klass %s into %s", s.Klass, s.Queue) {
				return nil
			}
			jid, err := inspect.New(client).RunSchedule(ctx, s.ID)
			if err != nil {
				return err
			}
			return a.printJID(jid)
		}),
		ValidArgsFunction: a.completeEach(schedulesKnown),
	}
}

func (a *app) scheduleForgetCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "forget ID...",
		Short:   "Remove schedules that no worker follows",
		Example: "  qless schedule forget nightly",
		Args:    cobra.MinimumNArgs(1),
		RunE: a.run(each(a.console, "forget", "forgot", "schedule", true,
			func(ctx context.Context, client *qless.Client, id string) error {
				return inspect.New(client).ForgetSchedule(ctx, id)
			})),
		ValidArgsFunction: a.completeNames(schedulesKnown),
	}
}
