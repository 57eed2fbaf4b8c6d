package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go"
)

// bench holds everything that can be measured.
type bench struct {
	server  *server
	bullmq  *bullmq // nil if not available
	peers   []peer
	scripts []*scripts
	against []string
	files   []string // the classic scripts' files
	leftOut string   // what is not available

	rounds, jobs, pickups   int
	concurrencies, payloads []int
	depths, kept, queues    []int
	idle                    time.Duration
	settle                  time.Duration // how long workers may take to become idle
}

func newBench(ctx context.Context, o *options) (*bench, error) {
	b := &bench{
		against: o.against, files: o.classic,
		rounds: o.rounds, jobs: o.jobs, pickups: o.pickups,
		concurrencies: o.concurrency, payloads: o.payload,
		depths: o.depth, kept: o.kept, queues: o.queues,
		idle: o.idle, settle: time.Second,
	}
	if err := b.findScripts(o); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(o.workloads, needsPeers) {
		if err := b.findPeers(ctx, o.peers); err != nil {
			b.close()
			return nil, err
		}
	}
	var settings []string
	for _, setting := range o.redis {
		name, value, _ := strings.Cut(setting, "=")
		settings = append(settings, "--"+name, value)
	}
	var err error
	if b.server, err = b.start(ctx, o, settings); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// start starts the server: under callgrind if instructions are to be counted.
func (b *bench) start(ctx context.Context, o *options, settings []string) (*server, error) {
	if o.instructions {
		return startCounted(ctx, o.profile, settings...)
	}
	return startServer(ctx, settings...)
}

func (b *bench) close() {
	if b.bullmq != nil {
		b.bullmq.remove()
	}
	if b.server != nil {
		b.server.stop()
	}
}

// findScripts loads the scripts: classic ones first, then ours.
func (b *bench) findScripts(o *options) error {
	for _, path := range o.classic {
		s, err := classicScripts(path)
		if err != nil {
			return err
		}
		b.scripts = append(b.scripts, s)
	}
	for i, folder := range o.lua {
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

// findPeers selects the requested peers, or all available ones.
func (b *bench) findPeers(ctx context.Context, wanted []string) error {
	var all []peer
	for _, s := range b.scripts[:len(b.files)] {
		all = append(all, peer{name: s.name, layout: s.name, open: openClassic(s)})
	}
	all = append(all,
		peer{name: "qless-single", layout: "qless",
			open: openQless(putSingly, popSingly, qless.ClientConfig{Unbatched: true})},
		peer{name: "qless-unbatched", layout: "qless",
			open: openQless(putSingly, runWorkers, qless.ClientConfig{Unbatched: true})},
		peer{name: "qless-worker", layout: "qless", waits: true, open: openQless(putSingly, runWorkers, qless.ClientConfig{})},
		peer{name: "qless-bulk", layout: "qless", open: openQless(putInBulk, runWorkers, qless.ClientConfig{})},
		peer{name: "qless-dropin", layout: "qless", open: openClassic(dropIn())},
		peer{name: "asynq", layout: "asynq", waits: true, open: openAsynq},
		peer{name: "floor", layout: "floor", open: openFloor},
	)
	everything := len(wanted) == 0
	if everything || slices.ContainsFunc(wanted, isBullMQ) {
		var err error
		if b.bullmq, err = installBullMQ(ctx); err != nil {
			log.Printf("skipping BullMQ: %v", err)
			b.leftOut = "bullmq"
			wanted = slices.DeleteFunc(slices.Clone(wanted), isBullMQ)
		} else {
			all = append(all,
				peer{name: "bullmq", layout: "bullmq", waits: true, apart: true, open: b.bullmq.open(false)},
				peer{name: "bullmq-bulk", layout: "bullmq", apart: true, open: b.bullmq.open(true)},
			)
		}
	}
	if everything {
		b.peers = all
		return nil
	}
	for _, name := range wanted {
		at := slices.IndexFunc(all, func(p peer) bool { return p.name == name })
		if at < 0 {
			return fmt.Errorf("unknown peer %q; see -h", name)
		}
		b.peers = append(b.peers, all[at])
	}
	return nil
}

// needsPeers reports whether a workload measures more than scripts.
func needsPeers(workload string) bool {
	return slices.Contains([]string{"job", "pickup", "idle", "memory"}, workload)
}

func isBullMQ(name string) bool { return strings.HasPrefix(name, "bullmq") }

// groups returns what the workloads compare.
func (b *bench) groups(workloads []string) ([]group, error) {
	known := map[string]func() []group{
		"ops": b.opsGroup, "job": b.jobGroups, "depth": b.depthGroups, "kept": b.keptGroups,
		"queues": b.queuesGroups, "pickup": b.pickUpGroups, "idle": b.idleGroup, "memory": b.memoryGroup,
		"extensions": b.extensionsGroup, "prices": b.pricesGroup,
	}
	var groups []group
	for _, name := range workloads {
		make, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("unknown workload %q; see -h", name)
		}
		groups = append(groups, make()...)
	}
	return groups, nil
}

// description holds everything that the results depend on.
type description struct {
	Command  string            `json:"command"`
	Date     string            `json:"date"`
	Machine  string            `json:"machine"`
	Scripts  []string          `json:"scripts"`
	Versions map[string]string `json:"versions"`
	LeftOut  string            `json:"left_out,omitempty"`
}

// describe prints the description.
func (b *bench) describe(ctx context.Context, out io.Writer, args []string, asJSON bool) error {
	version, err := b.server.version(ctx)
	if err != nil {
		return err
	}
	d := description{
		Command:  strings.Join(append([]string{"go run ."}, args...), " "),
		Date:     time.Now().Format(time.DateOnly),
		Machine:  fmt.Sprintf("%s/%s, %d CPUs", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
		Scripts:  b.files,
		Versions: map[string]string{"redis": version, "go": runtime.Version()},
		LeftOut:  b.leftOut,
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if strings.HasSuffix(module.Path, "/asynq") || strings.HasSuffix(module.Path, "/go-redis/v9") {
				d.Versions[module.Path] = module.Version
			}
		}
	}
	if b.bullmq != nil {
		d.Versions["bullmq"] = b.bullmq.version("bullmq")
		d.Versions["ioredis"] = b.bullmq.version("ioredis")
	}
	if asJSON {
		return json.NewEncoder(out).Encode(d)
	}
	fmt.Fprintf(out, "%s\n%s, %s\n", d.Command, d.Date, d.Machine)
	for _, name := range slices.Sorted(maps.Keys(d.Versions)) {
		fmt.Fprintf(out, "%s %s\n", name, d.Versions[name])
	}
	if b.leftOut != "" {
		fmt.Fprintf(out, "%s is skipped\n", b.leftOut)
	}
	for _, file := range b.files {
		fmt.Fprintf(out, "%s is %s\n", scriptName(file), file)
	}
	return nil
}
