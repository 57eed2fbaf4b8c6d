package main

import (
	"fmt"
)

// An extension holds the arguments of put and complete for an option that the layout of qless
// lacks.
type extension struct {
	name   string
	put    func(n int64) []any // pairs; n is different for each job
	finish []any               // pairs

	beside   bool  // the job other exists, in another queue
	other    []any // pairs of other
	waits    bool  // the jobs wait for other, and are not run
	progress bool  // the worker reports the jobs' progress
	limit    []any // the definition of the limit "limit", if there is one
}

// stored returns an extension for options of a job, in the format of its field x:o.
func stored(name, options string) extension {
	return extension{name: name, put: func(int64) []any { return []any{"o", options} }}
}

// limited returns an extension for jobs that share a limit, which always has free slots.
func limited(name string, definition ...any) extension {
	e := stored(name, `c|{"c":["limit"]}`)
	e.limit = definition
	return e
}

// claiming returns an extension that claims a free key, with further pairs.
func claiming(name, mode string, pairs ...any) extension {
	return extension{name: name, put: func(n int64) []any {
		return append([]any{"o", fmt.Sprintf(`u|{"u":{"k":"[%d]"%s}}`, n, mode)}, pairs...)
	}}
}

// other is the jid of a job that waits for the jobs of the workload, or the other way round.
const other = "other"

// fairTenants is the number of tenants that share a queue.
const fairTenants = 10

func extensions() []extension {
	depends := []any{"depends", `["` + other + `"]`}
	return []extension{
		{name: "none", put: plain},
		stored("Header",
			`h|{"h":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}`),
		stored("LockTime", `l|{"l":60}`),
		stored("OnLost", `q|{"q":"place"}`),
		stored("StartBy", `s|{"s":3600}`),
		stored("TTL", `t|{"t":3600}`),
		stored("KeepFor", `k|{"k":3600}`),
		stored("KeepFor(0)", `k|{"k":0}`),
		stored("MaxRunTime", `e|{"e":60}`),
		{name: "IfAbsent", put: func(int64) []any { return []any{"if", "absent"} }},
		claiming("Unique", ""),
		claiming("Unique.UntilStarted", `,"m":"start"`),
		claiming("Unique.Replace", "", "replace", "delay"),
		{name: "Fair", put: func(n int64) []any {
			return []any{"o", fmt.Sprintf(`g|{"g":{"t":"tenant-%d"}}`, n%fairTenants)}
		}},
		limited("Limits, concurrency", 1_000_000, 0, 0),
		limited("Limits, rate", 0, 1_000_000, 60),
		{name: "SetResult", put: plain, finish: []any{"result", `{"sum":42}`}},
		{name: "SetProgress", put: plain, progress: true},
		stored("Wait", `w|{}`),
		{name: "DependsOn", beside: true, waits: true, put: func(int64) []any { return depends }},
		{name: "DependsOn, OnFailure", beside: true, waits: true, put: func(int64) []any {
			return append([]any{"o", `f|{"f":{"do":"run","of":["` + other + `"]}}`}, depends...)
		}},
		{
			name: "Batch.Add", beside: true, other: []any{"o", `b|{"b":{"n":0}}`, "depends", `["x:open"]`},
			put: func(int64) []any { return []any{"batch", other} },
		},
	}
}

// extensionsGroup measures the cost that each option of a job adds to putting, reserving and
// completing it.
func (b *bench) extensionsGroup() []group {
	g := group{label: fmt.Sprintf("pipelines of %d", pipelined)}
	for _, s := range b.scripts {
		if !s.own {
			continue
		}
		for _, e := range extensions() {
			g.runs = append(g.runs, b.operating(s, e.name, func(o *operations) { b.extended(o, e) }))
		}
	}
	return []group{g}
}

func (b *bench) extended(o *operations, e extension) {
	jobs := b.operationJobs()
	if e.beside {
		o.send(1, func(int) []any {
			return append(o.scripts.call("put", "w", "others", other, klass, o.payload, 0), e.other...)
		})
	}
	if e.limit != nil {
		o.send(1, func(int) []any {
			return o.scripts.call("limit.set", append([]any{"limit"}, e.limit...)...)
		})
	}
	o.time("put", jobs, jobs, func(int) []any {
		return append(o.putCall(), e.put(o.next)...)
	})
	o.putMany(jobs, e.put)
	if e.waits {
		return
	}
	o.reserve(jobs, 16)
	if e.progress {
		o.progress(16)
	}
	o.outcome = e.finish
	o.finish(16)
}
