// Bench compares this package with other job queues. Run go run . -h for details.
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
	"strconv"
	"strings"
	"syscall"
	"time"
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

// options holds the values of the flags.
type options struct {
	workloads, peers, against, classic, lua, redis names
	concurrency, payload, depth, kept, queues      numbers

	rounds, jobs, pickups int
	idle                  time.Duration
	json                  bool
	instructions          bool
	profile               string
}

func parse(args []string) (*options, error) {
	o := &options{
		workloads:   names{"ops", "job", "pickup", "idle", "memory"},
		lua:         names{"../lua"},
		concurrency: numbers{1, 16, 100},
		payload:     numbers{100, 1000, 10000},
		depth:       numbers{0, 10000},
		kept:        numbers{0, 40000, keptJobs},
		queues:      numbers{1, 10, 100},
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.Var(&o.workloads, "workload", "workloads, in order")
	flags.Var(&o.peers, "peers", "peers, in order; others are compared with the first\n"+
		"(default all available, scripts of -script first)")
	flags.Var(&o.against, "against", "more peers to compare with, besides the first")
	flags.Var(&o.classic, "script", "files of classic scripts, named after their package")
	flags.Var(&o.lua, "lua",
		"folders of our scripts' sources; the first is named qless, others by path")
	flags.Var(&o.redis, "redis", "server settings, such as latency-tracking=no")
	flags.Var(&o.concurrency, "concurrency",
		"for job: goroutines, and jobs that a worker runs at once")
	flags.Var(&o.payload, "payload", "for job: bytes of JSON")
	flags.Var(&o.depth, "depth", "for depth: waiting jobs; 1000000 take 2 GB of memory")
	flags.Var(&o.kept, "kept", "for kept: number of completed jobs kept")
	flags.Var(&o.queues, "queues", "for queues: number of queues watched")
	flags.IntVar(&o.rounds, "rounds", 5, "rounds of each run")
	flags.IntVar(&o.jobs, "jobs", 4000, "jobs per run")
	flags.IntVar(&o.pickups, "pickups", 500,
		"for pickup: jobs per run, as many as are done within 20 s")
	flags.DurationVar(&o.idle, "idle", 5*time.Second, "for idle: length of a run, in whole seconds")
	flags.BoolVar(&o.json, "json", false,
		"print one JSON object per row, after one that describes the run")
	flags.BoolVar(&o.instructions, "instructions", false,
		"count the server's instructions by callgrind instead of its time; needs valgrind")
	flags.StringVar(&o.profile, "profile", "",
		"with -instructions: an existing folder for a profile of each phase")
	flags.Usage = usage(flags)
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	return o, o.check(flags.Args())
}

func (o *options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q; see -h", rest[0])
	case o.instructions && slices.ContainsFunc(o.workloads, needsTime):
		return errors.New("with -instructions, workloads are ops, job, depth, kept, queues, extensions and prices")
	case !o.instructions && (o.profile != "" || slices.Contains(o.workloads, "prices")):
		return errors.New("-profile and the workload prices need -instructions")
	case o.rounds < 1 || o.jobs < 1 || o.pickups < 1:
		return errors.New("-rounds, -jobs and -pickups must be positive")
	case o.jobs > keptJobs/2:
		return fmt.Errorf("-jobs must be at most %d: completed jobs are counted, and only %d are kept",
			keptJobs/2, keptJobs)
	}
	return nil
}

// needsTime reports whether a workload measures what callgrind distorts.
func needsTime(workload string) bool {
	return slices.Contains([]string{"pickup", "idle", "memory"}, workload)
}

// runMain runs the benchmark with the arguments, and prints the results.
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
	groups, err := b.groups(o.workloads)
	if err != nil {
		return err
	}
	if err := b.describe(ctx, out, args, o.json); err != nil {
		return err
	}
	for _, g := range groups {
		rows, err := b.measure(ctx, g)
		if err != nil {
			return err
		}
		if o.json {
			err = writeJSON(out, rows)
		} else {
			err = writeTable(out, g, rows)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// names is a flag holding a comma-separated list.
type names []string

func (n *names) String() string { return strings.Join(*n, ",") }

func (n *names) Set(text string) error {
	*n = strings.Split(text, ",")
	return nil
}

// numbers is like names, for integers.
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
		number, err := strconv.Atoi(one)
		if err != nil {
			return err
		}
		*n = append(*n, number)
	}
	return nil
}
