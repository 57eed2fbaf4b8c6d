package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/qless/qless-go"
)

// problems collects the differences between the server and the model.
type problems []string

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

// String returns the problems in order: a fault always has the same message.
func (p problems) String() string {
	slices.Sort(p)
	return strings.Join(p, "\n")
}

// compare compares the server with the model.
func (m *queues) compare(p *problems, k *keyspace) {
	m.compareJobs(p, k)
	m.compareRecurring(p, k)
	m.compareGroups(p, k)
	m.compareWorkers(p, k)
	m.compareQueues(p, k)
	m.compareStats(p, k)
	m.compareClaims(p, k)
	m.compareTurns(p, k)
	compareScores(p, "lives to be looked at", in(k.ours, "until").scores, m.until)
}

// near reports whether two numbers are equal except for rounding or a slack.
func near(a, b, slack float64) bool {
	if a == b {
		return true
	}
	return math.Abs(a-b) <= slack+4*ulp(math.Max(math.Abs(a), math.Abs(b)))
}

// ulp returns the distance from a non-negative number to the next one.
func ulp(n float64) float64 { return math.Nextafter(n, math.Inf(1)) - n }

// resolution is the largest distance in the queue between the jobs of one call.
func resolution(priority int) float64 {
	return 2e-16 + 4*ulp(math.Abs(float64(priority))+1)
}

func (m *queues) compareJobs(p *problems, k *keyspace) {
	for jid, h := range k.jobs {
		if j := m.jobs[jid]; j != nil {
			m.compareJob(p, k, j, h)
		} else {
			p.add("the server has %s, which is %s; the model has not", jid, h.job.state)
		}
	}
	for jid, j := range m.jobs {
		if k.jobs[jid] == nil {
			p.add("the model has %s, which is %s; the server has not", jid, j.state)
		}
	}
	var waiting []*job
	for _, jid := range m.inOrder {
		if j := m.jobs[jid]; j != nil && j.state == qless.StateWaiting { // the job's life is not over
			waiting = append(waiting, j)
		}
	}
	for i := 1; i < len(waiting); i++ {
		m.compareOrder(p, k, waiting[i-1], waiting[i])
	}
}

// compareOrder checks that jobs put by one call with the same priority are popped in order.
func (m *queues) compareOrder(p *problems, k *keyspace, earlier, later *job) {
	scores := k.of(later.queue, "work").scores
	if earlier.priority == later.priority && scores[earlier.jid] <= scores[later.jid] {
		p.add("%s was put before %s, but is not popped before it: their scores are %.17g and %.17g",
			earlier.jid, later.jid, scores[earlier.jid], scores[later.jid])
	}
}

func (m *queues) compareJob(p *problems, k *keyspace, j *job, h *entry) {
	t := &h.job
	compareText(p, "jid", j, t.jid, j.jid)
	compareText(p, "klass", j, t.klass, j.klass)
	compareText(p, "data", j, t.data, j.data)
	compareText(p, "state", j, t.state, string(j.state))
	compareText(p, "queue", j, t.queue, j.queue)
	compareText(p, "worker", j, t.worker, j.worker)
	compareText(p, "spawned_from_jid", j, t.spawnedFrom, j.spawnedFrom)
	compareAmount(p, "priority", j, t.priority, float64(j.priority))
	compareAmount(p, "retries", j, t.retries, float64(j.retries))
	compareAmount(p, "remaining", j, t.remaining, float64(j.remaining))
	compareAmount(p, "expires", j, t.expires, j.expires)
	compareAmount(p, "time", j, t.time, j.time)
	if t.grace != j.grace || t.sudden {
		p.add("grace of %s: the server says %t, none: %t, the model %t", j.jid, t.grace, t.sudden, j.grace)
	}
	compareText(p, "options", j, t.options, j.options.text())
	compareResult(p, j, t.result)
	compareText(p, "progress", j, t.progress.String(), j.progress.String())
	if !slices.Equal(t.tags, j.tags) {
		p.add("tags of %s: the server says %q, the model %q", j.jid, t.tags, j.tags)
	}
	if f := t.failure; f.group != j.failure.group || f.message != j.failure.message ||
		f.worker != j.failure.worker || !near(f.when, j.failure.when, 1e-4) {
		p.add("failure of %s: the server says %s, the model %s", j.jid, f, j.failure)
	}
	if history := in(k.histories, j.jid).history; !slices.Equal(history, j.history) {
		p.add("history of %s: the server says %v, the model %v", j.jid, history, j.history)
	}
	compareSet(p, "dependencies", j.jid, in(k.dependencies, j.jid), j.dependencies)
	compareSet(p, "dependents", j.jid, in(k.dependents, j.jid), j.dependents)
	if score, ok := k.score(j); !ok || !near(score, j.score, j.slack) {
		p.add("score of %s: the server says %.17g (there: %t), the model %.17g",
			j.jid, score, ok, j.score)
	}
}

// compareResult checks that a result belongs to the right end.
func compareResult(p *problems, j *job, text string) {
	if text == "" && j.result.data == "" {
		return
	}
	words := strings.SplitN(text, "|", 3)
	if len(words) < 3 || words[0] != string(j.result.state) || words[2] != j.result.data ||
		!near(amount(words[1]), j.result.time, 0) {
		p.add("result of %s: the server says %q, the model %v", j.jid, text, j.result)
	}
}

// compareClaims checks that each unique key names the job that claimed it last, unless that job has
// given up the key.
func (m *queues) compareClaims(p *problems, k *keyspace) {
	found := map[string]bool{}
	for name, e := range k.ours {
		key, ok := strings.CutPrefix(name, "unique:")
		if !ok {
			continue
		}
		found[key] = true
		want, ends, jid := m.claims[key], "", ""
		if len(e.members) == 1 {
			ends, jid, _ = strings.Cut(e.members[0], " ")
		}
		if jid != want.jid || !near(number(ends), want.ends, 0) {
			p.add("the key %s: the server says %q, the model %v", key, e.members, want)
		}
	}
	for key, want := range m.claims {
		if !found[key] {
			p.add("the key %s: the server has no claim, the model %v", key, want)
		}
	}
}

func compareText(p *problems, field string, j *job, got, want string) {
	if got != want {
		p.add("%s of %s: the server says %q, the model %q", field, j.jid, got, want)
	}
}

func compareAmount(p *problems, field string, j *job, got, want float64) {
	if !near(got, want, 0) {
		p.add("%s of %s: the server says %f, the model %f", field, j.jid, got, want)
	}
}

func compareSet(p *problems, what, of string, e *entry, want map[string]bool) {
	same := len(e.members) == len(want)
	for _, name := range e.members {
		same = same && want[name]
	}
	if !same {
		p.add("%s of %s: the server says %q, the model %q", what, of, e.names, sorted(want))
	}
}

// score returns a job's score in the set for its state in the model.
func (k *keyspace) score(j *job) (float64, bool) {
	if j.state == qless.StateFailed {
		return j.score, true // lists have no scores
	}
	set := k.at("completed")
	if j.state != qless.StateComplete {
		set = k.of(j.queue, part(j.state))
	}
	score, ok := set.scores[j.jid]
	return score, ok
}

func (m *queues) compareRecurring(p *problems, k *keyspace) {
	if len(k.recurs) != len(m.recurs) {
		p.add("recurring: the server has %q, the model %q", inOrder(k.recurs), inOrder(m.recurs))
	}
	for jid, r := range m.recurs {
		h := k.recurs[jid]
		if h == nil {
			continue
		}
		told := recurring{
			jid: h.fields["jid"], klass: h.fields["klass"], data: h.fields["data"], queue: h.fields["queue"],
			priority: h.field("priority"), retries: h.field("retries"), backlog: h.field("backlog"),
			count: h.field("count"), tags: h.job.tags, interval: number(h.fields["interval"]),
		}
		if got, want := told.view(), r.view(); got != want {
			p.add("recurring: the server says %s\nthe model %s", got, want)
		}
		if due := k.of(r.queue, "recur").scores[jid]; !near(due, r.due, dueSlack) {
			p.add("recurring %s: due at %.9f, the model says at %.9f", jid, due, r.due)
		}
	}
}

// dueSlack is the largest error of adding an interval repeatedly.
const dueSlack = 1e-5

func (m *queues) compareGroups(p *problems, k *keyspace) {
	if len(k.groups) != len(m.groups) {
		p.add("failure groups: the server has %q, the model %q", inOrder(k.groups), inOrder(m.groups))
	}
	compareScores(p, "failed jobs to be deleted", k.at("failed-jobs-list").scores, m.filed)
	for name, jids := range m.groups {
		got := in(k.groups, name).members
		if m.anyOrder && slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(jids))) {
			m.groups[name] = slices.Clone(got)
		} else if !slices.Equal(got, jids) {
			p.add("group %s: the server says %q, the model %q", name, got, jids)
		}
	}
}

// compareWorkers compares the lists of workers, with possibly missing leftovers.
func (m *queues) compareWorkers(p *problems, k *keyspace) {
	compareScores(p, "workers", k.at("workers").scores, m.seen)
	for worker, e := range k.workers {
		for jid, until := range e.scores {
			if want, ok := m.held[worker][jid]; !ok || !near(until, want, 0) {
				p.add("worker %s has %s until %f, the model says %t, until %f", worker, jid, until, ok, want)
			}
		}
	}
	for worker, jids := range m.held {
		for jid := range jids {
			if _, ok := k.worker(worker).scores[jid]; m.holds(worker, jid) && !ok {
				p.add("worker %s should have %s", worker, jid)
			}
		}
	}
}

func compareScores(p *problems, what string, got, want map[string]float64) {
	same := len(got) == len(want)
	for name, score := range want {
		told, ok := got[name]
		same = same && ok && near(told, score, 0)
	}
	if !same {
		p.add("%s: the server says %v, the model %v", what, got, want)
	}
}

func (m *queues) compareQueues(p *problems, k *keyspace) {
	compareScores(p, "queues", k.at("queues").scores, m.known)
	compareSet(p, "list", "paused queues", k.at("paused_queues"), m.paused)
	for option, value := range m.config {
		if got := k.at("config").fields[option]; got != value {
			p.add("setting %s: the server says %q, the model %q", option, got, value)
		}
	}
	tracked := map[string]float64{}
	for jid, since := range m.tracked {
		// Jobs that are gone need not be tracked anymore.
		if _, ok := k.at("tracked").scores[jid]; ok || m.jobs[jid] != nil {
			tracked[jid] = since
		}
	}
	compareScores(p, "tracked", k.at("tracked").scores, tracked)
	for queue := range m.unlisted {
		if !k.isListed(queue) {
			p.add("no list of queues names %s, which got jobs by unfail", queue)
		}
	}
}

// isListed reports whether a key unknown to other clients names a queue.
func (k *keyspace) isListed(queue string) bool {
	for _, e := range k.ours {
		if slices.Contains(e.names, queue) {
			return true
		}
	}
	return false
}

func (m *queues) compareStats(p *problems, k *keyspace) {
	for _, kind := range []string{"stats", "wait", "run"} {
		for key := range k.stats[kind] {
			if m.stats[key] == nil {
				m.stats[key] = &stats{}
			}
		}
	}
	for key := range k.expired {
		if m.stats[key] == nil {
			m.stats[key] = &stats{}
		}
	}
	for key, want := range m.stats {
		counts := in(k.stats["stats"], key)
		got := stats{
			counts.field("retries"), counts.field("failures"), counts.field("failed"),
			in(k.stats["wait"], key).field("total"), in(k.stats["run"], key).field("total"),
			in(k.expired, key).field("expired"),
		}
		if got != *want {
			p.add("statistics of %v: the server says %v, the model %v", key, got, want)
		}
	}
}

// adopt copies values from the server: values that differ by rounding, to keep errors from adding
// up, and values chosen by the server.
func (m *queues) adopt(k *keyspace) {
	for _, j := range m.jobs {
		j.score, _ = k.score(j)
		j.slack = 0
	}
	for jid, r := range m.recurs {
		r.due = k.of(r.queue, "recur").scores[jid]
	}
	for jid := range m.tracked {
		if _, ok := k.at("tracked").scores[jid]; !ok {
			delete(m.tracked, jid)
		}
	}
}
