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
	"github.com/qless/qless-go/cmd/qless/internal/usage"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/units"
)

// Commands returns the commands of this package.
func Commands(p *place.Place) []*cobra.Command {
	a := &app{p}
	return []*cobra.Command{a.queueCommand(), a.sweepCommand()}
}

func (a *app) queueCommand() *cobra.Command {
	return usage.Group("queue", "Show and change queues",
		a.queueListCommand(), a.queueShowCommand(), a.queueStatsCommand(),
		a.queueHistoryCommand(), a.queuePeekCommand(), a.queuePauseCommand(),
		a.queueResumeCommand(), a.queueForgetCommand(), a.queueMoveCommand(),
		a.queueWaitCommand())
}

func (a *app) queueListCommand() *cobra.Command {
	var part out.RangeFlags
	command := &cobra.Command{
		Use:   "ls",
		Short: "List the queues and the numbers of their jobs",
		RunE: a.RunEither(func(ctx context.Context, client *qless.Client, _ []string) error {
			return a.listQueues(ctx, client, &part)
		}, func(ctx context.Context, clients []*qless.Client) error {
			return a.listSums(ctx, clients, &part)
		}),
	}
	part.AddToWhole(command)
	return command
}

// queueRow is a queue with its jobs' waiting times, which are nil if a key of the queue is damaged.
type queueRow struct {
	qless.QueueCounts
	Latency *inspect.Latency `json:"latency"`
}

// oldest returns the wait of the oldest job.
func (r *queueRow) oldest() any {
	if r.Latency == nil {
		return out.Paint("?", out.Red)
	}
	return out.Elapsed(r.Latency.Oldest)
}

// withLatencies reads the waiting times of queues.
func withLatencies(
	ctx context.Context, client *qless.Client, queues []qless.QueueCounts,
) ([]*queueRow, error) {
	rows := make([]*queueRow, len(queues))
	for i, counts := range queues {
		latency, err := latencyOf(ctx, client, counts.Name)
		if err != nil {
			return nil, err
		}
		rows[i] = &queueRow{counts, latency}
	}
	return rows, nil
}

// latencyOf reads the waiting times of a queue, or nil if a key of the queue is damaged.
func latencyOf(
	ctx context.Context, client *qless.Client, queue string,
) (*inspect.Latency, error) {
	latency, err := inspect.New(client).Latency(ctx, queue)
	if redisx.IsDamage(err) {
		return nil, nil
	}
	return &latency, err
}

// damageOf returns an error that names the damaged keys of the queues, or nil. Unreadable figures
// become -1.
func damageOf(ctx context.Context, client *qless.Client, rows []*queueRow) error {
	if !slices.ContainsFunc(rows, func(r *queueRow) bool { return r.Latency == nil }) {
		return nil
	}
	seen, err := inspect.New(client).Overview(ctx, inspect.OverviewQuery{})
	if err != nil {
		return err
	}
	for _, row := range rows {
		at := slices.IndexFunc(seen.Queues, func(q inspect.QueueOverview) bool {
			return q.Name == row.Name
		})
		if row.Latency != nil || at < 0 {
			continue
		}
		q := &seen.Queues[at]
		row.Waiting, row.Running, row.Stalled = q.Waiting, q.Running, q.Stalled
		row.Scheduled, row.Depends, row.Recurring = q.Scheduled, q.Depends, q.Recurring
	}
	return out.Damage(seen.Damaged)
}

func (a *app) listQueues(ctx context.Context, client *qless.Client, f *out.RangeFlags) error {
	queues, err := client.Queues(ctx)
	if err != nil {
		return err
	}
	shown, err := withLatencies(ctx, client, out.Part(queues, f))
	if err != nil {
		return err
	}
	damaged := damageOf(ctx, client, shown)
	err = a.Print(shown, func() *out.Table {
		t := out.NewTable(
			"QUEUE  WAITING  RUNNING  STALLED  SCHEDULED  DEPENDS  RECURRING  OLDEST  STATE",
			"no queues")
		if len(queues) == 0 {
			t.Empty = noQueues(ctx, client)
		}
		for _, q := range shown {
			t.Add(q.Name, out.Known(q.Waiting), out.Known(q.Running), out.Alarming(q.Stalled),
				out.Known(q.Scheduled), out.Known(q.Depends), out.Known(q.Recurring), q.oldest(),
				out.OpenOrPaused(q.Paused))
		}
		return t
	})
	if err == nil && len(shown) < len(queues) {
		a.Footer(len(shown), len(queues), "queue")
	}
	return errors.Join(err, damaged)
}

func (a *app) queueShowCommand() *cobra.Command {
	return a.Again(&cobra.Command{
		Use:   "show QUEUE...",
		Short: "Show the counts, the latency and the settings of queues",
		RunE:  a.Run(a.showQueues),
	})
}

// queueDetails are the counts and the settings of a queue. Durations are in seconds.
type queueDetails struct {
	queueRow
	Heartbeat      float64 `json:"heartbeat"`
	MaxConcurrency int     `json:"max_concurrency"`
	MaxRate        int     `json:"max_rate"`
	MaxRatePer     float64 `json:"max_rate_per,omitempty"`
}

func (a *app) showQueues(ctx context.Context, client *qless.Client, args []string) error {
	names, err := a.Names(args)
	if err != nil {
		return err
	}
	all, err := client.Queues(ctx)
	if err != nil {
		return err
	}
	queues := []queueDetails{}
	var gone []string
	for _, name := range names {
		at := slices.IndexFunc(all, func(q qless.QueueCounts) bool { return q.Name == name })
		if at < 0 {
			gone = append(gone, name)
			continue
		}
		details, err := detailsOf(ctx, client, all[at])
		if err != nil {
			return err
		}
		queues = append(queues, details)
	}
	rows := make([]*queueRow, len(queues))
	for i := range queues {
		rows[i] = &queues[i].queueRow
	}
	damaged := damageOf(ctx, client, rows)
	err = errors.Join(out.PrintEach(a.Console, queues, len(names) == 1,
		func(q queueDetails) error { return q.table().Write(a.Out) }), damaged)
	if err != nil {
		return err
	}
	return out.NotFound("queue", gone...)
}

func detailsOf(
	ctx context.Context, client *qless.Client, counts qless.QueueCounts,
) (d queueDetails, err error) {
	d.QueueCounts = counts
	if d.Latency, err = latencyOf(ctx, client, counts.Name); err != nil {
		return d, err
	}
	settings, err := client.Queue(counts.Name).Settings(ctx)
	d.Heartbeat, d.MaxConcurrency = settings.Heartbeat.Seconds(), settings.MaxConcurrency
	d.MaxRate, d.MaxRatePer = settings.MaxRate, settings.Per.Seconds()
	return d, err
}

func (d queueDetails) table() *out.Table {
	t := &out.Table{}
	t.Add("queue", d.Name)
	t.Add("state", out.OpenOrPaused(d.Paused))
	t.Add("waiting", out.Known(d.Waiting))
	t.Add("running", out.Known(d.Running))
	t.Add("stalled", out.Alarming(d.Stalled))
	t.Add("scheduled", out.Known(d.Scheduled))
	t.Add("depends", out.Known(d.Depends))
	t.Add("recurring", out.Known(d.Recurring))
	t.Add("oldest waits for", d.oldest())
	if d.Latency != nil {
		if len(d.Latency.ByPriority) > 1 {
			for _, p := range d.Latency.ByPriority {
				t.Add(fmt.Sprintf("  of priority %d", p.Priority), out.Elapsed(p.Oldest))
			}
		}
		t.Add("next due", out.Since(d.Latency.NextDue))
	}
	t.Add("locks last", units.Duration(inSeconds(d.Heartbeat)))
	if d.MaxConcurrency > 0 {
		t.Add("runs at most", d.MaxConcurrency)
	}
	if d.MaxRate > 0 {
		per := units.Duration(inSeconds(d.MaxRatePer))
		t.Add("starts at most", fmt.Sprintf("%d in %s", d.MaxRate, per))
	}
	return t
}

func inSeconds(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second))
}

func (a *app) queuePeekCommand() *cobra.Command {
	var limit int
	command := &cobra.Command{
		Use:   "peek QUEUE",
		Short: "Print the next jobs of a queue, without taking them",
		RunE: a.Run(func(ctx context.Context, client *qless.Client, args []string) error {
			jobs, err := client.Queue(args[0]).Peek(ctx, limit)
			if err != nil {
				return err
			}
			return a.PrintFullJobs(jobs)
		}),
	}
	command.Flags().IntVar(&limit, "limit", 10, "maximum number to print")
	return command
}

// noQueues returns a message for a namespace without queues, with the names of other namespaces.
func noQueues(ctx context.Context, client *qless.Client) string {
	if others := place.OtherSpaces(ctx, client); others != "" {
		return "no queues here" + others
	}
	return "no queues"
}

// listSums lists the queues of several namespaces, summed up by name.
func (a *app) listSums(ctx context.Context, clients []*qless.Client, f *out.RangeFlags) error {
	sums, damaged := place.QueueSums{}, []inspect.DamagedKey(nil)
	const all = 1 << 30
	unread := place.ReadSpaces(ctx, clients,
		func(ctx context.Context, client *qless.Client) (inspect.Overview, error) {
			return inspect.New(client).Overview(ctx, inspect.OverviewQuery{Queues: all})
		}, func(namespace string, seen inspect.Overview) {
			for i := range seen.Queues {
				sums.Of(seen.Queues[i].Name).Add(namespace, &seen.Queues[i])
			}
			damaged = append(damaged, seen.Damaged...)
		})
	queues := sums.Sorted()
	shown := out.Part(queues, f)
	err := a.Print(shown, func() *out.Table {
		t := out.NewTable("QUEUE  NAMESPACES  WAITING  RUNNING  STALLED  SCHEDULED  DEPENDS  "+
			"RECURRING  OLDEST  STATE  OLDEST IN", "no queues")
		for _, q := range shown {
			t.Add(q.Name, q.Namespaces, q.Waiting, q.Running, out.Alarming(q.Stalled), q.Scheduled,
				q.Depends, q.Recurring, out.Elapsed(time.Duration(q.Oldest)), q.State(), out.Dash(q.OldestIn))
		}
		return t
	})
	if err == nil && len(shown) < len(queues) {
		a.Footer(len(shown), len(queues), "queue")
	}
	return errors.Join(err, out.Damage(damaged), place.UnreadError(unread))
}
