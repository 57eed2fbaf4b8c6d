package queues

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/selection"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/units"
)

func (a *app) queueStatsCommand() *cobra.Command {
	var day string
	command := &cobra.Command{
		Use:   "stats [QUEUE...]",
		Short: "Show how long the jobs of a day waited and ran, and how many failed",
		RunE: a.Run(func(ctx context.Context, client *qless.Client, args []string) error {
			return a.queueStats(ctx, client, args, day)
		}),
	}
	command.Flags().StringVar(&day, "day", "", "a day in UTC, as in 2026-11-21 (default today)")
	return command
}

// queueStats are the statistics of a queue.
type queueStats struct {
	Queue string `json:"queue"`
	qless.Stats
}

func (a *app) queueStats(
	ctx context.Context, client *qless.Client, args []string, day string,
) error {
	at := out.Now()
	if day != "" {
		var err error
		if at, err = time.Parse(time.DateOnly, day); err != nil {
			return out.Error(fmt.Errorf("--day %s is not a day such as 2026-11-21", day))
		}
	}
	names, err := selection.QueueNames(ctx, a.Console, client, args)
	if err != nil {
		return err
	}
	all := []queueStats{}
	for _, name := range names {
		stats, err := client.Queue(name).Stats(ctx, at)
		if err != nil {
			return err
		}
		all = append(all, queueStats{name, stats})
	}
	return a.Print(all, func() *out.Table { return statsTable(all) })
}

func statsTable(all []queueStats) *out.Table {
	t := out.NewTable(
		"QUEUE  POPPED  WAITED  COMPLETED  RAN  FAILURES  STILL FAILED  LOST LOCKS  EXPIRED",
		"no queues")
	for _, s := range all {
		t.Add(s.Queue, s.Wait.Count, out.Elapsed(s.Wait.Mean), s.Run.Count, out.Elapsed(s.Run.Mean),
			s.Failures, out.Alarming(s.Failed), s.Retries, s.Expired)
	}
	return t
}

func (a *app) queueHistoryCommand() *cobra.Command {
	var days int
	var times selection.TimeFlags
	command := &cobra.Command{
		Use:   "history QUEUE",
		Short: "Show the statistics of a queue by day, or its figures over time",
		RunE: a.Run(func(ctx context.Context, client *qless.Client, args []string) error {
			if times != (selection.TimeFlags{}) {
				return a.queueFigures(ctx, client, args[0], times)
			}
			return a.queueHistory(ctx, client, args[0], days)
		}),
	}
	command.Flags().IntVar(&days, "days", 7, "number of days, up to today")
	times.Add(command, "figures")
	return command
}

func (a *app) queueFigures(
	ctx context.Context, client *qless.Client, queue string, times selection.TimeFlags,
) error {
	period, err := times.Period()
	if err != nil {
		return err
	}
	all, err := inspect.New(client).History(ctx, inspect.HistoryQuery{
		From: period.Since, To: period.Until, Queues: []string{queue},
	})
	if err != nil {
		return err
	}
	history := all[1]
	if history.Known < history.Period {
		a.Say("%s of %s are known", units.Duration(history.Known), units.Duration(history.Period))
	}
	return a.Print(history, func() *out.Table {
		t := out.NewTable(
			"TIME  WAITING  OLDEST  RUNNING  WORKERS  FAILED", "nothing is known of this time")
		for _, p := range history.Points {
			if p.Known > 0 {
				t.Add(p.Time.UTC().Format("2006-01-02 15:04"), p.Waiting, out.Elapsed(p.Oldest), p.Running,
					p.Workers, out.Alarming(p.Failed))
			}
		}
		return t
	})
}

// A queueDay holds the statistics of a queue for a day.
type queueDay struct {
	Day string `json:"day"`
	qless.Stats
}

// maxDays is the maximum number of days of a history.
const maxDays = 366

func (a *app) queueHistory(
	ctx context.Context, client *qless.Client, queue string, days int,
) error {
	if days < 1 || days > maxDays {
		return out.Error(fmt.Errorf("--days %d is not from 1 to %d", days, maxDays))
	}
	all := []queueDay{}
	for i := range days {
		a.Watch.Restart()
		at := out.Now().UTC().AddDate(0, 0, i+1-days)
		stats, err := client.Queue(queue).Stats(ctx, at)
		if err != nil {
			return err
		}
		all = append(all, queueDay{at.Format(time.DateOnly), stats})
	}
	return a.Print(all, func() *out.Table {
		rows := make([]queueStats, len(all))
		for i, day := range all {
			rows[i] = queueStats{day.Day, day.Stats}
		}
		t := statsTable(rows)
		t.Header[0] = "DAY"
		return t
	})
}
