package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// A bench holds the peers that workloads compare, and the current server.
type bench struct {
	*options
	server   *server // the current workload's
	args     []string
	bullmq   *bullmq   // nil if not available
	postgres *postgres // nil if not available
	programs programs
	all      []peer
	scripts  []*scripts
	settle   time.Duration // time that workers may take to become idle
	longest  float64       // longest time that a call may occupy the server, in milliseconds
}

func newBench(ctx context.Context, o *options) (*bench, error) {
	b := &bench{options: o, settle: time.Second, longest: longestStep}
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

// start starts the server for a workload.
func (b *bench) start(ctx context.Context, w workload) error {
	b.args = w.redis
	return b.renew(ctx)
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

// renew gives the workload a new server.
func (b *bench) renew(ctx context.Context) (err error) {
	if b.server != nil {
		b.server.stop()
		b.server = nil
	}
	var c *counter
	if b.instructions {
		if c, err = newCounter(b.profile); err != nil {
			return err
		}
	}
	b.server, err = startServer(ctx, c, append(b.settings(), b.args...)...)
	return err
}

// settings returns the settings of the servers as arguments.
func (o *options) settings() []string {
	var args []string
	for _, setting := range o.redis {
		name, value, _ := strings.Cut(setting, "=")
		args = append(args, "--"+name, value)
	}
	return args
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

// description describes everything that the results depend on.
type description struct {
	Command  string            `json:"command"`
	Date     string            `json:"date"`
	Machine  string            `json:"machine"`
	Load     string            `json:"load,omitempty"` // the averages of the last 1, 5 and 15 minutes
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
