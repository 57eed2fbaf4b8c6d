package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A gatewayPeer starts a gateway in front of the bench's server, with a folder for its files.
type gatewayPeer struct {
	name  string
	start func(ctx context.Context, b *bench, dir string) (*gateway, error)
}

var gatewayPeers = []gatewayPeer{
	{"lmstfy", func(ctx context.Context, b *bench, dir string) (*gateway, error) {
		return startLmstfy(ctx, b.server.addr(), dir, b.programs.lmstfy, "-c")
	}},
	{"qless-lmstfy", func(ctx context.Context, b *bench, dir string) (*gateway, error) {
		return startLmstfy(ctx, b.server.addr(), dir, b.programs.qless, "serve", "lmstfy", "-c")
	}},
	{"qless-workq", func(ctx context.Context, b *bench, _ string) (*gateway, error) {
		return startWorkq(ctx, b.server.addr(), b.programs.qless)
	}},
}

// gatewayGroups compares gateways for each number of clients.
func (b *bench) gatewayGroups() []group {
	var groups []group
	for _, clients := range b.concurrency {
		g := group{label: fmt.Sprintf("%d clients", clients)}
		for _, p := range gatewayPeers {
			if !b.hasGateway(p.name) {
				continue
			}
			g.runs = append(g.runs, run{peer: p.name, do: func(ctx context.Context) ([]sample, error) {
				return b.useGateway(ctx, p, clients)
			}})
		}
		groups = append(groups, g)
	}
	return groups
}

// buildGateways builds the programs of the gateways.
func (b *bench) buildGateways(ctx context.Context) (err error) {
	p := &b.programs
	if p.dir, err = os.MkdirTemp("", "qless-bench-"); err != nil {
		return err
	}
	if p.qless, err = buildProgram(ctx, p.dir, "cmd", "./qless"); err != nil {
		return err
	}
	if b.hasGateway("lmstfy") {
		p.lmstfy, err = buildProgram(ctx, p.dir, "bench", "github.com/bitleak/lmstfy/server",
			"-modfile=lmstfy.mod")
	}
	return err
}

// hasGateway reports whether a gateway is among the peers.
func (b *bench) hasGateway(name string) bool {
	return len(b.peers) == 0 || slices.Contains(b.peers, name)
}

// useGateway measures a freshly started gateway, after a few jobs.
func (b *bench) useGateway(ctx context.Context, p gatewayPeer, clients int) ([]sample, error) {
	g, err := p.start(ctx, b, b.programs.dir)
	if err != nil {
		return nil, err
	}
	defer g.kill()
	const few = 200
	if err := errors.Join(g.put(4, few), g.work(4, few)); err != nil {
		return nil, err
	}
	put, failed := b.gatewayPhase(ctx, g, "put", func() error { return g.put(clients, b.jobs) })
	took, err := b.gatewayPhase(ctx, g, "take and end", func() error {
		return g.work(clients, b.jobs)
	})
	if err = errors.Join(failed, err); err != nil {
		return nil, err
	}
	waits, err := g.wake(clients, min(b.jobs, 500))
	return []sample{put, took, {phase: "put to answer", jobs: len(waits), waits: waits}}, err
}

// gatewayPhase measures the gateway and its Redis.
func (b *bench) gatewayPhase(
	ctx context.Context, g *gateway, phase string, do func() error,
) (sample, error) {
	before, err := g.cpu()
	if err != nil {
		return sample{}, err
	}
	one, err := b.server.sample(ctx, phase, b.jobs, do)
	if err != nil {
		return one, err
	}
	after, err := g.cpu()
	one.client = after - before
	return one, err
}

// together calls do for a number of clients concurrently.
func (g *gateway) together(clients int, do func(c gatewayClient) error) error {
	return each(make([]struct{}, clients), func(struct{}) error {
		c, err := g.dial(g.addr)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		return do(c)
	})
}

// put makes clients put jobs.
func (g *gateway) put(clients, jobs int) error {
	var begun atomic.Int64
	return g.together(clients, func(c gatewayClient) error {
		for begun.Add(1) <= int64(jobs) {
			if err := c.put("q", time.Hour); err != nil {
				return err
			}
		}
		return nil
	})
}

// work makes clients take jobs and end them.
func (g *gateway) work(clients, jobs int) error {
	var begun atomic.Int64
	var seen sync.Map
	return g.together(clients, func(c gatewayClient) error {
		for begun.Add(1) <= int64(jobs) {
			id, err := c.take("q")
			if err == nil {
				err = c.end("q", id)
			}
			if err != nil {
				return err
			}
			if _, again := seen.LoadOrStore(id, true); again {
				return fmt.Errorf("the job %s was taken twice", id)
			}
		}
		return nil
	})
}

// wake puts jobs one at a time while clients wait, and returns the time of arrival of each.
func (g *gateway) wake(clients, jobs int) (waits []time.Duration, err error) {
	arrived, ended := make(chan time.Time, clients), make(chan error, 1)
	var stopping atomic.Bool
	go func() {
		ended <- g.together(clients, func(c gatewayClient) error {
			for !stopping.Load() {
				id, err := c.take("w")
				if err == nil && id != "" {
					arrived <- time.Now()
					err = c.end("w", id)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}()
	err = g.together(1, func(c gatewayClient) error {
		for range jobs {
			time.Sleep(2 * time.Millisecond)
			began := time.Now()
			if err := c.put("w", time.Hour); err != nil {
				return err
			}
			select {
			case at := <-arrived:
				waits = append(waits, at.Sub(began))
			case err := <-ended:
				return fmt.Errorf("the consumers have ended: %w", err)
			}
		}
		return nil
	})
	stopping.Store(true)
	return waits, errors.Join(err, <-ended)
}
