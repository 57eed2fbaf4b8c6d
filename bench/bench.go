package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// A bench has what workloads compare, and the server for it.
type bench struct {
	*options
	server  *server
	bullmq  *bullmq // nil if not available
	all     []peer
	scripts []*scripts
	settle  time.Duration // how long workers may take to become idle
}

func newBench(ctx context.Context, o *options) (_ *bench, err error) {
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
	if o.instructions {
		b.server, err = startCounted(ctx, o.profile, o.settings()...)
	} else {
		b.server, err = startServer(ctx, nil, o.settings()...)
	}
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
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

// A run performs a workload once with a peer, on an empty server.
type run struct {
	peer  string
	label string // distinguishes it from other runs of that peer in its group
	do    func(ctx context.Context) ([]sample, error)
}

// A group is a set of runs that are compared with each other.
type group struct {
	workload string
	label    string
	runs     []run
}

// measure performs the runs of a group round by round, A B C A B C ..., so that other activity on
// the machine affects all of them equally.
func (b *bench) measure(ctx context.Context, g group) ([]row, error) {
	measured := make([]samples, len(g.runs))
	for round := range b.rounds {
		log.Printf("%s: round %d of %d", joined(g.workload, g.label), round+1, b.rounds)
		for i, r := range g.runs {
			if err := b.server.empty(ctx); err != nil {
				return nil, err
			}
			one, err := r.do(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", joined(g.workload, g.label), joined(r.peer, r.label), err)
			}
			measured[i].add(one)
		}
	}
	return rowsOf(g, measured, b.against), b.server.empty(ctx)
}

// description holds everything that the results depend on.
type description struct {
	Command  string            `json:"command"`
	Date     string            `json:"date"`
	Machine  string            `json:"machine"`
	Load     string            `json:"load,omitempty"` // of the last 1, 5 and 15 minutes
	Scripts  []string          `json:"scripts,omitempty"`
	Versions map[string]string `json:"versions"`
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
		Scripts:  b.classic,
		Versions: map[string]string{"redis": version, "go": runtime.Version()},
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		d.Load = strings.Join(strings.Fields(string(text))[:3], " ")
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
	if b.json {
		return json.NewEncoder(out).Encode(d)
	}
	fmt.Fprintf(out, "%s\n%s, %s, load %s\n", d.Command, d.Date, d.Machine, d.Load)
	for _, name := range slices.Sorted(maps.Keys(d.Versions)) {
		fmt.Fprintf(out, "%s %s\n", name, d.Versions[name])
	}
	for _, file := range d.Scripts {
		fmt.Fprintf(out, "%s is %s\n", scriptName(file), file)
	}
	return nil
}
