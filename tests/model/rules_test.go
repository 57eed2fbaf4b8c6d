package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// rules are the invariants of the keys, for changes by any command and client.
var rules = []invariant{
	{"ghost", func(p *problems, k *keyspace, _ *queues) {
		checkNamed(p, k, "", k.holders)
		checkNamed(p, k, "t:", k.tags)
	}},
	{"place", checkPlacesOfAll},
	{"dependencies", checkDependencies},
	{"tags", checkTags},
	{"failures", checkFailures},
	{"failed statistic", checkFailedStatistic},
	{"recurring", checkRecurring},
	{"shares", checkShares},
	{"lifetimes", checkLives},
	{"options", checkOptions},
	{"batches", checkBatches},
	{"notified", checkNotified},
	{"slots", checkSlots},
	{"parked", checkParked},
	{"room", checkRoom},
}

// checkRules checks the keys after a step.
func (x *mix) checkRules(s step, reply any) *violation {
	for _, rule := range rules {
		var p problems
		if rule.check(&p, x.k, x.m); len(p) > 0 {
			return &violation{class: rule.name, text: p.String()}
		}
	}
	var p problems
	if x.checkHolders(&p, s, reply); len(p) > 0 {
		return &violation{class: "unique keys", text: p.String()}
	}
	if x.checkKept(&p, s); len(p) > 0 {
		return &violation{class: "kept", text: p.String()}
	}
	if x.checkStarts(&p); len(p) > 0 {
		return &violation{class: "starts", text: p.String()}
	}
	if x.checkTurns(&p); len(p) > 0 {
		return &violation{class: "turns", text: p.String()}
	}
	return nil
}

// checkPlacesOfAll is checkPlaces, except for jobs timed out and parked since.
func checkPlacesOfAll(p *problems, k *keyspace, m *queues) {
	var all problems
	checkPlaces(&all, k, m)
	for _, problem := range all {
		if !strings.Contains(problem, "is waiting, at +Inf") {
			p.add("%s", problem)
		}
	}
}

// letters returns the letters of a job's options.
func (t *told) letters() string {
	letters, _, _ := strings.Cut(t.options, "|")
	return letters
}

func (t *told) isOver() bool { return t.state == "complete" || t.state == "failed" }

// checkOptions checks that options are letters and JSON, because any client may have to read them.
func checkOptions(p *problems, k *keyspace, _ *queues) {
	for jid, h := range k.jobs {
		text, ok := h.fields["x:o"]
		if !ok {
			continue
		}
		letters, body, _ := strings.Cut(text, "|")
		if letters == "" || !json.Valid([]byte(body)) {
			p.add("%sj:%s has the options %s, which are not JSON", prefix, jid, text)
		}
	}
}

// checkBatches checks that only batches wait for a commit.
func checkBatches(p *problems, k *keyspace, _ *queues) {
	for _, jid := range in(k.dependents, openBatch).members {
		h := in(k.jobs, jid)
		if !strings.Contains(h.job.letters(), "b") {
			p.add("%sj:%s waits for a commit, but is not a batch: %s", prefix, jid, h.fields["x:o"])
		}
	}
}

// checkNotified checks that a job that reacts to failures does not wait for a failed job, unless a
// sweep will notify it.
func checkNotified(p *problems, k *keyspace, _ *queues) {
	for jid, h := range k.jobs {
		if h.job.state != "depends" {
			continue
		}
		policy := policyIn(h.job.options)
		if policy != "run" && policy != "fail" {
			continue
		}
		for _, other := range in(k.dependencies, jid).members {
			o := k.jobs[other]
			if o != nil && o.job.state == "failed" {
				p.add("%sj:%s has failed, and %s, which has a policy, was not notified", prefix, other, jid)
			}
			if o != nil && !strings.Contains(o.job.letters(), "d") {
				p.add("%sj:%s does not know that %s minds if it fails", prefix, other, jid)
			}
		}
	}
}

func policyIn(options string) string {
	var values struct {
		F *policy `json:"f"`
	}
	_, raw, _ := strings.Cut(options, "|")
	if json.Unmarshal([]byte(raw), &values) != nil || values.F == nil {
		return ""
	}
	return values.F.Do
}

// The limits of jobs. Limits with a slash are of the family f.
var limitNames = []string{"a", "b", "f/1", "f/2"}

// limitsIn returns the limits in a field x:o.
func limitsIn(text string) []string {
	_, rest, _ := strings.Cut(text, `"c":[`)
	list, _, _ := strings.Cut(rest, "]")
	var names []string
	for _, name := range strings.Split(list, ",") {
		if name = strings.ReplaceAll(strings.Trim(name, `"`), `\/`, "/"); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// checkStarts checks that a job starts only if each of its limits allows that, and gets a slot of
// those with a concurrency. A job that is taken again after its lock has ended may keep its slot.
func (x *mix) checkStarts(p *problems) {
	for _, jid := range inOrder(x.k.jobs) {
		h, before := x.k.jobs[jid], x.before[jid]
		if h.job.state != "running" || before.state == "running" && before.time == h.job.time {
			continue
		}
		for _, name := range limitsIn(h.fields["x:o"]) {
			l, held := x.k.limit(name), in(x.k.ours, "limit:"+name+":held").names
			x.starts[name] = append(x.starts[name], x.m.now)
			starts := x.starts[name]
			switch first := len(starts) - 1 - int(l.rate); {
			case l.hold > x.m.now:
				p.add("%s starts although nothing may with %s until %f", jid, name, l.hold)
			case l.max > 0 && !slices.Contains(held, jid):
				p.add("%s starts without a slot of %s", jid, name)
			case l.max > 0 && len(held) > int(l.max) && before.state != "running":
				p.add("%s starts, so that %q have slots of %s, which has %g", jid, held, name, l.max)
			case l.rate > 0 && first >= 0 && starts[first]+l.per > x.m.now+0.001:
				p.add("%s starts although %g have with %s since %f", jid, l.rate, name, starts[first])
			}
		}
	}
}

// checkSlots checks that only running jobs have slots, and only of their own limits.
func checkSlots(p *problems, k *keyspace, _ *queues) {
	for name, e := range k.ours {
		limit, ok := strings.CutSuffix(strings.TrimPrefix(name, "limit:"), ":held")
		if !ok || !strings.HasPrefix(name, "limit:") {
			continue
		}
		for _, jid := range e.names {
			h := in(k.jobs, jid)
			if h.job.state != "running" {
				p.add("%s has a slot of %s, and is %s", jid, limit, orElse(h.job.state, "gone"))
			}
		}
	}
}

// parking returns the limit that parks a job; empty for none.
func (e *entry) parking() string {
	time, name, _ := strings.Cut(e.fields["x:parked"], " ")
	if e.job.state != "scheduled" || time != e.fields["time"] {
		return ""
	}
	return name
}

// checkParked checks that exactly the parked jobs of a limit wait for it.
func checkParked(p *problems, k *keyspace, _ *queues) {
	for jid, h := range k.jobs {
		name := h.parking()
		if h.fields["x:parked"] != "" && name == "" {
			p.add("%s says that it is parked, and is %s", jid, h.job.state)
		}
		if name != "" && !slices.Contains(limitsIn(h.fields["x:o"]), name) {
			p.add("%s is parked by %s, and does not have that limit", jid, name)
		}
		if _, waits := in(k.ours, "limit:"+name+":wait").scores[jid]; name != "" && !waits {
			p.add("%s is parked by %s, which does not know it", jid, name)
		}
	}
	for name, e := range k.ours {
		limit, ok := strings.CutSuffix(strings.TrimPrefix(name, "limit:"), ":wait")
		if !ok || !strings.HasPrefix(name, "limit:") {
			continue
		}
		for _, jid := range e.names {
			if h := in(k.jobs, jid); h.parking() != limit {
				p.add("%s waits for %s, and is not parked by it but %s", jid, limit, orElse(h.job.state, "gone"))
			}
		}
	}
}

// A definedLimit is the definition of a limit.
type definedLimit struct{ max, rate, per, hold float64 }

func (k *keyspace) limit(name string) definedLimit {
	fields := in(k.ours, "limits").fields
	text, ok := fields[name]
	if !ok {
		family, _, _ := strings.Cut(name, "/")
		text = fields[family]
	}
	var l definedLimit
	if words := strings.Fields(text); len(words) == 3 {
		l.max, l.rate, l.per = number(words[0]), number(words[1]), number(words[2])
	}
	l.hold = amount(fields[name+" hold"])
	return l
}

// isOpen reports whether a limit has room for another job.
func (k *keyspace) isOpen(name string, now float64) bool {
	l := k.limit(name)
	if l.hold > now {
		return false
	}
	if l.max > 0 && float64(len(in(k.ours, "limit:"+name+":held").names)) >= l.max {
		return false
	}
	starts := in(k.ours, "limit:"+name+":starts").members
	return l.rate == 0 || len(starts) < int(l.rate) || number(starts[int(l.rate)-1])+l.per <= now
}

// checkRoom checks that while a limit has room, one of its parked jobs is being started.
func checkRoom(p *problems, k *keyspace, m *queues) {
	paused := setOf(k.at("paused_queues").members)
	parked, coming := map[string][]string{}, map[string]bool{}
	for jid, h := range k.jobs {
		if !strings.Contains(h.job.letters(), "c") || paused[h.job.queue] {
			continue
		}
		name := h.parking()
		isDue := name != "" && k.of(h.job.queue, "scheduled").scores[jid] <= m.now+1
		if name != "" && !isDue {
			parked[name] = append(parked[name], jid)
		}
		if isDue || h.job.state == "waiting" || h.job.state == "stalled" {
			for _, limit := range limitsIn(h.fields["x:o"]) {
				coming[limit] = true
			}
		}
	}
	for name, jids := range parked {
		if !coming[name] && k.isOpen(name, m.now) && !m.slack(name) {
			slices.Sort(jids)
			p.add("the limit %s has room, and %q are not due: %v", name, jids, k.dues(jids))
		}
	}
}

func (k *keyspace) dues(jids []string) (all []float64) {
	for _, jid := range jids {
		all = append(all, k.of(k.jobs[jid].job.queue, "scheduled").scores[jid])
	}
	return all
}

// slack reports whether a limit may have room without its parked jobs having noticed.
func (m *queues) slack(name string) bool {
	until, ok := m.changed[name]
	return ok && m.now < until
}

// isDead reports whether the life of a job that still exists is over.
func (x *mix) isDead(jid string, t *told) bool {
	return t.ends(in(x.k.histories, jid).history) <= x.m.now
}

// follow notes effects of a step that are exceptions to the rules.
func (x *mix) follow(s step) {
	for jid, before := range x.before {
		h := x.k.jobs[jid]
		isOver := h == nil || h.job.isOver()
		if !before.isOver() && isOver && strings.Contains(before.letters(), "w") {
			x.awaits[jid]++
		}
		if before.state == "running" && h != nil && h.job.state == "waiting" {
			x.turned[jid] = true // a short history does not show the run
		}
	}
	switch s.Raw[0] {
	case "limit.set", "limit.delete", "limit.hold":
		for _, name := range limitNames {
			isOfFamily := strings.HasPrefix(name, s.Raw[1]+"/")
			if isOfFamily {
				x.m.changed[name] = x.m.now + 62
			}
			if s.Raw[0] != "limit.hold" && (isOfFamily || name == s.Raw[1]) {
				delete(x.starts, name)
			}
		}
	case "pause":
		// The others of a limit are affected when they are tried, not when the first job is held
		// up.
		for _, h := range x.k.jobs {
			if name := h.parking(); name != "" && h.job.queue == s.Raw[1] {
				x.m.changed[name] = x.m.now + 62
			}
		}
	case "priority", "reschedule":
		x.turned[s.Raw[1]] = true
	case "repair":
		for _, jid := range repairedJIDs(s.Raw) {
			x.turned[jid] = true
		}
	}
	x.loosen(s)
}

// loosen notes unique keys that two jobs may have: keys of jobs that begin again although another
// has the key, and released keys.
func (x *mix) loosen(s step) {
	for jid, h := range x.k.jobs {
		c := claimIn(h.job.options)
		before, known := x.before[jid]
		if c == nil || !known || h.job.isOver() {
			continue
		}
		old := claimIn(before.options)
		again := before.isOver() || before.ends(nil) <= x.m.now
		letGo := c.After != "" && !slices.Contains(in(x.k.dependencies, jid).members, c.After) &&
			slices.Contains([]string{"depends", "put", "put.many", "requeue", "repair"}, s.Raw[0])
		if again && old != nil && old.Key == c.Key || letGo {
			if len(x.claimants(c.Key)) > 1 || x.wasTaken(c.Key, jid) {
				x.loose[c.Key] = true
			}
		}
	}
}

// wasTaken reports whether another job claimed a key before the step, even if it ended in the same
// step.
func (x *mix) wasTaken(key, jid string) bool {
	for other, before := range x.before {
		if c := claimIn(before.options); other != jid && c != nil && c.Key == key && !before.isOver() {
			return true
		}
	}
	return false
}

// claimants returns the unfinished jobs that claim a key, in order.
func (x *mix) claimants(key string) []string {
	var jids []string
	for jid, h := range x.k.jobs {
		t := &h.job
		if c := claimIn(t.options); c != nil && c.Key == key && !t.isOver() && !x.isDead(jid, t) {
			jids = append(jids, jid)
		}
	}
	slices.Sort(jids)
	return jids
}

// checkHolders checks that at most one job with a key runs, that at most one waits for it, and that
// the latest has the key.
func (x *mix) checkHolders(p *problems, s step, reply any) {
	const key = `["x"]`
	if x.loose[key] {
		return
	}
	jids := x.claimants(key)
	holder := ""
	switch len(jids) {
	case 0:
	case 1:
		holder = jids[0]
	case 2:
		holder = x.follower(jids[0], jids[1])
		if holder == "" {
			holder = x.follower(jids[1], jids[0])
		}
	}
	if len(jids) > 0 && holder == "" {
		p.add("%q have the key %s, and don't follow each other: %s", jids, key, x.shown(jids))
	}
	if s.Raw[0] == "holder" && s.Raw[1] == key && orElse(fmt.Sprint(reply), "") != holder &&
		!(reply == nil && holder == "") {
		p.add("the holder of %s is %v, and should be %q: %s", key, reply, holder, x.shown(jids))
	}
}

// follower returns the first job if it waits for the second to give up the key.
func (x *mix) follower(jid, other string) string {
	h := x.k.jobs[jid]
	if claimIn(h.job.options).After == other && h.job.state == "depends" &&
		slices.Contains(in(x.k.dependencies, jid).members, other) {
		return jid
	}
	return ""
}

func (x *mix) shown(jids []string) string {
	var all []string
	for _, jid := range jids {
		t := &x.k.jobs[jid].job
		all = append(all, fmt.Sprintf("%s: %s %s", jid, t.state, t.options))
	}
	return strings.Join(all, "; ")
}

// checkTurns checks that a job put with a tenant waits for its turn, unless a worker has had it
// since.
func (x *mix) checkTurns(p *problems) {
	for jid, h := range x.k.jobs {
		t := &h.job
		if t.state != "waiting" || !strings.Contains(t.letters(), "g") || x.turned[jid] {
			continue
		}
		last := ""
		for _, e := range in(x.k.histories, jid).history {
			if e.what == "put" || e.what == "popped" || e.what == "timed-out" {
				last = e.what
			}
		}
		behind := t.priority - x.k.of(t.queue, "work").scores[jid]
		if last == "put" && !(behind >= 0.5 && behind < 1) {
			p.add("%sj:%s takes no turn: %v behind its priority of %v", prefix, jid, behind, t.priority)
		}
	}
}

// checkKept checks that a parked job replaced by a put that keeps the due time is due.
func (x *mix) checkKept(p *problems, s step) {
	at := slices.Index(s.Raw, "replace")
	if s.Raw[0] != "put" || at < 0 || s.Raw[at+1] != "due" {
		return
	}
	for jid, before := range x.before {
		h := x.k.jobs[jid]
		if h == nil || before.parked == "" || before.state != "scheduled" || h.job.time == before.time {
			continue
		}
		if claimIn(h.job.options).PutAs == s.Raw[3] && h.job.state == "scheduled" && h.parking() == "" {
			p.add("%s was parked and due, was replaced, and is due at %f", jid,
				x.k.of(h.job.queue, "scheduled").scores[jid])
		}
	}
}
