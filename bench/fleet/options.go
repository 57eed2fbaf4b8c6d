package main

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options holds the values of the flags.
type options struct {
	workloads names
	clients   numbers
	redis     names

	workers, patterns, queues, jobs, tenants, kills, rate int

	poll, duration, endure time.Duration

	json bool
}

func parse(args []string) (*options, error) {
	o := &options{clients: numbers{0, 1}}
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	flags.Var(&o.workloads, "workload", "workloads (default all)")
	flags.Var(&o.clients, "clients",
		"for idle, tenants, restart: how many clients the workers share,\n"+
			"each number in turn; 0 gives each worker its own")
	flags.Var(&o.redis, "redis", "settings of the servers, such as hash-max-listpack-value=1024")
	flags.IntVar(&o.workers, "workers", 100,
		"workers; each has one connection, and three if it has its own client")
	flags.IntVar(&o.patterns, "patterns", 10, "for newqueues: workers whose patterns match new queues")
	flags.IntVar(&o.queues, "queues", 1000,
		"queues that there are; a worker asks at most 1000 of them")
	flags.IntVar(&o.jobs, "jobs", 5000, "jobs; 1000000 that wait take 1.5 GB of memory")
	flags.IntVar(&o.tenants, "tenants", 50, "for tenants: namespaces in one process")
	flags.IntVar(&o.kills, "kills", 2, "for durability: how often the server is killed")
	flags.IntVar(&o.rate, "rate", 200, "for soak: jobs a second")
	flags.DurationVar(&o.poll, "poll", 2*time.Second,
		"PollInterval of workers, and for how long idle ones are measured; 10s by default in the package")
	flags.DurationVar(&o.duration, "duration", 8*time.Second, "for soak: how long it works")
	flags.DurationVar(&o.endure, "for", 0,
		"for soak: with everything on, in processes of which one is killed each minute, for so long;\n"+
			"if no workloads are named, only soak runs")
	flags.BoolVar(&o.json, "json", false,
		"print one JSON object per figure, after one that describes the run")
	flags.Usage = usage(flags)
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if o.endure > 0 && len(o.workloads) == 0 {
		o.workloads = names{"soak"}
	}
	return o, o.check(flags.Args())
}

func (o *options) check(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("unexpected argument %q; see -h", rest[0])
	}
	for _, name := range o.workloads {
		if !slices.ContainsFunc(workloads, func(w workload) bool { return w.name == name }) {
			return fmt.Errorf("unknown workload %q; see -h", name)
		}
	}
	for _, number := range []int{o.workers, o.patterns, o.queues, o.jobs, o.tenants, o.kills, o.rate} {
		if number < 1 {
			return fmt.Errorf("numbers must be positive; see -h")
		}
	}
	if o.poll < time.Millisecond || o.duration < time.Millisecond {
		return fmt.Errorf("-poll and -duration must be at least 1ms")
	}
	if o.endure != 0 && o.endure < 5*time.Second {
		return fmt.Errorf("-for must be at least 5s")
	}
	return nil
}

// wants reports whether a workload is to be run.
func (o *options) wants(name string) bool {
	return len(o.workloads) == 0 || slices.Contains(o.workloads, name)
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
