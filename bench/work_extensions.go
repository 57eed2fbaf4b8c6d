package main

import (
	"fmt"
)

// An extension is what a put and a complete say of an option that the layout of qless lacks.
type extension struct {
	name   string
	put    func(n int64) []any // pairs; n is different for each job
	finish []any               // pairs

	onlyPut  bool  // the jobs are put beside the job other, and not run
	other    []any // pairs of the job other
	progress bool  // the worker says how far the jobs are
	limit    []any // the definition of the limit "limit", if there is one
}

// stored returns an extension that is options of a job, in the form of its field x:o.
func stored(name, options string) extension {
	return extension{name: name, put: func(int64) []any { return []any{"o", options} }}
}

// limited returns an extension for jobs that share a limit, which always has room.
func limited(name string, definition ...any) extension {
	e := stored(name, `c|{"c":["limit"]}`)
	e.limit = definition
	return e
}

// claiming returns an extension that claims a key which nobody has, by pairs that follow.
func claiming(name, mode string, pairs ...any) extension {
	return extension{name: name, put: func(n int64) []any {
		return append([]any{"o", fmt.Sprintf(`u|{"u":{"k":"[%d]"%s}}`, n, mode)}, pairs...)
	}}
}

// other is a job that waits for the jobs of the workload, or that they wait for.
const other = "other"

// fairTenants is how many share a queue.
const fairTenants = 10

func extensions() []extension {
	none := func(int64) []any { return nil }
	depends := []any{"depends", `["` + other + `"]`}
	return []extension{
		{name: "none", put: none},
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
		{name: "SetResult", put: none, finish: []any{"result", `{"sum":42}`}},
		{name: "SetProgress", put: none, progress: true},
		stored("Wait", `w|{}`),
		{name: "DependsOn", onlyPut: true, put: func(int64) []any { return depends }},
		{name: "DependsOn, OnFailure", onlyPut: true, put: func(int64) []any {
			return append([]any{"o", `f|{"f":{"do":"run","of":["` + other + `"]}}`}, depends...)
		}},
		{
			name: "Batch.Add", onlyPut: true, other: []any{"o", `b|{"b":{"n":0}}`, "depends", `["x:open"]`},
			put: func(int64) []any { return []any{"batch", other} },
		},
	}
}

// extensionsGroup measures what an option of a job adds to putting, reserving and completing it.
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
	queue := queueName
	if e.onlyPut {
		queue = "others"
		o.send(1, func(int) []any {
			return append(o.scripts.call("put", "w", queueName, other, klass, o.payload, 0), e.other...)
		})
	}
	if e.limit != nil {
		o.send(1, func(int) []any {
			return o.scripts.call("limit.set", append([]any{"limit"}, e.limit...)...)
		})
	}
	put := func(int) []any { return append(o.putInto(queue), e.put(o.next)...) }
	o.time("put", jobs, jobs, put)
	if e.onlyPut {
		return
	}
	o.send(bulkSize, put) // some jobs are left over, so that every reserve does the same work
	o.reserve(jobs, 16)
	if e.progress {
		o.progress(16)
	}
	o.outcome = e.finish
	o.finish(16)
}
