package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"
)

// workloads are all workloads.
var workloads = []workload{
	{name: "ops", counted: true, groups: (*bench).opsGroup,
		about: `single commands, 100 per pipeline: put, pop(1), pop(10) (per job), heartbeat, complete,
and a pop that finds nothing; for our script also the worker's batches (per job). With
-instructions, also the worker's calls with one job and with none, turn(N): reserve(N) and
finish(N) in turn, so that there are never more locks, and whole jobs, one at a time, with their
calls: with 1, 8 and 64 idle workers of ten slots, with one whose polls are further apart than
its locks are long, and with one of a single slot, whose finish includes the next reserve`},
	{name: "waiting", counted: true, groups: (*bench).waitingGroups,
		about: `put, pop(1), complete, counts, a put with a delay and, after that, pop(10), with -waiting
waiting jobs`},
	{name: "scheduled", counted: true, groups: (*bench).scheduledGroups,
		about: "the same with as many scheduled jobs"},
	{name: "kept", counted: true, groups: (*bench).keptGroups,
		about: `the same with -kept completed jobs; from 50000 on, each complete removes one`},
	{name: "job", counted: true, peers: true, groups: (*bench).jobGroups,
		about: `whole jobs with -concurrency goroutines and -payload bytes of JSON: all are put (enqueue),
then all are run (process); total is the sum`},
	{name: "pickup", peers: true, groups: (*bench).pickUpGroups,
		about: "from put to handler, one job at a time, with 1 and 16 idle workers"},
	{name: "single", counted: true, peers: true, groups: (*bench).singleGroups,
		about: `the usual state of a queue: -jobs one at a time, right after each other or 100 ms apart,
with 1, 8 and 64 idle workers of one queue, with ten slots or one, or of 20 queues each`},
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

func parse(args []string) (*options, error) {
	o := &options{
		workloads:   names{"ops", "job", "pickup", "rest", "memory"},
		lua:         names{"../lua"},
		concurrency: numbers{1, 16, 100},
		payload:     numbers{100, 1000, 10000},
		waiting:     numbers{0, 10000},
		kept:        numbers{0, 40000, keptJobs},
		clients:     numbers{0, 1},
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.Var(&o.workloads, "workload", "workloads, in order")
	flags.Var(&o.redis, "redis", "settings of the servers, such as appendonly=yes")
	flags.IntVar(&o.jobs, "jobs", 4000, "jobs per run; 1000000 waiting jobs take 2 GB of memory")
	flags.IntVar(&o.rounds, "rounds", 5, "rounds of each run if runs are compared")
	flags.BoolVar(&o.json, "json", false,
		"print one JSON object per figure, after one that describes the bench")
	flags.Var(&o.peers, "peers", "peers, in order; others are compared with the first\n"+
		"(default all available, scripts of -script first)")
	flags.Var(&o.against, "against", "further peers to compare with, besides the first")
	flags.Var(&o.classic, "script", "files of classic scripts, named after their packages")
	flags.Var(&o.lua, "lua",
		"folders of our script's sources; the first is named qless, others by path")
	flags.Var(&o.concurrency, "concurrency",
		"goroutines, jobs that a worker runs at once, or clients of a gateway")
	flags.Var(&o.payload, "payload", "bytes of JSON")
	flags.Var(&o.waiting, "waiting", "waiting or scheduled jobs")
	flags.Var(&o.kept, "kept", "kept completed jobs")
	flags.BoolVar(&o.instructions, "instructions", false,
		"count the server's instructions with callgrind instead of its time; needs valgrind")
	flags.StringVar(&o.profile, "profile", "",
		"with -instructions: an existing folder for a profile of each phase")
	flags.StringVar(&o.chart, "chart", "",
		"an SVG file for a chart of the peers, with job, pickup, rest and memory")
	flags.Var(&o.clients, "clients", "numbers of clients that the workers share, measured in turn;\n"+
		"0 gives each worker its own")
	flags.IntVar(&o.workers, "workers", 100,
		"workers, with one connection each, or three if each has its own client")
	flags.IntVar(&o.queues, "queues", 1000, "queues")
	flags.DurationVar(&o.poll, "poll", 2*time.Second,
		"PollInterval of workers, and the time for measuring idle ones; the package defaults to 10s")
	flags.DurationVar(&o.lasting, "for", 5*time.Second, "the time to measure, in whole seconds")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), aboutFigures)
		for _, w := range workloads {
			about := strings.ReplaceAll(w.about, "\n", "\n              ")
			fmt.Fprintf(flags.Output(), "  %-11s %s\n", w.name, about)
		}
		fmt.Fprint(flags.Output(), aboutPeers)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	return o, o.check(flags.Args())
}

// any reports whether is holds for any of the chosen workloads.
func (o *options) any(is func(w workload) bool) bool {
	return slices.ContainsFunc(o.workloads, func(name string) bool {
		return is(workloads[workloadAt(name)])
	})
}

func (o *options) check(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("unexpected argument %q; see -h", rest[0])
	}
	for _, name := range o.workloads {
		at := workloadAt(name)
		switch {
		case at < 0:
			return fmt.Errorf("unknown workload %q; see -h", name)
		case o.instructions && !workloads[at].counted:
			return fmt.Errorf("the workload %s can't be measured with -instructions", name)
		}
	}
	for _, number := range []int{o.rounds, o.jobs, o.workers, o.queues} {
		if number < 1 {
			return errors.New("numbers must be positive; see -h")
		}
	}
	switch {
	case !o.instructions && o.profile != "":
		return errors.New("-profile needs -instructions")
	case o.jobs > keptJobs/2 && o.any(func(w workload) bool { return w.counted || w.peers }):
		return fmt.Errorf("-jobs must be at most %d: completed jobs are counted, and only %d are kept",
			keptJobs/2, keptJobs)
	case o.poll < time.Millisecond:
		return errors.New("-poll must be at least 1ms")
	case o.lasting < time.Second:
		return errors.New("-for must be at least 1s")
	}
	return nil
}
