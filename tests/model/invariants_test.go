package model

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/qless/qless-go"
)

// An invariant must hold for the keys after every step of any kind. It adds problems that name the
// keys. It uses the model only for intended leftovers (pinned_test.go).
type invariant struct {
	name  string
	check func(p *problems, k *keyspace, m *queues)
}

var invariants = []invariant{
	{"layout", checkLayout},
	{"ghost", checkGhosts},
	{"place", checkPlaces},
	{"lock", checkLocks},
	{"worker list", checkWorkerLists},
	{"dependencies", checkDependencies},
	{"tags", checkTags},
	{"failures", checkFailures},
	{"failed statistic", checkFailedStatistic},
	{"recurring", checkRecurring},
	{"history", checkHistory},
	{"unique keys", checkKeys},
	{"shares", checkShares},
	{"lifetimes", checkLives},
	{"expired statistic", checkExpired},
}

// inOrder returns the keys of a map in order.
func inOrder[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// lasting are prefixes of expiring keys.
var lasting = []string{"s:", "x:stats:", "x:fair:", "x:before:", "x:refused"}

// checkLayout checks that all keys are known, and that only some of them, and temporary claims on
// unique keys, expire.
func checkLayout(p *problems, k *keyspace, _ *queues) {
	for key := range k.unknown {
		p.add("%s is a key of no known layout", key)
	}
	for key, e := range k.entries {
		expires := slices.ContainsFunc(lasting, func(first string) bool {
			return strings.HasPrefix(key, prefix+first)
		}) || strings.HasPrefix(key, prefix+"x:unique:") && !strings.HasPrefix(e.text, "0 ")
		if e.expires != expires {
			p.add("%s expires: %t", key, !expires)
		}
	}
	for _, lists := range []map[string]*entry{k.histories, k.dependents, k.dependencies} {
		for jid, e := range lists {
			if k.jobs[jid] == nil && jid != openBatch {
				p.add("%sj:%s is gone, but one of its keys holds %q", prefix, jid, e.members)
			}
		}
	}
}

// checkGhosts checks that no set names a missing job.
func checkGhosts(p *problems, k *keyspace, m *queues) {
	checkNamed(p, k, "", k.holders)
	checkNamed(p, k, "t:", k.tags)
	for worker, e := range k.workers {
		for _, jid := range e.names {
			if k.jobs[jid] == nil && !leftInList(m, worker, jid) {
				p.add("%sw:%s:jobs names %s, which is gone", prefix, worker, jid)
			}
		}
	}
}

// checkNamed checks that the jobs in some sets exist.
func checkNamed(p *problems, k *keyspace, area string, sets map[string]*entry) {
	for name, e := range sets {
		for _, jid := range e.names {
			if k.jobs[jid] == nil {
				p.add("%s%s%s names %s, which is gone", prefix, area, name, jid)
			}
		}
	}
}

// checkPlaces checks that a job is in the set for its state, once, and in no other.
func checkPlaces(p *problems, k *keyspace, _ *queues) {
	placed := 0
	for name, e := range k.holders {
		for i, jid := range e.names {
			switch h := k.jobs[jid]; {
			case h == nil:
			case i > 0 && e.names[i-1] == jid:
				p.add("%s%s names %s twice", prefix, name, jid)
			case h.job.place != name:
				p.misplaced(jid, &h.job, name)
			default:
				placed++
				checkScore(p, jid, &h.job, e)
			}
		}
	}
	if placed == len(k.jobs) {
		return
	}
	for jid, h := range k.jobs {
		if !slices.Contains(in(k.holders, h.job.place).names, jid) {
			p.misplaced(jid, &h.job, "no such set")
		}
	}
}

func (p *problems) misplaced(jid string, t *told, name string) {
	p.add("%sj:%s is %s in queue %q, so it belongs into %s, but is in %s",
		prefix, jid, t.state, t.queue, t.place, name)
}

// checkScore checks that stalled jobs, and no others, come first in their sets.
func checkScore(p *problems, jid string, t *told, set *entry) {
	score, stalled := set.scores[jid], t.state == "stalled"
	if first := math.IsInf(score, 1); first != stalled && !(stalled && leftBehind(t, score)) {
		p.add("%sj:%s is %s, at %v in %s", prefix, jid, t.state, score, t.place)
	}
}

// checkLocks checks that a lock ends at the time in the job and in the list of its worker, unless
// the grace period has begun: then it is longer, and the worker has lost it.
func checkLocks(p *problems, k *keyspace, m *queues) {
	for jid, h := range k.jobs {
		t := &h.job
		if t.state == "running" {
			checkLock(p, k, m, jid, t)
		} else if (t.grace || t.sudden) && !leftGrace(t) {
			p.add("%sj:%s is %s, and has a grace period", prefix, jid, t.state)
		}
	}
}

func checkLock(p *problems, k *keyspace, m *queues, jid string, t *told) {
	lock := k.of(t.queue, "locks").scores[jid]
	listed, isListed := k.worker(t.worker).scores[jid]
	lost := t.grace && lock != t.expires // a timed-out job keeps the field grace
	switch {
	case t.worker == "":
		p.add("%sj:%s runs without a worker", prefix, jid)
	case lost && isListed:
		p.add("%sw:%s:jobs names %s, whose lock was lost", prefix, t.worker, jid)
	case lost:
	case lock != t.expires:
		p.add("the lock of %s ends at %f, %sj:%s says at %f", jid, lock, prefix, jid, t.expires)
	case !isListed && !offList(m, t.worker, jid):
		p.add("%sw:%s:jobs does not name %s, which it has", prefix, t.worker, jid)
	case isListed && listed != t.expires:
		p.add("%sw:%s:jobs has %s until %f, %sj:%s says until %f",
			prefix, t.worker, jid, listed, prefix, jid, t.expires)
	}
}

// checkWorkerLists checks that a worker's list names only jobs held by the worker.
func checkWorkerLists(p *problems, k *keyspace, m *queues) {
	for worker, e := range k.workers {
		for _, jid := range e.names {
			t := &in(k.jobs, jid).job
			if has := t.state == "running" && t.worker == worker; !has && !leftInList(m, worker, jid) {
				p.add("%sw:%s:jobs names %s, which it has not", prefix, worker, jid)
			}
		}
	}
}

// checkDependencies checks that dependents and dependencies name each other, and that a job waits
// exactly as long as it has dependencies, and never for a complete job.
func checkDependencies(p *problems, k *keyspace, _ *queues) {
	for _, jid := range in(k.dependents, openBatch).members {
		if !slices.Contains(in(k.dependencies, jid).members, openBatch) {
			p.add("%s is among the open batches, but does not wait for that", jid)
		}
	}
	for jid, h := range k.jobs {
		needs, state := in(k.dependencies, jid).members, h.job.state
		if (state == "depends") != (len(needs) > 0) {
			p.add("%sj:%s is %s, and waits for %q", prefix, jid, state, needs)
		}
		for _, other := range needs {
			if !slices.Contains(in(k.dependents, other).members, jid) {
				p.add("%s depends on %s, which %sj:%s-dependents does not say", jid, other, prefix, other)
			}
			if other == openBatch {
				continue
			}
			if k.jobs[other] == nil || k.jobs[other].job.state == "complete" {
				p.add("%s waits for %s, which is gone or complete", jid, other)
			}
		}
		for _, other := range in(k.dependents, jid).members {
			if !slices.Contains(in(k.dependencies, other).members, jid) {
				p.add("%s depends on %s, which %sj:%s-dependencies does not say", other, jid, prefix, other)
			}
		}
	}
}

// checkTags checks that the sets of tags hold the jobs with the tags, and that the counters agree.
func checkTags(p *problems, k *keyspace, _ *queues) {
	counts := map[string]float64{}
	for jid, h := range k.jobs {
		for i, tag := range h.job.tags {
			if slices.Contains(h.job.tags[:i], tag) {
				continue
			}
			counts[tag]++
			if _, ok := in(k.tags, tag).scores[jid]; !ok {
				p.add("%sj:%s has the tag %s, %st:%s does not name it", prefix, jid, tag, prefix, tag)
			}
		}
	}
	for tag, e := range k.tags {
		if n := float64(len(e.scores)); n != counts[tag] {
			p.add("%st:%s names %q, but %v jobs have the tag", prefix, tag, e.names, counts[tag])
		}
	}
	if told := k.at("tags").scores; !maps.Equal(told, counts) {
		p.add("%stags says %v, the jobs have %v", prefix, told, counts)
	}
}

// checkFailures checks that the known groups are those with jobs.
func checkFailures(p *problems, k *keyspace, _ *queues) {
	if known, groups := k.at("failures").names, inOrder(k.groups); !slices.Equal(known, groups) {
		p.add("%sfailures names %q, there are jobs in %q", prefix, known, groups)
	}
}

// checkFailedStatistic checks that the statistic counts jobs that failed on a day and still are
// failed.
func checkFailedStatistic(p *problems, k *keyspace, _ *queues) {
	failed := map[statKey]int{}
	for _, h := range k.jobs {
		if t := &h.job; t.state == "failed" {
			day := int64(math.Floor(t.failure.when/86400)) * 86400
			failed[statKey{day, t.queue}]++
		}
	}
	for key, e := range k.stats["stats"] {
		if n := e.field("failed"); n != failed[key] {
			p.add("%ss:stats:%d:%s says that %d jobs are failed, it is %d",
				prefix, key.day, key.queue, n, failed[key])
		}
		delete(failed, key)
	}
	if len(failed) > 0 {
		p.add("jobs failed that no statistic has: %v", failed)
	}
}

// checkRecurring checks that a recurring job is in its queue's set, and in no other.
func checkRecurring(p *problems, k *keyspace, _ *queues) {
	for jid, r := range k.recurs {
		queue := r.job.queue
		if _, ok := k.of(queue, "recur").scores[jid]; !ok {
			p.add("%sr:%s recurs in %q, %sq:%s-recur does not name it", prefix, jid, queue, prefix, queue)
		}
	}
	for queue, parts := range k.queues {
		for _, jid := range in(parts, "recur").names {
			if r := k.recurs[jid]; r == nil || r.job.queue != queue {
				p.add("%sq:%s-recur names %s, which does not recur there", prefix, queue, jid)
			}
		}
	}
}

// checkHistory checks that a history begins with a put, and that a growing history is within the
// limit.
func checkHistory(p *problems, k *keyspace, _ *queues) {
	limit := 100
	if text, ok := k.at("config").fields["max-job-history"]; ok {
		limit = int(number(text))
	}
	for jid := range k.jobs {
		history := in(k.histories, jid).history
		if len(history) == 0 || history[0].what != "put" {
			p.add("%sj:%s-history begins with no put: %v", prefix, jid, history)
		}
		if limit > 0 && len(history) > max(limit, 2) && k.changed[prefix+"j:"+jid+"-history"] {
			p.add("%sj:%s-history has %d entries, and may have %d", prefix, jid, len(history), limit)
		}
	}
}

// checkKeys checks that of the unfinished jobs that claim a unique key, only one has it. The others
// were not put with the key, but unfailed, or put again without it.
func checkKeys(p *problems, k *keyspace, m *queues) {
	holders := map[string]string{}
	for _, jid := range inOrder(k.jobs) {
		c, state := claimIn(k.jobs[jid].job.options), k.jobs[jid].job.state
		over := state == "complete" || state == "failed"
		if c == nil || c.Mode != "" || over || m.sharing[jid] {
			continue
		}
		if other := holders[c.Key]; other != "" {
			p.add("%sj:%s and %sj:%s have the unique key %s", prefix, other, prefix, jid, c.Key)
		}
		holders[c.Key] = jid
	}
}

// claimIn returns the claim in the options of a job, or nil.
func claimIn(options string) *claim {
	var told struct {
		Claim *claim `json:"u"`
	}
	_, raw, _ := strings.Cut(options, "|")
	_ = json.Unmarshal([]byte(raw), &told) // empty if there is none
	return told.Claim
}

// checkLives checks that x:until names every job with a limited life, to be found by sweeps.
func checkLives(p *problems, k *keyspace, _ *queues) {
	noted := in(k.ours, "until").scores
	for jid, h := range k.jobs {
		if ends := h.job.ends(in(k.histories, jid).history); !math.IsInf(ends, 1) {
			if _, ok := noted[jid]; !ok {
				p.add("the life of %sj:%s ends at %f, %sx:until does not name it", prefix, jid, ends, prefix)
			}
		}
	}
}

// ends returns the end of a job's life according to the job.
func (t *told) ends(history []event) float64 {
	var said struct {
		StartBy    float64  `json:"s"`
		TTL        float64  `json:"t"`
		KeepFor    *float64 `json:"k"`
		KeepFailed *float64 `json:"K"`
		Put        float64  `json:"put"`
	}
	_, raw, _ := strings.Cut(t.options, "|")
	_ = json.Unmarshal([]byte(raw), &said) // empty if there is none
	l := life{
		startBy: said.StartBy, ttl: said.TTL, keepFor: said.KeepFor, keepFailed: said.KeepFailed,
	}
	if put := (&job{history: history}).lastPut(); put > said.Put {
		l.startBy, l.ttl = 0, 0
	}
	return l.endIn(qless.State(t.state), t.time)
}

// checkExpired checks that the statistics count expired jobs.
func checkExpired(p *problems, k *keyspace, m *queues) {
	sum := 0
	for _, e := range k.expired {
		sum += e.field("expired")
	}
	if sum != m.vanished {
		p.add("%sx:stats:* say that the lives of %d jobs were over, it is %d", prefix, sum, m.vanished)
	}
}
