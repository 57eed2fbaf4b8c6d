package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options holds the values of the flags.
type options struct {
	workloads, peers, against, classic, lua, redis names

	concurrency, payload, waiting, kept, clients numbers

	rounds, jobs, workers, queues int

	poll, lasting time.Duration

	json, instructions bool
	profile, chart     string
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

// any reports whether is holds for any of the chosen workloads.
func (o *options) any(is func(w workload) bool) bool {
	return slices.ContainsFunc(o.workloads, func(name string) bool {
		return is(workloads[workloadAt(name)])
	})
}

// names is a flag holding a comma-separated list.
type names []string

func (n *names) String() string { return strings.Join(*n, ",") }

func (n *names) Set(text string) error {
	*n = strings.Split(text, ",")
	return nil
}

// numbers is like names, for integers that are not negative.
type numbers []int

func (n *numbers) String() string { return strings.Trim(fmt.Sprint(*n), "[]") }

func (n *numbers) Set(text string) error {
	*n = nil
	for one := range strings.SplitSeq(text, ",") {
		number, err := strconv.ParseUint(one, 10, 31)
		if err != nil {
			return err
		}
		*n = append(*n, int(number))
	}
	return nil
}

const aboutFigures = `bench compares this package with other job queues, and measures it at
the scale of a fleet, on servers that it starts.

usage: go run . [flags]

Compared runs take turns (A B C A B C ...), each on an empty server; the figures are medians over
the rounds. Only work acknowledged by the server counts: if a run misses a job or does one twice,
or if something grows without bound, the bench ends with an error.

figures of compared runs
  instr/job   instructions of the server process outside the kernel, with -instructions, which
              omits all times. They do not depend on the load of the machine
  instr/call  the same per call of a script
  CPU us/job  CPU time of the server process, user and system, from INFO cpu: the most important
              figure, because one core of Redis limits a queue
  client us/job
              CPU time of the bench's own process, which puts and runs the jobs; omitted for
              BullMQ, which runs in a node process
  cmds/job    commands run by the server, from INFO commandstats, including those inside scripts
              but neither the script calls themselves nor the commands that open connections
  scripts/job calls of scripts
  jobs/s      by the clock of the client, which shares the machine with the server
  p50, p99 ms from just before the put to the start of the handler
  longest call
              the server's longest call, from SLOWLOG, if it takes a millisecond or more: it blocks
              all other clients
  B/job       growth of used_memory
  CPU x PEER  CPU us/job divided by PEER's in the same round: median (minimum-maximum); PEER is
              the first of the group, or one named by -against. The same goes for speed, instr
              and B

workloads
`

const aboutPeers = `
peers of job, pickup, rest and memory
  NAME             a classic script given by -script (EVALSHA sha 0 COMMAND NOW ARG...), popped
                   and completed job by job, as its clients do
  qless-single     this package; each job is put, popped and completed by its own script
  qless-unbatched  each job is put by its own script, and run by the Worker
  qless-worker     the same, but the puts of several goroutines share scripts, as by default
  qless-eager      the same, with workers that do not linger between calls
  qless-bulk       jobs are put by PutMany, 100 per call, and run by the Worker
  qless-dropin     our script for clients in other languages, called like a classic one
  asynq            hibiken/asynq with its defaults; completed jobs are deleted
  bullmq           BullMQ with its defaults; needs node and npm, and is skipped without them
  bullmq-bulk      the same with addBulk of 100
  river            riverqueue/river on a Postgres that does not wait for its disk, fetching as often
                   as possible; CPU us/job is Postgres's, B/job is on its disk
  river-bulk       the same with InsertManyFast of 100

flags
`
