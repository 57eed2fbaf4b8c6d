package main

import (
	"context"
	"fmt"
)

// An extension is what a put and a complete say of an option that the layout of qless lacks.
type extension struct {
	name   string
	put    func(n int64) []any // pairs; n is different for each job
	finish []any               // pairs
	waits  bool                // the jobs wait for another one, and are only put
}

// stored returns an extension that is options of a job, in the form of its field x:o.
func stored(name, options string) extension {
	return extension{name: name, put: func(int64) []any { return []any{"o", options} }}
}

// blocker is a job that others wait for.
const blocker = "blocker"

func extensions() []extension {
	none := func(int64) []any { return nil }
	depends := []any{"depends", `["` + blocker + `"]`}
	return []extension{
		{name: "none", put: none},
		stored("Header", `h|{"h":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}`),
		stored("LockTime", `l|{"l":60}`),
		stored("OnLost", `q|{"q":"place"}`),
		{name: "IfAbsent", put: func(int64) []any { return []any{"if", "absent"} }},
		{name: "Unique", put: func(n int64) []any {
			return []any{"o", fmt.Sprintf(`u|{"u":{"k":"[%d]"}}`, n)}
		}},
		{name: "Unique.UntilStarted", put: func(n int64) []any {
			return []any{"o", fmt.Sprintf(`u|{"u":{"k":"[%d]","m":"start"}}`, n)}
		}},
		{name: "SetResult", put: none, finish: []any{"result", `{"sum":42}`}},
		stored("Wait", `w|{}`),
		{name: "DependsOn", waits: true, put: func(int64) []any { return depends }},
		{name: "DependsOn, OnFailure", waits: true, put: func(int64) []any {
			return append([]any{"o", `f|{"f":{"do":"run","of":["` + blocker + `"]}}`}, depends...)
		}},
	}
}

// extensionsGroup measures what an option of a job adds to putting, reserving and completing it.
func (b *bench) extensionsGroup() []group {
	g := group{workload: "extensions", label: fmt.Sprintf("pipelines of %d", pipelined)}
	for _, s := range b.scripts {
		if !s.own {
			continue
		}
		for _, e := range extensions() {
			g.runs = append(g.runs, b.operating(s, e.name, func(ctx context.Context, o *operations) ([]sample, error) {
				return b.extended(ctx, o, e)
			}))
		}
	}
	return []group{g}
}

func (b *bench) extended(ctx context.Context, o *operations, e extension) ([]sample, error) {
	jobs := b.operationJobs()
	queue := queueName
	if e.waits {
		queue = "waiting"
		_, err := o.send(ctx, 1, func(int) []any {
			return o.scripts.call("put", "w", queueName, blocker, klass, o.payload, 0)
		})
		if err != nil {
			return nil, err
		}
	}
	put := func(jobs int) (sample, error) {
		one, _, err := o.time(ctx, "put", jobs, jobs, func(int) []any {
			return append(o.putInto(queue), e.put(o.next)...)
		})
		return one, err
	}
	phases, err := inOrder(func() (sample, error) { return put(jobs) })
	if err != nil || e.waits {
		return phases, err
	}
	// Some jobs are left over, so that every reserve does the same work.
	if _, err := put(bulkSize); err != nil {
		return nil, err
	}
	o.outcome = e.finish
	more, err := inOrder(
		func() (sample, error) { return o.reserve(ctx, jobs, 16, "ordered", queueName) },
		func() (sample, error) { return o.finish(ctx, 16) },
	)
	return append(phases, more...), err
}
