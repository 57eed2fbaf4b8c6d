// Bench compares this package with other job queues, and measures it at the scale of a fleet. Run
// go run . -h for details.
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

// runMain runs the workloads that the arguments name.
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
			err = errors.Join(b.run(ctx, w, r), r.write()) // also what is measured of one that fails
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

// A workload measures one thing: by groups of runs that are compared with each other, or by a
// function of its own. It has a server of its own, which is empty.
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

// workloads are all that there are.
var workloads = []workload{
	{name: "ops", counted: true, groups: (*bench).opsGroup,
		about: `single commands, 100 per pipeline: put, pop(1), pop(10) (per job), heartbeat, complete,
and a pop that finds nothing; for our script also the worker's batches (per job). With
-instructions, also its calls with one job and with none, and turn(16): reserve(16) and
finish(16) one after the other, so that there are never more locks`},
	{name: "waiting", counted: true, groups: (*bench).waitingGroups,
		about: `put, pop(1), complete, counts, a put with a delay and, after that, pop(10), with -waiting
jobs that wait`},
	{name: "scheduled", counted: true, groups: (*bench).scheduledGroups,
		about: "the same with as many jobs that are scheduled"},
	{name: "kept", counted: true, groups: (*bench).keptGroups,
		about: `the same with -kept completed jobs kept; from 50000 on each complete removes one`},
	{name: "extensions", counted: true, groups: (*bench).extensionsGroup,
		about: "what each option of a job adds to its put, reserve(16) and finish(16)"},
	{name: "job", counted: true, peers: true, groups: (*bench).jobGroups,
		about: `whole jobs with -concurrency goroutines and -payload bytes of JSON: all are put (enqueue),
then all are run (process); total is both`},
	{name: "pickup", peers: true, groups: (*bench).pickUpGroups,
		about: "from put to handler, one job at a time, with 1 and 16 idle workers"},
	{name: "single", counted: true, peers: true, groups: (*bench).singleGroups,
		about: `the usual state of a queue: -jobs one at a time, right after each other or 100 ms apart,
with 1, 8 and 64 idle workers of one queue, or of 20 queues each`},
	{name: "paced", peers: true, groups: (*bench).pacedGroups,
		about: `jobs that come at 100, 1000 and 5000 a second to one worker of ten slots, put to done`},
	{name: "rest", peers: true, groups: (*bench).restGroup,
		about: `the server's work in one second with 16 idle workers, -for so long ("job" means second)`},
	{name: "memory", peers: true, groups: (*bench).memoryGroup,
		about: "memory of a waiting job of 100 bytes, with and without hash-max-listpack-value 1024"},
	{name: "gateways", builds: true, groups: (*bench).gatewayGroups,
		redis: []string{"--appendonly", "yes"},
		about: `qless serve lmstfy, lmstfy's own server, which it builds, and qless serve workq: jobs that
-concurrency clients put, take and end, and that they wait for. The server keeps a file, as
lmstfy demands; client us/job is the CPU time of the gateway`},
	{name: "idle", do: idleFleets,
		about: `-workers of one queue that wait: what they need, and what one job has them do`},
	{name: "queues", do: queueFleets,
		about: "the same of 1 worker, and -workers, that watch -queues, at most 1000, by their names"},
	{name: "tenants", do: tenantFleets,
		about: "the same of -workers in one process, with a namespace each"},
	{name: "newqueues", do: newQueues,
		about: `queues that appear one by one, besides -queues that there are, among -workers that don't
want them, and a tenth as many whose patterns match them`},
	{name: "states", do: states,
		about: "the memory of -jobs of each state"},
	{name: "bounds", do: bounds,
		about: `the longest script of calls where -jobs wait, as many have failed, and there are -queues;
it fails if one takes more than 10 ms`},
	{name: "load", do: loadOnce,
		about: `the script, sent to a server that lacks it, by one client, and by -workers at once`},
	{name: "restart", redis: []string{"--appendonly", "yes"}, do: restart,
		about: `-workers whose server forgets its script, cuts their connections, and is restarted, while
jobs are put, of which none may be lost`},
}

// workloadAt returns the place of a workload, or -1.
func workloadAt(name string) int {
	return slices.IndexFunc(workloads, func(w workload) bool { return w.name == name })
}
