package main

import (
	"context"
	"errors"
)

// memoryGroup measures the memory of a waiting job of 100 bytes, with the server's defaults and
// with small hashes packed up to 1024 bytes per field.
func (b *bench) memoryGroup() []group {
	g := group{workload: "memory", label: "waiting jobs of 100 bytes"}
	l := load{concurrency: 16, workers: 1, payload: payloadOf(100)}
	for _, packed := range []string{"", "1024"} {
		label := ""
		if packed != "" {
			label = "hash-max-listpack-value=" + packed
		}
		seen := map[string]bool{}
		for _, p := range b.peers {
			if seen[p.layout] {
				continue
			}
			seen[p.layout] = true
			g.runs = append(g.runs, run{peer: p.layout, label: label, do: func(ctx context.Context) ([]sample, error) {
				return b.weighWaiting(ctx, p, l, packed)
			}})
		}
	}
	return []group{g}
}

func (b *bench) weighWaiting(
	ctx context.Context, p peer, l load, packed string,
) (phases []sample, err error) {
	if packed != "" {
		restore, err := b.server.set(ctx, "hash-max-listpack-value", packed)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, restore()) }()
	}
	s, err := p.open(ctx, b.server, l)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	// The first jobs open connections and load scripts, which take memory too.
	if err := s.enqueue(ctx, b.jobs); err != nil {
		return nil, err
	}
	before, err := b.server.read(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.enqueue(ctx, b.jobs); err != nil {
		return nil, err
	}
	after, err := b.server.read(ctx)
	return []sample{{phase: "waiting", jobs: b.jobs, memory: after.Memory - before.Memory}}, err
}
