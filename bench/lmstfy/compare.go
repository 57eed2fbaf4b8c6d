package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/testkit"
)

// figures are what a workload has measured, by name.
type figures map[string]float64

// results are the figures of all rounds, by workload and then by server.
type results struct {
	workloads []string
	peers     []string
	rounds    map[string]map[string][]figures
}

func (r *results) add(workload, peer string, f figures) {
	if !slices.Contains(r.workloads, workload) {
		r.workloads = append(r.workloads, workload)
	}
	if r.rounds[workload] == nil {
		r.rounds[workload] = map[string][]figures{}
	}
	r.rounds[workload][peer] = append(r.rounds[workload][peer], f)
}

func compare(ctx context.Context, o *options) error {
	dir, err := os.MkdirTemp("", "qless-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	peers, err := buildPeers(ctx, dir, o.only)
	if err != nil {
		return err
	}
	server, err := testkit.Launch("--appendonly", "yes", "--maxmemory-policy", "noeviction",
		"--maxclients", "10000")
	if err != nil {
		return err
	}
	defer server.Stop()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: 1})
	defer func() { _ = rdb.Close() }()
	all := &results{rounds: map[string]map[string][]figures{}}
	for _, p := range peers {
		all.peers = append(all.peers, p.name)
	}
	for round := range o.rounds {
		for _, p := range peers {
			if err := measureAll(ctx, o, all, p, dir, rdb); err != nil {
				return fmt.Errorf("round %d, %s: %w", round+1, p.name, err)
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, o.rounds)
	}
	all.print()
	return nil
}

// measureAll measures all workloads of a server once.
func measureAll(
	ctx context.Context, o *options, all *results, p peer, dir string, rdb *redis.Client,
) error {
	for _, n := range o.clients {
		err := with(ctx, p, dir, rdb, func(r *run) error { return load(ctx, o, all, p, r, n) })
		if err != nil {
			return err
		}
	}
	if o.waiting == 0 {
		return nil
	}
	return with(ctx, p, dir, rdb, func(r *run) error {
		f, err := r.wait(ctx, o.waiting)
		all.add("waiting, "+strconv.Itoa(o.waiting), p.name, f)
		return err
	})
}

// with runs a function with a server that was just started, and has done a few jobs.
func with(ctx context.Context, p peer, dir string, rdb *redis.Client, do func(*run) error) error {
	if err := rdb.FlushAll(ctx).Err(); err != nil {
		return err
	}
	process, err := p.start(ctx, dir, rdb.Options().Addr)
	if err != nil {
		return err
	}
	defer process.stop()
	r := &run{process: process, rdb: rdb}
	const few = 200
	if err := r.publish(4, few); err != nil {
		return err
	}
	if err := r.work(4, few); err != nil {
		return err
	}
	return do(r)
}

func load(ctx context.Context, o *options, all *results, p peer, r *run, clients int) error {
	suffix := ", " + strconv.Itoa(clients)
	f, err := r.measure(ctx, o.jobs, func() error { return r.publish(clients, o.jobs) })
	if err != nil {
		return err
	}
	all.add("publish"+suffix, p.name, f)
	f, err = r.measure(ctx, o.jobs, func() error { return r.work(clients, o.jobs) })
	if err != nil {
		return err
	}
	all.add("work"+suffix, p.name, f)
	took, err := r.wake(clients)
	if err != nil {
		return err
	}
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	all.add("wake"+suffix, p.name, figures{
		"p50 ms": ms(took[len(took)/2]), "p99 ms": ms(took[len(took)*99/100]),
	})
	return nil
}

// print prints the medians.
func (r *results) print() {
	for _, workload := range r.workloads {
		names := map[string]bool{}
		for _, rounds := range r.rounds[workload] {
			for name := range rounds[0] {
				names[name] = true
			}
		}
		fmt.Printf("\n%-16s", workload)
		sorted := make([]string, 0, len(names))
		for name := range names {
			sorted = append(sorted, name)
		}
		slices.Sort(sorted)
		for _, name := range sorted {
			fmt.Printf("%14s", name)
		}
		fmt.Println()
		for _, peer := range r.peers {
			fmt.Printf("%-16s", "  "+peer)
			for _, name := range sorted {
				fmt.Printf("%14s", text(median(r.rounds[workload][peer], name)))
			}
			fmt.Println()
		}
	}
}

func median(rounds []figures, name string) float64 {
	values := make([]float64, len(rounds))
	for i, f := range rounds {
		values[i] = f[name]
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func text(n float64) string {
	if n >= 100 {
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	return strings.TrimSuffix(strconv.FormatFloat(n, 'f', 2, 64), ".00")
}
