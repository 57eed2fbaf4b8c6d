// Bench compares lmstfy's own server with the gateway, on one Redis.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
)

const about = `bench compares lmstfy's own server with the gateway of qless, on a Redis that it starts.

usage: go run . [flags]

The servers take turns (A B A B ...), each as a process of its own and with an empty database; the
figures are medians of the rounds. All share the machine: the clients, the server and Redis. Redis
keeps a file that is flushed every second, as lmstfy demands.

figures
  jobs/s       by the clock of the clients
  Redis us     CPU time of the Redis process for a job, user and system
  server us    the same of the server
  p50, p99 ms  from just before the request that publishes a job to the end of the answer that a
               waiting consumer gets
  RSS MB       memory of the server's process, and Redis conns its connections, with -waiting
               consumers that wait

workloads
  publish      PUT, 100 bytes, by 16 and by 100 clients, each with a connection of its own
  work         GET ?timeout=5 and DELETE of the same jobs
  wake         all clients wait, and one more publishes a job at a time, 2 ms apart
  waiting      -waiting consumers wait; then each gets a job

flags
`

// options are what the flags say.
type options struct {
	rounds, jobs, waiting int
	clients               []int
	only                  string
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == serveCommand {
		if err := serve(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	o, err := parse()
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		err = compare(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse() (*options, error) {
	o := &options{}
	var clients string
	flag.IntVar(&o.rounds, "rounds", 5, "rounds")
	flag.IntVar(&o.jobs, "jobs", 20000, "jobs of a round")
	flag.IntVar(&o.waiting, "waiting", 2000, "consumers that wait")
	flag.StringVar(&clients, "clients", "16,100", "numbers of clients")
	flag.StringVar(&o.only, "only", "", "one server only: qless or lmstfy")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), about)
		flag.PrintDefaults()
	}
	flag.Parse()
	for text := range strings.SplitSeq(clients, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-clients %q is no list of numbers", clients)
		}
		o.clients = append(o.clients, n)
	}
	return o, nil
}
