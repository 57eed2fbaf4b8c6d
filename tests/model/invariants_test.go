package model

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// An invariant is what must hold of the keys after every step, whatever the step was. It tells
// what is wrong, naming the keys; empty when nothing is. The model tells only what is left behind
// on purpose (pinned_test.go).
type invariant struct {
	name  string
	check func(k, before *keyspace, m *queues) string
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
}

// inOrder returns the keys of a map in order, so that the same fault has the same message.
func inOrder[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// checkLayout: there are no keys but the known ones, and only statistics expire.
func checkLayout(k, _ *keyspace, _ *queues) string {
	if len(k.unknown) > 0 {
		slices.Sort(k.unknown)
		return fmt.Sprintf("keys of no known layout: %q", k.unknown)
	}
	for _, key := range inOrder(k.entries) {
		if isStats := strings.HasPrefix(key, prefix+"s:"); k.entries[key].expires != isStats {
			return fmt.Sprintf("%s expires: %t", key, !isStats)
		}
		if rest, ok := strings.CutPrefix(key, prefix+"j:"); ok {
			jid := rest
			for _, suffix := range []string{"-history", "-dependents", "-dependencies"} {
				jid = strings.TrimSuffix(jid, suffix)
			}
			if k.jobs[jid] == nil {
				return key + " is of no job"
			}
		}
	}
	return ""
}

// holders returns the sets of jobs, but for the lists of workers.
func (k *keyspace) holders() map[string]*entry {
	all := map[string]*entry{"completed": k.at("completed")}
	for queue, parts := range k.queues {
		for part, e := range parts {
			if part != "recur" {
				all["q:"+queue+"-"+part] = e
			}
		}
	}
	for group, e := range k.groups {
		all["f:"+group] = e
	}
	return all
}

// names returns what an entry holds, in order.
func (e *entry) names() []string {
	if e.scores != nil {
		return inOrder(e.scores)
	}
	return slices.Sorted(slices.Values(e.members))
}

// checkGhosts: no set names a job that is gone.
func checkGhosts(k, _ *keyspace, m *queues) string {
	sets := k.holders()
	for tag, e := range k.tags {
		sets["t:"+tag] = e
	}
	for _, key := range inOrder(sets) {
		for _, jid := range sets[key].names() {
			if k.jobs[jid] == nil {
				return fmt.Sprintf("%s%s names %s, which is gone", prefix, key, jid)
			}
		}
	}
	for _, worker := range inOrder(k.workers) {
		for _, jid := range k.workers[worker].names() {
			if k.jobs[jid] == nil && !leftInList(m, worker, jid) {
				return fmt.Sprintf("%sw:%s:jobs names %s, which is gone", prefix, worker, jid)
			}
		}
	}
	return ""
}

// checkPlaces: a job is in the set that its state names, once, and in no other.
func checkPlaces(k, _ *keyspace, _ *queues) string {
	sets := k.holders()
	places := map[string][]string{}
	for _, key := range inOrder(sets) {
		for _, jid := range sets[key].names() {
			places[jid] = append(places[jid], key)
		}
	}
	for _, jid := range inOrder(k.jobs) {
		h := k.jobs[jid]
		if want := []string{place(h)}; !slices.Equal(places[jid], want) {
			return fmt.Sprintf("%sj:%s is %s in queue %q, so it belongs into %q, but is in %q",
				prefix, jid, h.fields["state"], h.fields["queue"], want, places[jid])
		}
		score, stalled := k.at(place(h)).scores[jid], h.fields["state"] == "stalled"
		if first := math.IsInf(score, 1); first != stalled && !(stalled && leftBehind(h, score)) {
			return fmt.Sprintf("%sj:%s is %s, at %v in %s", prefix, jid, h.fields["state"], score, place(h))
		}
	}
	return ""
}

// place returns the name of the set that a job belongs into.
func place(h *entry) string {
	queue := "q:" + h.fields["queue"]
	switch h.fields["state"] {
	case "waiting", "stalled":
		return queue + "-work"
	case "running":
		return queue + "-locks"
	case "scheduled":
		return queue + "-scheduled"
	case "depends":
		return queue + "-depends"
	case "failed":
		return "f:" + h.failure.group
	case "complete":
		return "completed"
	}
	return "no state"
}

// checkLocks: a lock ends when the job and the list of its worker say, unless the grace period
// has begun: then it is longer, and the worker has lost it.
func checkLocks(k, _ *keyspace, m *queues) string {
	for _, jid := range inOrder(k.jobs) {
		h := k.jobs[jid]
		running, grace := h.fields["state"] == "running", h.fields["grace"] == "1"
		if grace && !running && !leftGrace(h) {
			return fmt.Sprintf("%sj:%s is %s, and has a grace period", prefix, jid, h.fields["state"])
		}
		if !running {
			continue
		}
		worker := h.fields["worker"]
		lock, expires := k.of(h.fields["queue"], "locks").scores[jid], number(h.fields["expires"])
		listed, isListed := k.worker(worker).scores[jid]
		switch {
		case worker == "":
			return fmt.Sprintf("%sj:%s runs without a worker", prefix, jid)
		case grace && isListed:
			return fmt.Sprintf("%sw:%s:jobs names %s, whose lock was lost", prefix, worker, jid)
		case !grace && lock != expires:
			return fmt.Sprintf("the lock of %s ends at %f, %sj:%s says at %f",
				jid, lock, prefix, jid, expires)
		case !grace && !isListed && !offList(m, worker, jid):
			return fmt.Sprintf("%sw:%s:jobs does not name %s, which it has", prefix, worker, jid)
		case !grace && isListed && listed != expires:
			return fmt.Sprintf("%sw:%s:jobs has %s until %f, %sj:%s says until %f",
				prefix, worker, jid, listed, prefix, jid, expires)
		}
	}
	return ""
}

// worker returns the list of a worker's jobs.
func (k *keyspace) worker(name string) *entry { return k.at("w:" + name + ":jobs") }

// checkWorkerLists: a worker's list names no job that the worker has not.
func checkWorkerLists(k, _ *keyspace, m *queues) string {
	for _, worker := range inOrder(k.workers) {
		for _, jid := range k.workers[worker].names() {
			h := k.jobs[jid]
			has := h != nil && h.fields["state"] == "running" && h.fields["worker"] == worker
			if !has && !leftInList(m, worker, jid) {
				return fmt.Sprintf("%sw:%s:jobs names %s, which it has not", prefix, worker, jid)
			}
		}
	}
	return ""
}

// checkDependencies: who depends knows whom, and the other way round; a job waits for others just
// as long as there are any, and never for one that is complete.
func checkDependencies(k, _ *keyspace, _ *queues) string {
	for _, jid := range inOrder(k.jobs) {
		needs := k.at("j:" + jid + "-dependencies").members
		if state := k.jobs[jid].fields["state"]; (state == "depends") != (len(needs) > 0) {
			return fmt.Sprintf("%sj:%s is %s, and waits for %q", prefix, jid, state, needs)
		}
		for _, other := range needs {
			if !slices.Contains(k.at("j:"+other+"-dependents").members, jid) {
				return fmt.Sprintf("%s depends on %s, which %sj:%s-dependents does not say",
					jid, other, prefix, other)
			}
			if k.jobs[other] == nil || k.jobs[other].fields["state"] == "complete" {
				return fmt.Sprintf("%s waits for %s, which is gone or complete", jid, other)
			}
		}
		for _, other := range k.at("j:" + jid + "-dependents").members {
			if !slices.Contains(k.at("j:"+other+"-dependencies").members, jid) {
				return fmt.Sprintf("%s depends on %s, which %sj:%s-dependencies does not say",
					other, jid, prefix, other)
			}
		}
	}
	return ""
}

// checkTags: the sets of tags hold the jobs that have them, and the counters say how many.
func checkTags(k, _ *keyspace, _ *queues) string {
	counts := map[string]float64{}
	for _, jid := range inOrder(k.jobs) {
		for tag := range setOf(k.jobs[jid].tags) {
			counts[tag]++
			if _, ok := k.at("t:" + tag).scores[jid]; !ok {
				return fmt.Sprintf("%sj:%s has the tag %s, %st:%s does not name it",
					prefix, jid, tag, prefix, tag)
			}
		}
	}
	for _, tag := range inOrder(k.tags) {
		if n := float64(len(k.tags[tag].scores)); n != counts[tag] {
			return fmt.Sprintf("%st:%s names %q, but %v jobs have the tag",
				prefix, tag, k.tags[tag].names(), counts[tag])
		}
	}
	if told := k.at("tags").scores; !maps.Equal(told, counts) && len(told)+len(counts) > 0 {
		return fmt.Sprintf("%stags says %v, the jobs have %v", prefix, told, counts)
	}
	return ""
}

// checkFailures: the groups with jobs are known, and no other.
func checkFailures(k, _ *keyspace, _ *queues) string {
	if known, groups := k.at("failures").names(), inOrder(k.groups); !slices.Equal(known, groups) {
		return fmt.Sprintf("%sfailures names %q, there are jobs in %q", prefix, known, groups)
	}
	return ""
}

// checkFailedStatistic: the statistic tells how many failed on a day and still are.
func checkFailedStatistic(k, _ *keyspace, _ *queues) string {
	failed := map[statKey]int{}
	for _, h := range k.jobs {
		if h.fields["state"] == "failed" {
			day := int64(math.Floor(h.failure.when/86400)) * 86400
			failed[statKey{day, h.fields["queue"]}]++
		}
	}
	for key, e := range k.stats["stats"] {
		if n := e.field("failed"); n != failed[key] {
			return fmt.Sprintf("%ss:stats:%d:%s says that %d jobs are failed, it is %d",
				prefix, key.day, key.queue, n, failed[key])
		}
		delete(failed, key)
	}
	if len(failed) > 0 {
		return fmt.Sprintf("jobs failed that no statistic has: %v", failed)
	}
	return ""
}

// checkRecurring: a recurring job is in its queue's set, and in no other.
func checkRecurring(k, _ *keyspace, _ *queues) string {
	found := 0
	for _, jid := range inOrder(k.recurs) {
		queue := k.recurs[jid].fields["queue"]
		if _, ok := k.of(queue, "recur").scores[jid]; !ok {
			return fmt.Sprintf("%sr:%s recurs in %q, %sq:%s-recur does not name it",
				prefix, jid, queue, prefix, queue)
		}
		found++
	}
	for _, parts := range k.queues {
		if e := parts["recur"]; e != nil {
			found -= len(e.scores)
		}
	}
	if found != 0 {
		return fmt.Sprintf("the sets of recurring jobs name %d that are none of theirs", -found)
	}
	return ""
}

// checkHistory: a history begins with a put, and one that has just grown is not above the limit.
func checkHistory(k, before *keyspace, _ *queues) string {
	limit := 100
	if text, ok := k.at("config").fields["max-job-history"]; ok {
		limit = int(number(text))
	}
	for _, jid := range inOrder(k.jobs) {
		key := "j:" + jid + "-history"
		history := k.at(key).history
		if len(history) == 0 || history[0].what != "put" {
			return fmt.Sprintf("%s%s begins with no put: %v", prefix, key, history)
		}
		grew := k.at(key).text != before.at(key).text
		if grew && limit > 0 && len(history) > max(limit, 2) {
			return fmt.Sprintf("%s%s has %d entries, and may have %d", prefix, key, len(history), limit)
		}
	}
	return ""
}
