package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

func (a *app) workerCommand() *cobra.Command {
	return group("worker", "Show workers and what they run",
		a.workerListCommand(), a.workerShowCommand(), a.workerForgetCommand())
}

func (a *app) workerListCommand() *cobra.Command {
	var flags rangeFlags
	command := &cobra.Command{
		Use:   "ls",
		Short: "List the workers seen recently, the latest first",
		Example: "  qless worker ls\n" +
			"  qless worker ls --json | jq '.[] | select(.stalled > 0).name'",
		Args: cobra.NoArgs,
		RunE: a.run(func(ctx context.Context, client *qless.Client, _ []string) error {
			workers, err := inspect.New(client).Workers(ctx)
			if err != nil {
				return err
			}
			shown := part(workers, &flags)
			err = a.print(shown, func() *table { return workersTable(shown) })
			a.footer(len(shown), len(workers), "worker")
			return err
		}),
	}
	flags.addToWhole(command)
	return command
}

func workersTable(workers []inspect.WorkerStatus) *table {
	t := &table{
		header: []string{"WORKER", "STATE", "JOBS", "SLOTS", "STALLED", "SEEN", "QUEUES"},
		empty:  "no workers",
	}
	for _, w := range workers {
		slots, seen, queues := "-", "-", "-"
		if i := cmp.Or(w.Info, w.Gone); i != nil {
			slots, seen, queues = fmt.Sprint(i.Slots), since(i.Seen), list(i.Queues)
		}
		t.add(w.Name, workerState(&w), w.Jobs, slots, alarming(w.Stalled), seen, queues)
	}
	return t
}

func workerState(w *inspect.WorkerStatus) any {
	switch {
	case w.Gone != nil:
		return painted{"gone", red}
	case w.Info == nil:
		return "-"
	case w.Info.Stopping:
		return painted{"stopping", yellow}
	case w.Info.Paused:
		return painted{"paused", yellow}
	}
	return "running"
}

func (a *app) workerShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show WORKER",
		Short: "Show a worker, and the jobs that it holds",
		Example: "  qless worker show host-17-ab12cd\n" +
			"  qless worker show host-17-ab12cd --jids | qless job timeout - --yes",
		Args:              cobra.ExactArgs(1),
		RunE:              a.run(a.showWorker),
		ValidArgsFunction: a.completeEach(workersKnown),
	}
}

// workerDetails are the counts of a worker and the jobs that it holds.
type workerDetails struct {
	inspect.WorkerStatus
	Holds []*qless.Job `json:"holds"`
}

func (a *app) showWorker(ctx context.Context, client *qless.Client, args []string) error {
	name := args[0]
	workers, err := inspect.New(client).Workers(ctx)
	if err != nil {
		return err
	}
	details := workerDetails{WorkerStatus: inspect.WorkerStatus{Name: name}, Holds: []*qless.Job{}}
	for job, err := range inspect.New(client).HeldBy(name).Jobs(ctx) {
		if err != nil {
			return err
		}
		details.Holds = append(details.Holds, job)
	}
	i := slices.IndexFunc(workers, func(w inspect.WorkerStatus) bool { return w.Name == name })
	switch {
	case i >= 0:
		details.WorkerStatus = workers[i]
	case len(details.Holds) == 0:
		return notFound("worker", name)
	default:
		details.Jobs = len(details.Holds)
	}
	return a.printWorker(details)
}

func (a *app) printWorker(d workerDetails) error {
	switch {
	case a.jids:
		return a.printFullJobs(d.Holds)
	case a.json:
		return a.print(d, nil)
	}
	t := &table{}
	t.add("worker", d.Name)
	t.add("jobs", d.Jobs)
	t.add("stalled", alarming(d.Stalled))
	if i := cmp.Or(d.Info, d.Gone); i != nil {
		t.add("state", workerState(&d.WorkerStatus))
		t.add("slots", i.Slots)
		t.add("queues", list(i.Queues))
		t.add("klasses", list(i.Klasses))
		t.add("runs on", fmt.Sprintf("%s, process %d", i.Host, i.PID))
		t.add("written in", strings.TrimSpace(i.Language+" "+i.Version))
		t.add("started", at(i.Started))
		t.add("seen", at(i.Seen))
	}
	if err := t.write(a.out); err != nil || len(d.Holds) == 0 {
		return err
	}
	fmt.Fprintln(a.out)
	t = &table{header: []string{"JID", "KLASS", "QUEUE", "STATE", "LOCK ENDS", "PROGRESS"}}
	for _, job := range d.Holds {
		progress := "-"
		if job.Progress != nil {
			progress = progressText(job.Progress)
		}
		t.add(job.JID, job.Klass, job.Queue, paintedState(job.State),
			since(job.Expires), progress)
	}
	return t.write(a.out)
}

func (a *app) workerForgetCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "forget WORKER...",
		Short:   "Remove workers from the list; they keep their locks, and come back if they run",
		Example: "  qless worker forget host-17-ab12cd --yes",
		Args:    cobra.MinimumNArgs(1),
		RunE: a.run(each(a.console, "forget", "forgot", "worker", true,
			func(ctx context.Context, client *qless.Client, name string) error {
				return inspect.New(client).ForgetWorkers(ctx, name)
			})),
		ValidArgsFunction: a.completeNames(workersKnown),
	}
}
