// Fleet measures this package at the scale of a fleet. Run go run ./fleet -h for details.
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
	"syscall"
)

func main() {
	log.SetFlags(log.Ltime)
	if role, ok := os.LookupEnv(memberVariable); ok {
		os.Exit(memberMain(role, os.Stdin, os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := runMain(ctx, os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		log.Fatal(err)
	}
}

// runMain runs the workloads that the arguments name, and prints a table for each. The figures of a
// workload that fails are printed, too.
func runMain(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	write := writeTable
	if o.json {
		write = writeJSON
	}
	if err := describe(ctx, out, args, o); err != nil {
		return err
	}
	for _, w := range workloads {
		if !o.wants(w.name) {
			continue
		}
		log.Print(w.name)
		r := &report{workload: w.name}
		failed := w.run(ctx, o, r)
		if err := write(out, r); err != nil {
			return err
		}
		if failed != nil {
			return fmt.Errorf("%s: %w", w.name, failed)
		}
	}
	return nil
}

// A workload measures one thing, on servers of its own.
type workload struct {
	name string
	run  func(ctx context.Context, o *options, r *report) error
}

// workloads are all that there are, in the order in which they run.
var workloads = []workload{
	{"idle", idle},
	{"newqueues", newQueues},
	{"queues", manyQueues},
	{"depth", depth},
	{"states", states},
	{"tenants", tenants},
	{"bulk", bulk},
	{"durability", durability},
	{"load", loadScript},
	{"restart", restart},
	{"soak", soak},
}
