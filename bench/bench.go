package main

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"
)

// A bench holds the peers to compare, and the current server.
type bench struct {
	*options
	server   *server // of the current workload
	args     []string
	bullmq   *bullmq   // nil if not available
	postgres *postgres // nil if not available
	programs programs
	all      []peer
	scripts  []*scripts
	settle   time.Duration // time for workers to become idle
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

// description describes everything that affects the results.
type description struct {
	Command  string            `json:"command"`
	Date     string            `json:"date"`
	Machine  string            `json:"machine"`
	Load     string            `json:"load,omitempty"` // the averages of the last 1, 5 and 15 minutes
	Versions map[string]string `json:"versions"`
}

// A workload measures one thing, either by groups of runs to compare or by a function. Each
// workload has a separate, initially empty server.
type workload struct {
	name    string
	peers   bool     // measures more than scripts and servers
	counted bool     // can be measured in instructions
	builds  bool     // needs the programs of the gateways
	redis   []string // arguments of the server
	groups  func(b *bench) []group
	do      func(ctx context.Context, b *bench, r *report) error
}

// sample measures do on the server with a peer's jobs.
func (b *bench) sample(
	ctx context.Context, p peer, phase string, jobs int, do func() error,
) (sample, error) {
	if p.other == nil {
		return b.server.sample(ctx, phase, jobs, do)
	}
	before, err := p.other.cpu()
	if err != nil {
		return sample{}, err
	}
	start := time.Now()
	if err := do(); err != nil {
		return sample{}, fmt.Errorf("%s: %w", phase, err)
	}
	one := sample{phase: phase, jobs: jobs, cost: cost{elapsed: time.Since(start)}}
	after, err := p.other.cpu()
	one.CPU = after - before
	return one, err
}

// measure performs the runs of a group round by round, A B C A B C ..., to let other activity on
// the machine affect all runs equally, and reports the medians.
func (b *bench) measure(ctx context.Context, r *report, g group) error {
	measured := make([]samples, len(g.runs))
	for round := range b.rounds {
		log.Printf("%s: round %d of %d", joined(r.workload, g.label), round+1, b.rounds)
		for i, run := range g.runs {
			if err := b.server.empty(ctx); err != nil {
				return err
			}
			one, err := run.do(ctx)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", g.label, run.name(), err)
			}
			measured[i].add(one)
		}
	}
	r.compare(g, measured, b.against)
	return b.server.empty(ctx)
}
