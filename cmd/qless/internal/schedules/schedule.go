package schedules

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/selection"
	"github.com/qless/qless-go/cmd/qless/internal/usage"
	"github.com/qless/qless-go/inspect"
)

func (a *app) scheduleCommand() *cobra.Command {
	return usage.Group("schedule", "Show the schedules of workers, and run them now",
		a.scheduleListCommand(), a.scheduleShowCommand(), a.scheduleRunCommand(),
		a.scheduleForgetCommand())
}

func (a *app) scheduleListCommand() *cobra.Command {
	var flags out.RangeFlags
	command := &cobra.Command{
		Use:   "ls",
		Short: "List the schedules that workers have registered",
		RunE: a.Run(func(ctx context.Context, client *qless.Client, _ []string) error {
			page, err := inspect.New(client).Schedules(ctx, flags.Get())
			if err != nil {
				return err
			}
			err = a.Print(page, func() *out.Table { return schedulesTable(page.Items) })
			a.Footer(len(page.Items), page.Total, "schedule")
			return err
		}),
	}
	flags.Add(command)
	return command
}

func schedulesTable(schedules []inspect.ScheduleInfo) *out.Table {
	t := out.NewTable(
		"ID  SPEC  KLASS  QUEUE  LAST  NEXT  OVERDUE  MISSED  WORKERS", "no schedules")
	for _, s := range schedules {
		t.Add(s.ID, specOf(s), s.Klass, s.Queue, out.Since(s.Last), out.Since(s.Next),
			out.Alarming(s.Overdue), s.Missed, followers(len(s.Followers)))
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
		return out.Paint("0", out.Red)
	}
	return n
}

func (a *app) scheduleShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show a schedule, and the workers that follow it",
		RunE:  a.Run(a.showSchedule),
	}
}

func (a *app) showSchedule(ctx context.Context, client *qless.Client, args []string) error {
	s, err := inspect.New(client).Schedule(ctx, args[0])
	if err != nil {
		return err
	}
	err = a.Print(s, func() *out.Table {
		t := &out.Table{}
		t.Add("id", s.ID)
		t.Add("spec", specOf(*s))
		t.Add("klass", s.Klass)
		t.Add("queue", s.Queue)
		t.Add("last", out.At(s.Last))
		t.Add("last jid", out.Dash(s.LastJID))
		t.Add("next", out.At(s.Next))
		t.Add("overdue", out.Alarming(s.Overdue))
		t.Add("missed", s.Missed)
		t.Add("on missed", s.OnMissed)
		t.Add("registered", out.At(s.Since))
		for _, f := range s.Followers {
			text := fmt.Sprintf("%s, seen %s", f.Worker, out.Since(f.Seen))
			if f.Differs {
				text += ", with another schedule of this id"
			}
			t.Add("worker", text)
		}
		if len(s.Followers) == 0 {
			t.Add("worker", out.Paint("none: no jobs are put", out.Red))
		}
		return t
	})
	if err == nil && !a.JSON {
		a.Block("data", out.Indented(s.Data))
	}
	return err
}

func (a *app) scheduleRunCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "run ID",
		Short: "Put a job of a schedule now",
		RunE: a.Run(func(ctx context.Context, client *qless.Client, args []string) error {
			s, err := inspect.New(client).Schedule(ctx, args[0])
			if err != nil {
				return err
			}
			if !a.GoOn("put a job of klass %s into %s", s.Klass, s.Queue) {
				return nil
			}
			return a.PrintJID(inspect.New(client).RunSchedule(ctx, s.ID))
		}),
	}
}

func (a *app) scheduleForgetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "forget ID...",
		Short: "Remove schedules that no worker follows",
		RunE: a.Run(selection.Each(a.Console, "forget", "forgot", "schedule", true,
			func(ctx context.Context, client *qless.Client, id string) error {
				return inspect.New(client).ForgetSchedule(ctx, id)
			})),
	}
}
