package main

import (
	"context"
	"fmt"
	"slices"
)

// watchGroups measures a call that finds work while a worker watches many queues, by where the
// work is; when every queue has work, they take turns. A classic client checks queue by queue.
func (b *bench) watchGroups() []group {
	var groups []group
	for _, place := range []string{"first", "last", "every"} {
		for _, s := range b.scripts {
			g := group{workload: "watch", label: fmt.Sprintf("%s work-in=%s", s.name, place)}
			for _, count := range b.watched {
				label := fmt.Sprintf("queues=%d", count)
				g.runs = append(g.runs, b.operating(s, label, func(ctx context.Context, o *operations) ([]sample, error) {
					return b.watch(ctx, o, count, place)
				}))
			}
			groups = append(groups, g)
		}
	}
	return groups
}

// watch fills the queues and takes all jobs. Its figures are per call.
func (b *bench) watch(
	ctx context.Context, o *operations, count int, place string,
) ([]sample, error) {
	jobs := b.operationJobs()
	if !o.scripts.own {
		jobs = batchUnit // a hundred queues need a hundred pops each
	}
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%03d", queueName, i)
	}
	filled, order := names, "ordered"
	switch place {
	case "first":
		filled = names[:1]
	case "last":
		filled = names[count-1:]
	case "every":
		order = "round-robin"
	}
	if !o.scripts.own {
		return b.watchSingly(ctx, o, names, filled, jobs)
	}
	var phases []sample
	for _, reserve := range []func() (sample, error){
		func() (sample, error) { return o.reserve(ctx, jobs, 1, order, names...) },
		func() (sample, error) { return o.reserve(ctx, jobs, 16, order, names...) },
		func() (sample, error) { return o.firstReserve(ctx, jobs, order, names) },
	} {
		if _, err := o.send(ctx, jobs, func(i int) []any { return o.putInto(filled[i%len(filled)]) }); err != nil {
			return nil, err
		}
		one, err := reserve()
		if err != nil {
			return nil, err
		}
		phases = append(phases, one)
		o.held = nil
	}
	phases[1].jobs /= 16
	return phases, nil
}

// firstReserve takes jobs one by one, each time as if no reserve had looked at the queues before.
// Forgetting what one has found costs a command.
func (o *operations) firstReserve(
	ctx context.Context, jobs int, order string, queues []string,
) (sample, error) {
	const phase = "first reserve(1)"
	one, replies, err := o.time(ctx, phase, jobs, 2*jobs, func(i int) []any {
		if i%2 == 0 {
			return []any{"del", "ql:x:empty"}
		}
		return o.reserveFrom(1, order, i/2%len(queues), queues)
	})
	if err != nil {
		return one, err
	}
	var reserved []any
	for i := 1; i < len(replies); i += 2 {
		reserved = append(reserved, replies[i])
	}
	return one, o.holdReserved(phase, jobs, reserved)
}

// watchSingly checks one queue after the other until one has work.
func (b *bench) watchSingly(
	ctx context.Context, o *operations, names, filled []string, jobs int,
) ([]sample, error) {
	if _, err := o.send(ctx, jobs, func(i int) []any { return o.putInto(filled[i%len(filled)]) }); err != nil {
		return nil, err
	}
	asked := slices.Index(names, filled[0]) + 1 // pops, the last of which finds work
	one, replies, err := o.time(ctx, "pop(1)", jobs, jobs*asked, func(i int) []any {
		if len(filled) > 1 {
			return o.scripts.call("pop", names[i%len(names)], "w", 1)
		}
		return o.scripts.call("pop", names[i%asked], "w", 1)
	})
	if err != nil {
		return nil, err
	}
	return []sample{one}, o.hold("pop(1)", jobs, replies)
}
