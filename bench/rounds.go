package main

import (
	"context"
	"fmt"
	"log"
)

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
