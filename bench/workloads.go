package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"
)

//go:embed usage.txt
var usage string

// workloads are all workloads.
var workloads = []workload{
	{name: "ops", counted: true, groups: (*bench).opsGroup},
	{name: "waiting", counted: true, groups: (*bench).waitingGroups},
	{name: "scheduled", counted: true, groups: (*bench).scheduledGroups},
	{name: "kept", counted: true, groups: (*bench).keptGroups},
	{name: "job", counted: true, peers: true, groups: (*bench).jobGroups},
	{name: "pickup", peers: true, groups: (*bench).pickUpGroups},
	{name: "single", counted: true, peers: true, groups: (*bench).singleGroups},
	{name: "paced", peers: true, groups: (*bench).pacedGroups},
	{name: "order", counted: true, groups: (*bench).orderGroups},
	{name: "rest", peers: true, groups: (*bench).restGroup},
	{name: "memory", peers: true, groups: (*bench).memoryGroup},
	{name: "gateways", builds: true, groups: (*bench).gatewayGroups,
		redis: []string{"--appendonly", "yes"}},
	{name: "idle", do: idleFleets},
	{name: "queues", do: queueFleets},
	{name: "tenants", do: tenantFleets},
	{name: "newqueues", do: newQueues},
	{name: "states", do: states},
	{name: "load", do: loadOnce},
	{name: "outbox", do: outboxes},
	{name: "restart", redis: []string{"--appendonly", "yes"}, do: restart},
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
	flags.BoolVar(&o.raw, "raw", false,
		"for job: programs have the data as JSON; by default, as a Go value, which they marshal")
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
		fmt.Fprint(flags.Output(), usage)
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
