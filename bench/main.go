// Bench compares this package with other job queues, and measures it at the scale of a fleet. For
// details, run go run . -h.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/qless/qless-go"
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

// runMain runs the workloads named in the arguments.
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
	var all []figure
	for i, name := range o.workloads {
		log.Print(name)
		w, r := workloads[workloadAt(name)], &report{workload: name, out: out, json: o.json}
		err := b.start(ctx, w)
		if err == nil && i == 0 {
			err = b.describe(ctx, out, args)
		}
		if err == nil {
			err = errors.Join(b.run(ctx, w, r), r.write()) // report the figures of a failed workload, too
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, r.figures...)
	}
	if o.chart != "" {
		return drawChart(o.chart, all)
	}
	return nil
}

func newBench(ctx context.Context, o *options) (*bench, error) {
	b := &bench{options: o, settle: time.Second}
	if err := b.findScripts(); err != nil {
		return nil, err
	}
	if o.any(func(w workload) bool { return w.peers }) {
		if err := b.findPeers(ctx); err != nil {
			b.close()
			return nil, err
		}
	}
	if o.any(func(w workload) bool { return w.builds }) {
		if err := b.buildGateways(ctx); err != nil {
			b.close()
			return nil, err
		}
	}
	return b, nil
}

// findPeers selects the requested peers, or all available ones.
func (b *bench) findPeers(ctx context.Context) error {
	var all []peer
	for _, s := range b.scripts[:len(b.classic)] {
		all = append(all, peer{name: s.name, layout: s.name, open: openClassic(s)})
	}
	alone := qless.ClientConfig{Unbatched: true}
	all = append(all,
		peer{name: "qless-single", layout: "qless", open: openQless(putSingly, popSingly, alone)},
		peer{name: "qless-unbatched", layout: "qless", open: openQless(putSingly, runWorkers, alone)},
		peer{name: "qless-worker", layout: "qless", waits: true,
			open: openQless(putSingly, runWorkers, qless.ClientConfig{})},
		peer{name: "qless-eager", layout: "qless", waits: true,
			open: openQless(putSingly, runEagerly, qless.ClientConfig{})},
		peer{name: "qless-sealed", layout: "qless",
			open: openQless(putSingly, runWorkers, qless.ClientConfig{Codec: newSealer()})},
		peer{name: "qless-bulk", layout: "qless",
			open: openQless(putInBulk, runWorkers, qless.ClientConfig{})},
		peer{name: "qless-dropin", layout: "qless", open: openClassic(dropIn())},
		peer{name: "asynq", layout: "asynq", waits: true, open: openAsynq},
	)
	wanted := b.peers
	if len(wanted) == 0 || slices.ContainsFunc(wanted, isBullMQ) {
		var err error
		if b.bullmq, err = installBullMQ(ctx); err != nil {
			log.Printf("skipping BullMQ: %v", err)
			wanted = slices.DeleteFunc(slices.Clone(wanted), isBullMQ)
		} else {
			all = append(all,
				peer{name: "bullmq", layout: "bullmq", waits: true, apart: true, open: b.bullmq.open(false)},
				peer{name: "bullmq-bulk", layout: "bullmq", apart: true, open: b.bullmq.open(true)},
			)
		}
	}
	if !b.instructions && (len(wanted) == 0 || slices.ContainsFunc(wanted, isRiver)) {
		var err error
		if b.postgres, err = startPostgres(ctx); err != nil {
			log.Printf("skipping River: %v", err)
			wanted = slices.DeleteFunc(slices.Clone(wanted), isRiver)
		} else {
			pg := b.postgres
			all = append(all,
				peer{name: "river", layout: "river", waits: true, other: pg, open: pg.open(false)},
				peer{name: "river-bulk", layout: "river", other: pg, open: pg.open(true)},
			)
		}
	}
	if len(b.peers) == 0 {
		b.all = all
		return nil
	}
	for _, name := range wanted {
		at := slices.IndexFunc(all, func(p peer) bool { return p.name == name })
		if at < 0 {
			return fmt.Errorf("unknown peer %q; see -h", name)
		}
		b.all = append(b.all, all[at])
	}
	return nil
}

// run runs a workload.
func (b *bench) run(ctx context.Context, w workload, r *report) error {
	if w.do != nil {
		return w.do(ctx, b, r)
	}
	for _, g := range w.groups(b) {
		if err := b.measure(ctx, r, g); err != nil {
			return err
		}
	}
	return nil
}

// start starts the server for a workload.
func (b *bench) start(ctx context.Context, w workload) error {
	b.args = w.redis
	return b.renew(ctx)
}

// findScripts loads the scripts, classic ones first, then ours.
func (b *bench) findScripts() error {
	for _, path := range b.classic {
		s, err := classicScripts(path)
		if err != nil {
			return err
		}
		b.scripts = append(b.scripts, s)
	}
	for i, folder := range b.lua {
		name := "qless"
		if i > 0 {
			name = filepath.Clean(folder)
		}
		s, err := ownScripts(name, folder)
		if err != nil {
			return err
		}
		b.scripts = append(b.scripts, s)
	}
	b.scripts = append(b.scripts, dropIn())
	return nil
}

func (b *bench) close() {
	if b.bullmq != nil {
		b.bullmq.remove()
	}
	if b.postgres != nil {
		b.postgres.remove()
	}
	_ = os.RemoveAll(b.programs.dir)
	if b.server != nil {
		b.server.stop()
	}
}

// describe prints the description.
func (b *bench) describe(ctx context.Context, out io.Writer, args []string) error {
	version, err := b.server.about(ctx, "redis_version")
	if err != nil {
		return err
	}
	d := description{
		Command:  strings.Join(append([]string{"go run ."}, args...), " "),
		Date:     time.Now().UTC().Format("2006-01-02 15:04 UTC"),
		Machine:  fmt.Sprintf("%s/%s, %d CPUs", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
		Versions: map[string]string{"redis": version, "go": runtime.Version()},
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		d.Load = strings.Join(strings.Fields(string(text))[:3], " ")
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if strings.HasSuffix(module.Path, "/asynq") || strings.HasSuffix(module.Path, "/go-redis/v9") ||
				b.postgres != nil && strings.HasSuffix(module.Path, "/river") {
				d.Versions[module.Path] = module.Version
			}
		}
	}
	if b.bullmq != nil {
		d.Versions["bullmq"] = b.bullmq.version("bullmq")
		d.Versions["ioredis"] = b.bullmq.version("ioredis")
	}
	if b.json {
		return json.NewEncoder(out).Encode(d)
	}
	fmt.Fprintf(out, "%s\n%s, %s, load %s\n", d.Command, d.Date, d.Machine, d.Load)
	for _, name := range slices.Sorted(maps.Keys(d.Versions)) {
		fmt.Fprintf(out, "%s %s\n", name, d.Versions[name])
	}
	return nil
}
