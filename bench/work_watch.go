package main

import (
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
				g.runs = append(g.runs, b.operating(s, label, func(o *operations) {
					b.watch(o, count, place)
				}))
			}
			groups = append(groups, g)
		}
	}
	return groups
}

// watch fills the queues and takes all jobs. Its figures are per call.
func (b *bench) watch(o *operations, count int, place string) {
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
		o.watchSingly(names, filled)
		return
	}
	jobs := b.operationJobs()
	for _, reserve := range []func(){
		func() { o.reserve(jobs, 1, order, names...) },
		func() { o.reserve(jobs, 16, order, names...) },
		func() { o.firstReserve(jobs, order, names) },
	} {
		o.send(jobs, func(i int) []any { return o.putInto(filled[i%len(filled)]) })
		reserve()
		o.held = nil
	}
	if o.err == nil {
		o.phases[1].jobs /= 16
	}
}

// firstReserve takes jobs one by one, each time as if no reserve had looked at the queues before.
// Forgetting what one has found costs a command.
func (o *operations) firstReserve(jobs int, order string, queues []string) {
	const phase = "first reserve(1)"
	replies := o.time(phase, jobs, 2*jobs, func(i int) []any {
		if i%2 == 0 {
			return []any{"del", "ql:x:empty"}
		}
		return o.reserveFrom(1, order, i/2%len(queues), queues)
	})
	var reserved []any
	for i := 1; i < len(replies); i += 2 {
		reserved = append(reserved, replies[i])
	}
	o.holdReserved(phase, jobs, reserved)
}

// watchSingly checks one queue after the other until one has work. Its jobs are few, because a
// hundred queues need a hundred pops each.
func (o *operations) watchSingly(names, filled []string) {
	const jobs = batchUnit
	o.send(jobs, func(i int) []any { return o.putInto(filled[i%len(filled)]) })
	asked := slices.Index(names, filled[0]) + 1 // pops, the last of which finds work
	turns := max(len(filled), asked)
	o.hold("pop(1)", jobs, o.time("pop(1)", jobs, jobs*asked, func(i int) []any {
		return o.scripts.call("pop", names[i%turns], "w", 1)
	}))
}
