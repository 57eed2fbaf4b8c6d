package main

import (
	"context"
	"errors"
	"math"
	"time"
)

// idleGroup measures what idle workers cost the server per second, in CPU us and in commands.
func (b *bench) idleGroup() []group {
	g := group{workload: "idle", label: "a second of 16 idle workers"}
	g.runs = append(g.runs, run{peer: "no workers", do: func(ctx context.Context) ([]sample, error) {
		return b.rest(ctx)
	}})
	l := load{concurrency: 1, workers: 16, payload: payloadOf(100)}
	for _, p := range b.peers {
		if p.waits {
			g.runs = append(g.runs, run{peer: p.name, do: func(ctx context.Context) (phases []sample, err error) {
				s, _, err := b.openIdle(ctx, p, l)
				if err != nil {
					return nil, err
				}
				defer func() { err = errors.Join(err, s.close()) }()
				return b.rest(ctx)
			}})
		}
	}
	return []group{g}
}

// rest measures the server while no calls are made.
func (b *bench) rest(ctx context.Context) ([]sample, error) {
	seconds := int(math.Ceil(b.idle.Seconds()))
	one, err := b.server.measure(ctx, "idle", seconds, func() error {
		select {
		case <-time.After(time.Duration(seconds) * time.Second):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	one.elapsed = 0
	return []sample{one}, err
}
