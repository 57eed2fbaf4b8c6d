package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/units"
)

func (a *app) queueCommand() *cobra.Command {
	return group("queue", "Show and change queues",
		a.queueListCommand(), a.queueShowCommand(), a.queueStatsCommand(),
		a.queueHistoryCommand(), a.queuePeekCommand(), a.queuePauseCommand(),
		a.queueResumeCommand(), a.queueForgetCommand(), a.queueMoveCommand(),
		a.queueWaitCommand())
}

func (a *app) queueListCommand() *cobra.Command {
	var part rangeFlags
	command := &cobra.Command{
		Use:   "ls",
		Short: "List the queues and the numbers of their jobs",
		Example: "  qless queue ls\n  qless queue ls --json | jq '.[] | select(.paused)'\n" +
			"  qless queue ls --namespace '{mail-*}:ql:'",
		Args: cobra.NoArgs,
		RunE: a.runEither(func(ctx context.Context, client *qless.Client, _ []string) error {
			return a.listQueues(ctx, client, &part)
		}, func(ctx context.Context, clients []*qless.Client) error {
			return a.listSums(ctx, clients, &part)
		}),
	}
	part.addToWhole(command)
	return command
}

// queueRow is a queue with the waiting times of its jobs, which are nil if one of its keys is
// damaged.
type queueRow struct {
	qless.QueueCounts
	Latency *inspect.Latency `json:"latency"`
}

// oldest returns the wait of the oldest job.
func (r *queueRow) oldest() any {
	if r.Latency == nil {
		return painted{"?", red}
	}
	return elapsed(r.Latency.Oldest)
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

// latencyOf reads the waiting times of a queue. They are nil if one of its keys is damaged.
func latencyOf(
	ctx context.Context, client *qless.Client, queue string,
) (*inspect.Latency, error) {
	latency, err := inspect.New(client).Latency(ctx, queue)
	if redisx.IsDamage(err) {
		return nil, nil
	}
	return &latency, err
}

// damageOf returns an error that names the damaged keys of the queues, or nil. Figures that can't
// be read become -1.
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
	return damage(seen.Damaged)
}

func (a *app) listQueues(ctx context.Context, client *qless.Client, f *rangeFlags) error {
	queues, err := client.Queues(ctx)
	if err != nil {
		return err
	}
	shown, err := withLatencies(ctx, client, part(queues, f))
	if err != nil {
		return err
	}
	damaged := damageOf(ctx, client, shown)
	err = a.print(shown, func() *table {
		t := &table{
			header: []string{
				"QUEUE", "WAITING", "RUNNING", "STALLED", "SCHEDULED", "DEPENDS", "RECURRING",
				"OLDEST", "STATE",
			},
			empty: "no queues",
		}
		if len(queues) == 0 {
			t.empty = noQueues(ctx, client)
		}
		for _, q := range shown {
			t.add(q.Name, known(q.Waiting), known(q.Running), alarming(q.Stalled), known(q.Scheduled),
				known(q.Depends), known(q.Recurring), q.oldest(), openOrPaused(q.Paused))
		}
		return t
	})
	if err == nil && len(shown) < len(queues) {
		a.footer(len(shown), len(queues), "queue")
	}
	return errors.Join(err, damaged)
}

func (a *app) queueShowCommand() *cobra.Command {
	return a.again(&cobra.Command{
		Use:   "show QUEUE...",
		Short: "Show the counts, the latency and the settings of queues",
		Example: "  qless queue show mail\n" +
			"  qless queue show mail --json | jq .latency.oldest",
		Args:              cobra.MinimumNArgs(1),
		RunE:              a.run(a.showQueues),
		ValidArgsFunction: a.completeNames(queuesKnown),
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
	names, err := a.names(args)
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
	err = errors.Join(a.printQueues(queues, len(names) == 1), damaged)
	if err != nil || len(gone) == 0 {
		return err
	}
	return notFound("queue", gone...)
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

func (a *app) printQueues(queues []queueDetails, single bool) error {
	switch {
	case single && len(queues) == 0:
		return nil
	case a.json && single:
		return a.print(queues[0], nil)
	case a.json:
		return a.print(queues, nil)
	}
	for i, q := range queues {
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		if err := q.table().write(a.out); err != nil {
			return err
		}
	}
	return nil
}

func (d queueDetails) table() *table {
	t := &table{}
	t.add("queue", d.Name)
	t.add("state", openOrPaused(d.Paused))
	t.add("waiting", known(d.Waiting))
	t.add("running", known(d.Running))
	t.add("stalled", alarming(d.Stalled))
	t.add("scheduled", known(d.Scheduled))
	t.add("depends", known(d.Depends))
	t.add("recurring", known(d.Recurring))
	t.add("oldest waits for", d.oldest())
	if d.Latency != nil {
		if len(d.Latency.ByPriority) > 1 {
			for _, p := range d.Latency.ByPriority {
				t.add(fmt.Sprintf("  of priority %d", p.Priority), elapsed(p.Oldest))
			}
		}
		t.add("next due", since(d.Latency.NextDue))
	}
	t.add("locks last", units.Duration(inSeconds(d.Heartbeat)))
	if d.MaxConcurrency > 0 {
		t.add("runs at most", d.MaxConcurrency)
	}
	if d.MaxRate > 0 {
		per := units.Duration(inSeconds(d.MaxRatePer))
		t.add("starts at most", fmt.Sprintf("%d in %s", d.MaxRate, per))
	}
	return t
}

func inSeconds(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second))
}

func (a *app) queuePeekCommand() *cobra.Command {
	var limit int
	command := &cobra.Command{
		Use:     "peek QUEUE",
		Short:   "Print the next jobs of a queue, without taking them",
		Example: "  qless queue peek mail\n  qless queue peek mail --limit 1 --json",
		Args:    cobra.ExactArgs(1),
		RunE: a.run(func(ctx context.Context, client *qless.Client, args []string) error {
			jobs, err := client.Queue(args[0]).Peek(ctx, limit)
			if err != nil {
				return err
			}
			return a.printFullJobs(jobs)
		}),
		ValidArgsFunction: a.completeEach(queuesKnown),
	}
	command.Flags().IntVar(&limit, "limit", 10, "maximum number to print")
	return command
}

// noQueues returns a message for a namespace without queues, which names other namespaces.
func noQueues(ctx context.Context, client *qless.Client) string {
	if others := otherSpaces(ctx, client); others != "" {
		return "no queues here" + others
	}
	return "no queues"
}

// listSums lists the queues of several namespaces, summed up by name.
func (a *app) listSums(ctx context.Context, clients []*qless.Client, f *rangeFlags) error {
	sums, damaged := queueSums{}, []inspect.DamagedKey(nil)
	const all = 1 << 30
	unread := readSpaces(ctx, clients,
		func(ctx context.Context, client *qless.Client) (inspect.Overview, error) {
			return inspect.New(client).Overview(ctx, inspect.OverviewQuery{Queues: all})
		}, func(namespace string, seen inspect.Overview) {
			for i := range seen.Queues {
				sums.of(seen.Queues[i].Name).add(namespace, &seen.Queues[i])
			}
			damaged = append(damaged, seen.Damaged...)
		})
	queues := sums.sorted()
	shown := part(queues, f)
	err := a.print(shown, func() *table {
		t := &table{header: []string{
			"QUEUE", "NAMESPACES", "WAITING", "RUNNING", "STALLED", "SCHEDULED", "DEPENDS",
			"RECURRING", "OLDEST", "STATE", "OLDEST IN",
		}, empty: "no queues"}
		for _, q := range shown {
			t.add(q.Name, q.Namespaces, q.Waiting, q.Running, alarming(q.Stalled), q.Scheduled,
				q.Depends, q.Recurring, elapsed(time.Duration(q.Oldest)), q.state(), dash(q.OldestIn))
		}
		return t
	})
	if err == nil && len(shown) < len(queues) {
		a.footer(len(shown), len(queues), "queue")
	}
	return errors.Join(err, damage(damaged), unreadError(unread))
}
