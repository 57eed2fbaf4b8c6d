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

	concurrency, payload, waiting, kept, watched, clients numbers

	rounds, jobs, pickups, workers, patterns, queues, tenants, kills, rate int

	idle, poll, endure time.Duration

	json, instructions bool
	profile            string
}

func parse(args []string) (*options, error) {
	o := &options{
		workloads:   names{"ops", "job", "pickup", "rest", "memory"},
		lua:         names{"../lua"},
		concurrency: numbers{1, 16, 100},
		payload:     numbers{100, 1000, 10000},
		waiting:     numbers{0, 10000},
		kept:        numbers{0, 40000, keptJobs},
		watched:     numbers{1, 10, 100},
		clients:     numbers{0, 1},
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.Var(&o.workloads, "workload", "workloads, in order")
	flags.Var(&o.redis, "redis", "settings of the servers, such as latency-tracking=no")
	flags.IntVar(&o.jobs, "jobs", 4000, "jobs of a run; 1000000 that wait take 2 GB of memory")
	flags.IntVar(&o.rounds, "rounds", 5, "rounds of each run, where runs are compared")
	flags.BoolVar(&o.json, "json", false,
		"print one JSON object per row or figure, after one that describes the run")
	flags.Var(&o.peers, "peers", "peers, in order; others are compared with the first\n"+
		"(default all available, scripts of -script first)")
	flags.Var(&o.against, "against", "more peers to compare with, besides the first")
	flags.Var(&o.classic, "script", "files of classic scripts, named after their package")
	flags.Var(&o.lua, "lua",
		"folders of our scripts' sources; the first is named qless, others by path")
	flags.Var(&o.concurrency, "concurrency",
		"for job: goroutines, and jobs that a worker runs at once; for lmstfy: clients")
	flags.Var(&o.payload, "payload", "for job: bytes of JSON")
	flags.Var(&o.waiting, "waiting", "for waiting: jobs that wait")
	flags.Var(&o.kept, "kept", "for kept: completed jobs that are kept")
	flags.Var(&o.watched, "watched", "for watch: queues")
	flags.IntVar(&o.pickups, "pickups", 500,
		"for pickup: jobs per run, as many as are done within 20 s")
	flags.DurationVar(&o.idle, "idle", 5*time.Second, "for rest: length of a run, in whole seconds")
	flags.BoolVar(&o.instructions, "instructions", false,
		"count the server's instructions by callgrind instead of its time; needs valgrind")
	flags.StringVar(&o.profile, "profile", "",
		"with -instructions: an existing folder for a profile of each phase")
	flags.Var(&o.clients, "clients",
		"for idle, tenants, restart: how many clients the workers share,\n"+
			"each number in turn; 0 gives each worker its own")
	flags.IntVar(&o.workers, "workers", 100,
		"workers, or for lmstfy, consumers that wait;\n"+
			"a worker has one connection, and three if it has its own client")
	flags.IntVar(&o.patterns, "patterns", 10, "for newqueues: workers whose patterns match new queues")
	flags.IntVar(&o.queues, "queues", 1000,
		"queues that there are; a worker asks at most 1000 of them")
	flags.IntVar(&o.tenants, "tenants", 50, "for tenants: namespaces in one process")
	flags.IntVar(&o.kills, "kills", 2, "for durability: how often the server is killed")
	flags.IntVar(&o.rate, "rate", 60, "for soak: jobs a second")
	flags.DurationVar(&o.poll, "poll", 2*time.Second,
		"PollInterval of workers, and for how long idle ones are measured; 10s by default in the package")
	flags.DurationVar(&o.endure, "for", 10*time.Second, "for soak: how long it works, at least 5s")
	flags.Usage = usage(flags)
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
	for _, number := range []int{
		o.rounds, o.jobs, o.pickups, o.workers, o.patterns, o.queues, o.tenants, o.kills, o.rate,
	} {
		if number < 1 {
			return errors.New("numbers must be positive; see -h")
		}
	}
	switch {
	case !o.instructions && (o.profile != "" || slices.Contains(o.workloads, "prices")):
		return errors.New("-profile and the workload prices need -instructions")
	case o.jobs > keptJobs/2 && o.any(func(w workload) bool { return w.counted || w.peers }):
		return fmt.Errorf("-jobs must be at most %d: completed jobs are counted, and only %d are kept",
			keptJobs/2, keptJobs)
	case o.poll < time.Millisecond:
		return errors.New("-poll must be at least 1ms")
	case o.endure < 5*time.Second:
		return errors.New("-for must be at least 5s")
	}
	return nil
}

// any reports whether one of the chosen workloads is as it is asked for.
func (o *options) any(is func(w workload) bool) bool {
	return slices.ContainsFunc(o.workloads, func(name string) bool {
		return is(workloads[workloadAt(name)])
	})
}

// asked returns how many queues a worker asks that watches all of them by name.
func (o *options) asked() int { return min(o.queues, 1000) }

// names is a flag holding a comma-separated list.
type names []string

func (n *names) String() string { return strings.Join(*n, ",") }

func (n *names) Set(text string) error {
	*n = strings.Split(text, ",")
	return nil
}

// numbers is like names, for integers that are not negative.
type numbers []int

func (n *numbers) String() string {
	var texts []string
	for _, number := range *n {
		texts = append(texts, strconv.Itoa(number))
	}
	return strings.Join(texts, ",")
}

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

const about = `bench compares this package with other job queues, and measures it at the scale of a
fleet, on servers that it starts.

usage: go run . [flags]

Compared runs take turns (A B C A B C ...), each on an empty server; the figures are medians of
the rounds. Only work acknowledged by the server counts: a run in which a job is missing or done
twice ends the bench with an error, and so does something that grows for ever.

figures of runs that are compared
  instr/job    instructions of the server process outside the kernel, with -instructions, which
               leaves out all times. They are the same on a busy and on a quiet machine
  instr/call   the same for each call of a script
  CPU us/job   CPU time of the server process, user and system, from INFO cpu: the most important
               figure, because one core of Redis is the limit of a queue
  client us/job
               CPU time of the bench's own process, which puts and runs the jobs; only of the
               workload job, and not for BullMQ, which runs in a process of node
  cmds/job     commands that the server ran, from INFO commandstats, including those inside scripts
               but not the script calls themselves or what opens a connection
  scripts/job  calls of scripts
  jobs/s       by the clock of the client, which shares the machine with the server
  p50, p99 ms  from just before the put to the start of the handler
  B/job        growth of used_memory
  CPU x PEER   CPU us/job divided by PEER's in the same round: median (least-most); PEER is
               the first of the group, and any named by -against
  speed x, B x the same for jobs/s and for B/job, medians only

figures of a fleet, with the bar that docs/scaling.md sets, if there is one
  server CPU          of the server process; idle workers keep that part of a core busy
  longest call        of the server, from SLOWLOG; 0 is less than a millisecond. For so long, all
                      other clients wait
  server memory       used_memory; its peak is that since the server was started
  heap, stacks        of this process, from the runtime, after the garbage was collected

workloads that compare peers
  job     whole jobs with -concurrency goroutines and -payload bytes of JSON: all are put
          (enqueue), then all are run (process); total is both
  pickup  from put to handler, one job at a time, with 1 and 16 idle workers
  rest    the server's work in one second with 16 idle workers ("job" means second)
  memory  memory of a waiting job of 100 bytes, with and without hash-max-listpack-value 1024

workloads that compare scripts: those of -script, ours (from the folder -lua), and the drop-in
  ops     single commands, 100 per pipeline: put, pop(1), pop(10) (per job), heartbeat, complete,
          and a pop that finds nothing; for our scripts also the worker's batches (per job). With
          -instructions, also its calls with one job and with none, and turn(16): reserve(16) and
          finish(16) one after the other, so that there are never more locks
  waiting put, pop(1) and complete with -waiting jobs
  kept    the same with -kept completed jobs kept; from 50000 on each complete removes one
  watch   a call that finds work while -watched queues are watched, by where the work is; when
          every queue has work, they take turns. Figures are per reserve that finds jobs; the first
          one does not know yet which queues are empty. For classic scripts, for all pops up to one
          that finds a job
  extensions
          what each option of a job adds to its put, reserve(16) and finish(16), for our scripts
  prices  with -instructions: commands and pieces of Lua inside a script ("job" means one of them)

workloads of a fleet
  idle        -workers of one queue that wait: what they need, and what one job has them do
  newqueues   queues that appear one by one, besides -queues that there are, among -workers that
              don't want them, and -patterns workers whose patterns match them
  queues      1 worker, and -workers, that watch -queues, at most 1000, by their names
  depth       single calls on an empty queue, and on one where -jobs wait
  states      the memory of -jobs of each state
  tenants     a process that works -tenants namespaces
  bulk        calls about -jobs, -queues or -workers at once, most of which go in steps
  durability  a server that keeps a file: its speed with -jobs, and what it has lost after it was
              killed -kills times in the middle of as many more
  load        the script, sent to a server that lacks it, by one client, and by -workers at once
  restart     -workers whose server forgets its scripts, cuts their connections, and is restarted,
              and what those leave that are killed
  soak        jobs of all kinds at -rate -for some time, in processes of their own, with schedules,
              gateways, their clients, and the dashboard with a reader, while a worker is killed
              each minute
  lmstfy      lmstfy's own server, which it builds, and qless serve lmstfy, on a server that keeps
              a file: -jobs published and consumed by -concurrency clients, what they wait for a
              job, and -workers that wait at once

peers of job, pickup, rest and memory
  NAME             a classic script given by -script (EVALSHA sha 0 COMMAND NOW ARG...), popped
                   and completed job by job, as its clients do
  qless-single     this package, each job put, popped and completed with its own script
  qless-unbatched  each job put with its own script, and run by the Worker
  qless-worker     the same, but the puts of several goroutines share scripts, as by default
  qless-bulk       jobs put by PutMany, 100 per call, and run by the Worker
  qless-dropin     our script for clients in other languages, called like a classic one
  asynq            hibiken/asynq with its defaults; jobs that are done are deleted
  bullmq           BullMQ with its defaults; needs node and npm, and is skipped without them
  bullmq-bulk      the same with addBulk of 100
  floor            our layout's reads and writes as bare commands, 100 jobs per pipeline on one
                   connection: nothing is checked, nothing is atomic

flags
`

func usage(flags *flag.FlagSet) func() {
	return func() {
		fmt.Fprint(flags.Output(), about)
		flags.PrintDefaults()
	}
}
