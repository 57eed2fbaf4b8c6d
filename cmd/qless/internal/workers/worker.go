package workers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/place"
	"github.com/qless/qless-go/cmd/qless/internal/selection"
	"github.com/qless/qless-go/cmd/qless/internal/usage"
	"github.com/qless/qless-go/inspect"
)

// Commands returns the commands of this package.
func Commands(p *place.Place) []*cobra.Command {
	a := &app{p}
	return []*cobra.Command{a.workerCommand(), a.limitCommand()}
}

func (a *app) workerCommand() *cobra.Command {
	return usage.Group("worker", "Show workers and what they run",
		a.workerListCommand(), a.workerShowCommand(), a.workerForgetCommand())
}

func (a *app) workerListCommand() *cobra.Command {
	var flags out.RangeFlags
	command := &cobra.Command{
		Use:   "ls",
		Short: "List the workers seen recently, the latest first",
		RunE: a.Run(func(ctx context.Context, client *qless.Client, _ []string) error {
			workers, err := inspect.New(client).Workers(ctx)
			if err != nil {
				return err
			}
			shown := out.Part(workers, &flags)
			err = a.Print(shown, func() *out.Table { return workersTable(shown) })
			a.Footer(len(shown), len(workers), "worker")
			return err
		}),
	}
	flags.AddToWhole(command)
	return command
}

func workersTable(workers []inspect.WorkerStatus) *out.Table {
	t := out.NewTable("WORKER  STATE  JOBS  SLOTS  STALLED  SEEN  QUEUES", "no workers")
	for _, w := range workers {
		slots, seen, queues := "-", "-", "-"
		if i := cmp.Or(w.Info, w.Gone); i != nil {
			slots, seen, queues = fmt.Sprint(i.Slots), out.Since(i.Seen), out.List(i.Queues)
		}
		t.Add(w.Name, workerState(&w), w.Jobs, slots, out.Alarming(w.Stalled), seen, queues)
	}
	return t
}

func workerState(w *inspect.WorkerStatus) any {
	switch {
	case w.Gone != nil:
		return out.Paint("gone", out.Red)
	case w.Info == nil:
		return "-"
	case w.Info.Stopping:
		return out.Paint("stopping", out.Yellow)
	case w.Info.Paused:
		return out.Paint("paused", out.Yellow)
	}
	return "running"
}

func (a *app) workerShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show WORKER",
		Short: "Show a worker, and the jobs that it holds",
		RunE:  a.Run(a.showWorker),
	}
}

// workerDetails are the counts of a worker and the jobs held by the worker.
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
		return out.NotFound("worker", name)
	default:
		details.Jobs = len(details.Holds)
	}
	return a.printWorker(details)
}

func (a *app) printWorker(d workerDetails) error {
	switch {
	case a.JIDs:
		return a.PrintFullJobs(d.Holds)
	case a.JSON:
		return a.Print(d, nil)
	}
	t := &out.Table{}
	t.Add("worker", d.Name)
	t.Add("jobs", d.Jobs)
	t.Add("stalled", out.Alarming(d.Stalled))
	if i := cmp.Or(d.Info, d.Gone); i != nil {
		t.Add("state", workerState(&d.WorkerStatus))
		t.Add("slots", i.Slots)
		t.Add("queues", out.List(i.Queues))
		t.Add("klasses", out.List(i.Klasses))
		t.Add("runs on", fmt.Sprintf("%s, process %d", i.Host, i.PID))
		t.Add("written in", strings.TrimSpace(i.Language+" "+i.Version))
		t.Add("started", out.At(i.Started))
		t.Add("seen", out.At(i.Seen))
	}
	if err := t.Write(a.Out); err != nil || len(d.Holds) == 0 {
		return err
	}
	fmt.Fprintln(a.Out)
	t = out.NewTable("JID  KLASS  QUEUE  STATE  LOCK ENDS  PROGRESS", "")
	for _, job := range d.Holds {
		progress := "-"
		if job.Progress != nil {
			progress = out.ProgressText(job.Progress)
		}
		t.Add(job.JID, job.Klass, job.Queue, out.PaintedState(job.State),
			out.Since(job.Expires), progress)
	}
	return t.Write(a.Out)
}

func (a *app) workerForgetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "forget WORKER...",
		Short: "Remove workers from the list; they keep their locks, and come back if they run",
		RunE: a.Run(selection.Each(a.Console, "forget", "forgot", "worker", true,
			func(ctx context.Context, client *qless.Client, name string) error {
				return inspect.New(client).ForgetWorkers(ctx, name)
			})),
	}
}
