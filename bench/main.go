// Bench compares this package with other job queues, and measures it at the scale of a fleet. For
// details, run go run . -h.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

func main() {
	log.SetFlags(log.Ltime)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := runMain(ctx, os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		log.Fatal(err)
	}
}

// runMain runs the workloads named in the arguments.
func runMain(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	b, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer b.close()
	var all []figure
	for i, name := range o.workloads {
		log.Print(name)
		w, r := workloads[workloadAt(name)], &report{workload: name, out: out, json: o.json}
		err := b.start(ctx, w)
		if err == nil && i == 0 {
			err = b.describe(ctx, out, args)
		}
		if err == nil {
			err = errors.Join(b.run(ctx, w, r), r.write()) // report the figures of a failed workload, too
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, r.figures...)
	}
	if o.chart != "" {
		return drawChart(o.chart, all)
	}
	return nil
}

// A workload measures one thing, either by groups of runs that are compared with each other or by a
// function. It has an empty server of its own.
type workload struct {
	name    string
	about   string
	peers   bool     // it measures more than scripts and servers
	counted bool     // it can be measured in instructions
	builds  bool     // it needs the programs of the gateways
	redis   []string // arguments of the server
	groups  func(b *bench) []group
	do      func(ctx context.Context, b *bench, r *report) error
}

// workloads are all workloads.
var workloads = []workload{
	{name: "ops", counted: true, groups: (*bench).opsGroup,
		about: `single commands, 100 per pipeline: put, pop(1), pop(10) (per job), heartbeat, complete,
and a pop that finds nothing; for our script also the worker's batches (per job). With
-instructions, also the worker's calls with one job and with none, and turn(16): reserve(16)
and finish(16) in turn, so that there are never more locks`},
	{name: "waiting", counted: true, groups: (*bench).waitingGroups,
		about: `put, pop(1), complete, counts, a put with a delay and, after that, pop(10), with -waiting
waiting jobs`},
	{name: "scheduled", counted: true, groups: (*bench).scheduledGroups,
		about: "the same with as many scheduled jobs"},
	{name: "kept", counted: true, groups: (*bench).keptGroups,
		about: `the same with -kept completed jobs; from 50000 on, each complete removes one`},
	{name: "extensions", counted: true, groups: (*bench).extensionsGroup,
		about: "the cost that each option of a job adds to put, reserve(16) and finish(16)"},
	{name: "job", counted: true, peers: true, groups: (*bench).jobGroups,
		about: `whole jobs with -concurrency goroutines and -payload bytes of JSON: all are put (enqueue),
then all are run (process); total is the sum`},
	{name: "pickup", peers: true, groups: (*bench).pickUpGroups,
		about: "from put to handler, one job at a time, with 1 and 16 idle workers"},
	{name: "single", counted: true, peers: true, groups: (*bench).singleGroups,
		about: `the usual state of a queue: -jobs one at a time, right after each other or 100 ms apart,
with 1, 8 and 64 idle workers of one queue, or of 20 queues each`},
	{name: "paced", peers: true, groups: (*bench).pacedGroups,
		about: `100, 1000 and 5000 jobs a second for one worker with ten slots, from put to done`},
	{name: "order", counted: true, groups: (*bench).orderGroups,
		about: `a backlog that one worker takes in strict order without reserving ahead, and with limits
that its slots use up; in strict order, round-robin and by weights; the last two also from 1000
queues; and at a limited rate`},
	{name: "rest", peers: true, groups: (*bench).restGroup,
		about: `the server's work per second with 16 idle workers, over -for ("job" means second)`},
	{name: "memory", peers: true, groups: (*bench).memoryGroup,
		about: "memory of a waiting job of 100 bytes, with and without hash-max-listpack-value 1024"},
	{name: "gateways", builds: true, groups: (*bench).gatewayGroups,
		redis: []string{"--appendonly", "yes"},
		about: `qless serve lmstfy, lmstfy's own server, which is built first, and qless serve workq:
-concurrency clients put, take and end jobs, and wait for jobs. Redis keeps an append-only file,
as lmstfy demands; client us/job is the CPU time of the gateway`},
	{name: "idle", do: idleFleets,
		about: `-workers that wait for one queue: their cost at rest, and the work that one job causes`},
	{name: "queues", do: queueFleets,
		about: "the same for 1 worker and for -workers that watch -queues by name, up to 1000"},
	{name: "tenants", do: tenantFleets,
		about: "the same for -workers in one process, with a namespace each"},
	{name: "newqueues", do: newQueues,
		about: `queues that appear one by one beside -queues others, with -workers that don't want them,
and with a tenth as many whose patterns match them`},
	{name: "states", do: states,
		about: "the memory of -jobs in each state"},
	{name: "bounds", do: bounds,
		about: `the longest script of each call, with -jobs waiting, as many failed, and -queues; fails
if a script takes more than 10 ms`},
	{name: "pages", do: pages,
		about: `each page of the dashboard, with -jobs (a quarter each waiting, scheduled, failed and
completed), a failure group per 100 jobs, -queues, and busy -workers`},
	{name: "load", do: loadOnce,
		about: `the script, sent to a server that lacks it by one client, and by -workers at once`},
	{name: "outbox", do: outboxes,
		about: `-jobs put in transactions of Postgres, into an outbox and with River, and a relay that
moves them`},
	{name: "restart", redis: []string{"--appendonly", "yes"}, do: restart,
		about: `-workers whose server forgets its script, cuts their connections, and is restarted while
jobs are put; none may be lost`},
}

// workloadAt returns the index of a workload, or -1.
func workloadAt(name string) int {
	return slices.IndexFunc(workloads, func(w workload) bool { return w.name == name })
}
