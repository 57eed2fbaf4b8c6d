package doctor_test

import (
	"reflect"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/internal/testkit"
)

// furnish puts jobs in all states into the namespace, with all kinds of related keys.
func (e *env) furnish() {
	e.t.Helper()
	e.put("q", "running", qless.Priority(9), qless.Tags{"red"})
	e.pop("q", 1)
	e.put("q", "failed complete other", qless.Tags{"red", "blue"})
	jobs := e.pop("q", 3)
	e.do(jobs[0].Fail(e.ctx, "group", "why"))
	e.do(jobs[1].Complete(e.ctx))
	e.do(jobs[2].Fail(e.ctx, "group", "why"))
	e.put("q", "waiting", qless.Priority(3), qless.Tags{"red", "green"}, qless.TTL(time.Hour))
	e.put("q", "scheduled", qless.Delay(time.Hour))
	e.put("q", "depends", qless.DependsOn{"waiting", "running"})
	e.put("q", "unique", qless.Unique("key"))
	e.do(errOf(e.Queue("q").Recur(e.ctx, "K", nil, time.Hour, qless.JID("recurring"), qless.Offset(time.Minute))))
	e.do(must(e.Job(e.ctx, "waiting"))(e.t).Track(e.ctx))
	e.do(errOf(e.NewBatch(e.ctx, "q", qless.NewKlass[any]("K").Spec(nil, qless.JID("batch")))))
	e.do(e.Limit("limit").Set(e.ctx, qless.LimitConfig{Concurrency: 1}))
	e.put("limited", "slot", qless.Limits{"limit"})
	e.put("limited", "parked", qless.Limits{"limit"})
	e.pop("limited", 1)
	e.do(errOf(e.Queue("limited").Pop(e.ctx, 1)))
	e.put("fair", "one", qless.Priority(3), qless.Fair("other"))
	e.do(e.Config().Set(e.ctx, "q-max-rate", "100/1"))
}

// examine returns the findings, except for those about the server.
func (e *env) examine() []doctor.Reason {
	e.t.Helper()
	report := e.report(e.options())
	require.False(e.t, report.Truncated)
	require.Empty(e.t, report.Skipped)
	return slices.DeleteFunc(report.Findings, func(f doctor.Reason) bool {
		return f.Code == doctor.ReasonNoPersistence
	})
}

func (e *env) report(options doctor.Options) *doctor.Report {
	e.t.Helper()
	return must(doctor.Examine(e.ctx, e.rdb, options))(e.t)
}

func (e *env) options() doctor.Options {
	options := doctor.Options{Step: 10, Pause: -1}
	if e.clock != nil {
		options.Clock = e.clock.Now
	}
	return options
}

// fix repairs findings.
func (e *env) fix(findings ...doctor.Reason) []doctor.Reason {
	e.t.Helper()
	return must(doctor.Fix(e.ctx, e.rdb, e.options(), findings...))(e.t)
}

func (e *env) dump() testkit.Keyspace { return testkit.Dump(e.t, e.rdb, "*") }

// changed returns the keys that differ between two dumps, in order.
func changed(before, after testkit.Keyspace) []string {
	var keys []string
	for key := range before {
		if !reflect.DeepEqual(before[key], after[key]) {
			keys = append(keys, key)
		}
	}
	for key := range after {
		if _, ok := before[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}
