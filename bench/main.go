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

// runMain runs the workloads that the arguments name. The figures of a workload that fails are
// printed, too.
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
	if err := b.describe(ctx, out, args); err != nil {
		return err
	}
	for _, name := range o.workloads {
		log.Print(name)
		r := &report{workload: name, out: out, json: o.json}
		failed := workloads[workloadAt(name)].run(ctx, b, r)
		if err := r.write(); err != nil {
			return err
		}
		if failed != nil {
			return fmt.Errorf("%s: %w", name, failed)
		}
	}
	return nil
}

// A workload measures one thing.
type workload struct {
	name    string
	peers   bool // it measures more than scripts and servers
	counted bool // it can be measured in instructions
	run     func(ctx context.Context, b *bench, r *report) error
}

// workloads are all that there are.
var workloads = []workload{
	{name: "ops", counted: true, run: compared((*bench).opsGroup)},
	{name: "job", counted: true, peers: true, run: compared((*bench).jobGroups)},
	{name: "waiting", counted: true, run: compared((*bench).waitingGroups)},
	{name: "kept", counted: true, run: compared((*bench).keptGroups)},
	{name: "watch", counted: true, run: compared((*bench).watchGroups)},
	{name: "extensions", counted: true, run: compared((*bench).extensionsGroup)},
	{name: "prices", counted: true, run: compared((*bench).pricesGroup)},
	{name: "pickup", peers: true, run: compared((*bench).pickUpGroups)},
	{name: "rest", peers: true, run: compared((*bench).restGroup)},
	{name: "memory", peers: true, run: compared((*bench).memoryGroup)},
	{name: "idle", run: shared("worker", idle)},
	{name: "newqueues", run: onServer(newQueues)},
	{name: "queues", run: alone(manyQueues)},
	{name: "depth", run: onServer(depth)},
	{name: "states", run: onServer(states)},
	{name: "tenants", run: shared("tenant", tenants)},
	{name: "bulk", run: onServer(bulk)},
	{name: "durability", run: alone(durability)},
	{name: "load", run: onServer(loadOnce)},
	{name: "restart", run: shared("worker", restart, "--appendonly", "yes")},
	{name: "soak", run: alone(soak)},
	{name: "lmstfy", run: alone(lmstfy)},
}

// workloadAt returns the place of a workload, or -1.
func workloadAt(name string) int {
	return slices.IndexFunc(workloads, func(w workload) bool { return w.name == name })
}

// compared returns a workload that compares runs with each other, on the server of the bench.
func compared(groups func(b *bench) []group) func(context.Context, *bench, *report) error {
	return func(ctx context.Context, b *bench, r *report) error {
		for _, g := range groups(b) {
			rows, err := b.measure(ctx, g)
			if err != nil {
				return err
			}
			if err := writeRows(r.out, g, rows, r.json); err != nil {
				return err
			}
		}
		return nil
	}
}

// alone returns a workload that starts servers of its own.
func alone(
	run func(ctx context.Context, o *options, r *report) error,
) func(context.Context, *bench, *report) error {
	return func(ctx context.Context, b *bench, r *report) error { return run(ctx, b.options, r) }
}

// onServer returns a workload that is measured on one server of its own.
func onServer(
	run func(ctx context.Context, o *options, r *report, s *server) error, args ...string,
) func(context.Context, *bench, *report) error {
	return func(ctx context.Context, b *bench, r *report) error {
		s, err := startFleet(ctx, b.options, args...)
		if err != nil {
			return err
		}
		defer s.stop()
		return run(ctx, b.options, r, s)
	}
}

// shared returns a workload that is measured for each number of clients that the workers share, on
// servers of their own.
func shared(
	thing string,
	run func(ctx context.Context, o *options, r *report, s *server, clients int) error,
	args ...string,
) func(context.Context, *bench, *report) error {
	return func(ctx context.Context, b *bench, r *report) error {
		for _, clients := range b.clients {
			r.of = b.sharing(clients, thing)
			r.in("")
			err := onServer(func(ctx context.Context, o *options, r *report, s *server) error {
				return run(ctx, o, r, s, clients)
			}, args...)(ctx, b, r)
			if err != nil {
				return err
			}
		}
		return nil
	}
}
