package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/qless/qless-go"
)

// A job is a job in the model.
type job struct {
	jid, klass, data, queue, worker, spawnedFrom string

	state     qless.State
	priority  int
	retries   int
	remaining int
	tags      []string
	expires   float64 // the end of the lock, by the job's hash
	score     float64 // its place in the set of its state
	slack     float64 // how far the server's score may be off
	time      float64
	delayed   float64 // when it falls due after its dependencies; 0 means at once
	grace     bool
	placed    float64 // when it was put, if it returns to that place after a lost lock
	failure   failure
	options   options
	result    result
	progress  progress
	history   []event

	dependencies, dependents map[string]bool
}

// A failure is the reason for which a job failed.
type failure struct {
	group, message, worker string
	when                   float64
}

// An event is an entry of a history.
type event struct {
	what string
	when int64
}

// A recurring is a recurring job in the model.
type recurring struct {
	jid, klass, data, queue string

	priority, retries, backlog, count int

	tags     []string
	interval float64
	due      float64
}

func (r *recurring) copy() *recurring {
	copied := *r
	copied.tags = slices.Clone(r.tags)
	return &copied
}

// A handle holds the parts of a *qless.Job that matter to later calls.
type handle struct {
	jid, klass, queue, data, result string

	since float64 // when it was popped; 0 if it was only read
}

// part returns the set of a queue that holds the jobs of a state; empty if none does.
func part(state qless.State) string {
	switch state {
	case qless.StateWaiting, timedOut:
		return "work"
	case qless.StateRunning:
		return "locks"
	case qless.StateScheduled:
		return "scheduled"
	case qless.StateDepends:
		return "depends"
	}
	return ""
}

// byScore orders jobs like a sorted set.
func byScore(a, b *job) int {
	return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.jid, b.jid))
}

// jidsOf returns the jids of jobs, in order.
func jidsOf(jobs []*job) []string {
	jids := []string{}
	for _, j := range jobs {
		jids = append(jids, j.jid)
	}
	return jids
}

// sorted returns the names in a set, in order.
func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

// view shows a job as in a reply of the server, with times of 14 digits.
func (j *job) view(tracked bool, until float64) string {
	worker, expires := j.worker, j.expires
	if j.state != qless.StateRunning && j.state != timedOut {
		worker, expires = "", 0 // a retried job keeps them on the server
	}
	return fmt.Sprintf("{%s %s of %s in %q by %q, %d/%d retries, priority %d, expires %.14g, "+
		"tracked %t, from %q, data %s, tags %q, needs %q, needed by %q, failure %s, history %v, "+
		"header %q, locked for %g, to run for %g, parents %q, until %.14g, "+
		"progress %s, tenant %q}",
		j.jid, j.state, j.klass, j.queue, worker, j.remaining, j.retries, j.priority, max(expires, 0),
		tracked, j.spawnedFrom, j.data, j.tags, sorted(j.dependencies), sorted(j.dependents), j.failure,
		j.history, j.options.header, j.options.lockTime, j.options.life.runFor, j.options.parents(), until,
		j.shownProgress(), j.options.tenant())
}

// viewOf shows a job returned by the API in the same way.
func viewOf(j *qless.Job) string {
	told := job{
		jid: j.JID, klass: j.Klass, data: string(j.Data), queue: j.Queue, worker: j.Worker,
		spawnedFrom: j.SpawnedFrom, state: onServer(j.State), priority: j.Priority, retries: j.Retries,
		remaining: j.Remaining, tags: j.Tags, dependencies: setOf(j.Dependencies),
		dependents: setOf(j.Dependents),
	}
	if !j.Expires.IsZero() {
		told.expires = float64(j.Expires.UnixMicro()) / 1e6
	}
	if f := j.Failure; f != nil {
		told.failure = failure{group: f.Group, message: f.Message, worker: f.Worker}
		told.failure.when = float64(f.When.UnixMicro()) / 1e6
	}
	for _, entry := range j.History {
		told.history = append(told.history, event{what: entry.What, when: entry.When.Unix()})
	}
	told.options = options{header: j.Headers["a"], lockTime: j.Options.LockTime.Seconds(), progressed: true}
	told.options.life.runFor = j.Options.MaxRunTime.Seconds()
	told.progress = progressOf(j)
	if j.Options.Fair != "" {
		told.options.share = &share{Tenant: j.Options.Fair}
	}
	if len(j.Options.Parents) > 0 {
		told.options.policy = &policy{Of: j.Options.Parents}
	}
	return told.view(j.Tracked, secondsUntil(j.Until))
}

// secondsUntil returns a time in seconds, or 0 for none.
func secondsUntil(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMicro()) / 1e6
}

func (f failure) String() string {
	return fmt.Sprintf("{%s %q by %q at %.14g}", f.group, f.message, f.worker, f.when)
}

func setOf(names []string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		set[name] = true
	}
	return set
}

// view shows a recurring job as in a reply of the server.
func (r *recurring) view() string {
	return fmt.Sprintf("{%s of %s in %q every %.9f, count %d, priority %d, retries %d, backlog %d, "+
		"data %s, tags %q}",
		r.jid, r.klass, r.queue, r.interval, r.count, r.priority, r.retries, r.backlog, r.data, r.tags)
}

// viewOfRecurring shows a recurring job returned by the API in the same way.
func viewOfRecurring(r *qless.RecurringJob) string {
	told := recurring{
		jid: r.JID, klass: r.Klass, data: string(r.Data), queue: r.Queue, priority: r.Priority,
		retries: r.Retries, backlog: r.Backlog, count: r.Count, tags: r.Tags,
		interval: r.Interval.Seconds(),
	}
	return told.view()
}

// onServer returns the server's name of a state.
func onServer(state qless.State) qless.State {
	if state == qless.StateTimedOut {
		return timedOut
	}
	return state
}
