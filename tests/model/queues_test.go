package model

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/qless/qless-go"
)

// queues is the model: the contents of a namespace, and the effects of every call.
type queues struct {
	now   float64 // the time of the call
	stamp string  // the time as received by scripts

	jobs     map[string]*job
	recurs   map[string]*recurring
	groups   map[string][]string           // the failed jobs of a group, the latest first
	filed    map[string]float64            // when failed jobs with an age limit failed
	held     map[string]map[string]float64 // when locks end, by worker and jid
	seen     map[string]float64            // when workers last asked for jobs
	known    map[string]float64            // when queues were first seen
	tracked  map[string]float64
	paused   map[string]bool
	config   map[string]string
	claims   map[string]storedClaim       // by unique key
	followed map[string]string            // by unique key: the job followed by the last put
	sharing  map[string]bool              // jobs that continue although another job has their key
	until    map[string]float64           // when to check jobs for ended lives
	fair     map[turns]map[string]float64 // when tenants' last turns end
	server   *keyspace                    // the keyspace before the call

	vanished int // the number of jobs expired before their end

	stats map[statKey]*stats

	handles      map[handleKey][]*handle // the latest first
	recurHandles map[string]*recurring   // recurring jobs as last read
	inOrder      []string                // jobs of the last call, which must be popped in this order
	madeLast     int                     // the number of lost jobs put last by the last call
	anyOrder     bool                    // the last call notified several jobs in an unknown order
	linked       map[string]bool         // jobs made dependents by the last call
	unlisted     map[string]float64      // when queues got jobs by unfail, which does not list them
	left         map[handleKey]bool      // jobs in the list of a timed-out worker
	forgotten    map[handleKey]bool      // jobs with a forgotten worker's list
	changed      map[string]float64      // limits: until when parked jobs may not have noticed a change
}

type statKey struct {
	day   int64
	queue string
}

// stats holds the counts for a queue and a day.
type stats struct {
	retries, failures, failed, waits, runs, expired int
}

type handleKey struct{ worker, jid string }

func newQueues() *queues {
	return &queues{
		jobs: map[string]*job{}, recurs: map[string]*recurring{}, groups: map[string][]string{},
		filed: map[string]float64{},
		held:  map[string]map[string]float64{}, seen: map[string]float64{}, known: map[string]float64{},
		tracked: map[string]float64{}, paused: map[string]bool{}, config: map[string]string{},
		claims: map[string]storedClaim{}, sharing: map[string]bool{}, until: map[string]float64{},
		followed: map[string]string{},
		fair:     map[turns]map[string]float64{},
		stats:    map[statKey]*stats{}, handles: map[handleKey][]*handle{}, recurHandles: map[string]*recurring{},
		changed: map[string]float64{}, unlisted: map[string]float64{}, left: map[handleKey]bool{}, forgotten: map[handleKey]bool{},
	}
}

// setting returns a numeric setting, or its default.
func (m *queues) setting(option string, otherwise float64) float64 {
	n, err := strconv.ParseFloat(m.config[option], 64)
	if err != nil {
		return otherwise
	}
	return n
}

func (m *queues) heartbeat(queue string) float64 {
	return m.setting(queue+"-heartbeat", m.setting("heartbeat", 60))
}

// count returns the statistics of a queue on the day of a time.
func (m *queues) count(queue string, at float64) *stats {
	key := statKey{day: int64(math.Floor(at/86400)) * 86400, queue: queue}
	if m.stats[key] == nil {
		m.stats[key] = &stats{}
	}
	return m.stats[key]
}

// in returns the jobs in a part of a queue, lowest score first.
func (m *queues) in(queue, name string) []*job {
	var jobs []*job
	for _, j := range m.jobs {
		if j.queue == queue && part(j.state) == name {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, byScore)
	return jobs
}

// hasJobs reports whether a queue has jobs that have not ended, or recurring ones.
func (m *queues) hasJobs(queue string) bool {
	for _, r := range m.recurs {
		if r.queue == queue {
			return true
		}
	}
	return slices.ContainsFunc([]string{"work", "locks", "scheduled", "depends"}, func(name string) bool {
		return len(m.in(queue, name)) > 0
	})
}

// work returns the waiting jobs of a queue in the order of popping.
func (m *queues) work(queue string) []*job {
	jobs := m.in(queue, "work")
	slices.Reverse(jobs)
	return jobs
}

// until returns the jobs up to a time, in the order of their scores.
func until(jobs []*job, time float64) []*job {
	for i, j := range jobs {
		if j.score > time {
			return jobs[:i]
		}
	}
	return jobs
}

func first[T any](list []T, n int) []T { return list[:max(0, min(n, len(list)))] }

// record adds an entry to a job's history, and keeps the first and the newest entries.
func (m *queues) record(j *job, what string, at float64) {
	j.history = append(j.history, event{what: what, when: int64(math.Floor(at))})
	limit := int(m.setting("max-job-history", 100))
	if n := len(j.history); limit > 0 && n > limit && n > 2 {
		newest := j.history[n-max(limit-1, 1):]
		j.history = append([]event{j.history[0]}, newest...)
	}
}

func (m *queues) know(queue string) {
	if _, known := m.known[queue]; !known {
		m.known[queue] = m.now
	}
	delete(m.unlisted, queue)
}

// knowUnlisted is the same for a queue that receives jobs by unfail, which is only in our own list.
func (m *queues) knowUnlisted(queue string) {
	_, known := m.known[queue]
	if _, unlisted := m.unlisted[queue]; !known && !unlisted {
		m.unlisted[queue] = m.now
	}
}

// workScore returns a job's score, which is higher for jobs to pop earlier.
func workScore(at float64, priority int) float64 { return float64(priority) - at/1e10 }

// enqueue makes a job wait in its queue for its turn.
func (m *queues) enqueue(j *job, at float64) {
	j.state, j.score = qless.StateWaiting, workScore(at, j.priority)
}

// delay makes a job wait for a time.
func (m *queues) delay(j *job, due float64) { j.state, j.score = qless.StateScheduled, due }

// place puts a job where its dependencies and its delay allow.
func (m *queues) place(j *job, delay float64) {
	j.delayed = 0
	switch {
	case len(j.dependencies) > 0:
		j.state, j.score = qless.StateDepends, m.now
		if delay > 0 {
			j.delayed = m.now + delay
		}
	case delay > 0:
		m.delay(j, m.now+delay)
	default:
		m.enqueue(j, m.now)
	}
}

// dependOn makes a job wait for the existing, incomplete jobs.
func (m *queues) dependOn(j *job, jids []string) {
	for _, jid := range jids {
		other := m.jobs[jid]
		if other != nil && other != j && other.state != qless.StateComplete {
			other.dependents[j.jid] = true
			j.dependencies[jid] = true
			m.linked[j.jid] = true
		}
	}
}

func (m *queues) undepend(j *job, jid string) {
	delete(j.dependencies, jid)
	if other := m.jobs[jid]; other != nil {
		delete(other.dependents, j.jid)
	}
}

// free releases a job without remaining dependencies.
func (m *queues) free(j *job, keepDelay bool) {
	if keepDelay && j.delayed > 0 {
		m.delay(j, j.delayed)
	} else {
		m.enqueue(j, m.now)
		m.takeTurns(j)
	}
	j.delayed = 0
}

// hold notes that a worker has a job until a time.
func (m *queues) hold(worker, jid string, until float64) {
	if m.held[worker] == nil {
		m.held[worker] = map[string]float64{}
	}
	m.held[worker][jid] = until
	delete(m.left, handleKey{worker, jid})
	delete(m.forgotten, handleKey{worker, jid})
}

// letGo removes a job from the list of a worker.
func (m *queues) letGo(worker, jid string) {
	delete(m.held[worker], jid)
	delete(m.left, handleKey{worker, jid})
	delete(m.forgotten, handleKey{worker, jid})
}

// unfile removes a failed job from its group and its statistics.
func (m *queues) unfile(j *job) {
	group := j.failure.group
	m.setGroup(group, without(m.groups[group], j.jid))
	m.count(j.queue, j.failure.when).failed--
	delete(m.filed, j.jid)
}

func (m *queues) setGroup(name string, jids []string) {
	m.groups[name] = jids
	if len(jids) == 0 {
		delete(m.groups, name)
	}
}

// file makes a job a failed job.
func (m *queues) file(j *job, why failure) {
	m.record(j, "failed", m.now)
	j.state, j.worker, j.expires, j.failure = qless.StateFailed, "", 0, why
	m.groups[why.group] = append([]string{j.jid}, m.groups[why.group]...)
	today := m.count(j.queue, m.now)
	today.failures++
	today.failed++
}

// failureLimits returns for how many seconds failed jobs are kept, and how many of a group; below 0
// for no limit.
func (m *queues) failureLimits() (seconds, count float64) {
	seconds = m.setting("jobs-failed-history", -1)
	return seconds, m.setting("jobs-failed-history-count", -1)
}

// limitFailures applies the limits, if there are any: it notes when a job failed, and deletes jobs
// that failed too long ago, and excess jobs of its group.
func (m *queues) limitFailures(j *job) {
	seconds, count := m.failureLimits()
	if seconds >= 0 {
		if j.options.life.keepFailed == nil {
			m.filed[j.jid] = m.now
		}
		m.clearOld(seconds)
	}
	m.limitGroup(j.failure.group, seconds, count, 10)
}

// limitGroup checks some of the oldest jobs of a group, deletes old and excess jobs, and returns
// their number. A job with dependents, or with a lifetime of its own, is kept.
func (m *queues) limitGroup(group string, seconds, count float64, limit int) int {
	all := slices.Clone(m.groups[group])
	excess, deleted := -1, 0
	if count >= 0 {
		excess = len(all) - int(count)
	}
	for looked := 0; looked < min(limit, len(all)); looked++ {
		old := m.jobs[all[len(all)-1-looked]]
		isOld := seconds >= 0 && old.failure.when+1 <= m.now-seconds
		switch {
		case excess <= 0 && !isOld:
			return deleted
		case len(old.dependents) == 0 && old.options.life.keepFailed == nil:
			m.deleteFailed(old)
			excess--
			deleted++
		}
	}
	return deleted
}

// clearOld deletes jobs that failed too long ago, and returns their number. A job with dependents
// is kept for another such period.
func (m *queues) clearOld(limit float64) int {
	deleted := 0
	for jid, when := range m.filed {
		switch old := m.jobs[jid]; {
		case when > m.now-limit:
		case len(old.dependents) > 0:
			m.filed[jid] = m.now
		default:
			m.deleteFailed(old)
			deleted++
		}
	}
	return deleted
}

// remove deletes a job. Clients that track it, or once had it, are not notified.
func (m *queues) remove(j *job) {
	for jid := range j.dependencies {
		m.undepend(j, jid)
	}
	delete(m.jobs, j.jid)
}

// kept limits the number of a worker's handles of a job.
const kept = 3

// give hands a worker a job, as it is now.
func (m *queues) give(worker string, j *job) {
	key := handleKey{worker, j.jid}
	h := &handle{jid: j.jid, klass: j.klass, queue: j.queue, data: j.data}
	m.handles[key] = first(append([]*handle{h}, m.handles[key]...), kept)
}

// view shows a job as in the server's replies.
func (m *queues) view(j *job) string {
	_, tracked := m.tracked[j.jid]
	return j.view(tracked, j.ends())
}

// A job is a job in the model.
type job struct {
	jid, klass, data, queue, worker, spawnedFrom string

	state     qless.State
	priority  int
	retries   int
	remaining int
	tags      []string
	expires   float64 // the end of the lock, by the job's hash
	score     float64 // the job's place in the set of its state
	slack     float64 // the possible error of the server's score
	time      float64
	delayed   float64 // when due after its dependencies; 0 means at once
	grace     bool
	placed    float64 // when put, if the job returns to that place after a lost lock
	failure   failure
	options   options
	result    result
	progress  progress
	history   []event

	dependencies, dependents map[string]bool
}

// A failure is the reason for a job's failure.
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

	since float64 // when popped; 0 if only read
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
		worker, expires = "", 0 // the server keeps them in a retried job
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
