package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/tests/scripts"
)

// options holds a job's options unknown to qless-core, in the model.
type options struct {
	header   string
	lockTime float64 // 0 for the queue's
	onLost   string  // empty means first
	claim    *claim
	policy   *policy
	batch    *batch
	share    *share
	life     life

	told   bool // a job with a policy waits for this one
	kept   bool // has a result from an earlier queue
	waited bool // has waiting clients

	progressed bool // has reported progress since the put
}

// A claim describes a job's claim on its unique key.
type claim struct {
	Key     string  `json:"k"`
	Mode    string  `json:"m,omitempty"`
	Seconds float64 `json:"d,omitempty"`
	After   string  `json:"a,omitempty"` // the followed running job
	PutAs   string  `json:"j,omitempty"` // the jid of the put that replaced the job
	Times   string  `json:"s,omitempty"` // the times of the first and the last such put

	first, last float64 // these times
}

// A policy is a job's reaction to failures of its dependencies.
type policy struct {
	Do     string            `json:"do"`
	Of     []string          `json:"of,omitempty"`
	Failed map[string]string `json:"failed,omitempty"`
}

// A storedClaim is the claim on a key: the holder and, if not determined by the job, the end.
type storedClaim struct {
	jid  string
	ends float64
}

// A result belongs to the end of a job in this state, at this time.
type result struct {
	state qless.State
	time  float64
	data  string
}

// text formats options like parseOptions.
func (o *options) text() string {
	letters, values := "", map[string]any{}
	add := func(letter string, isSet bool, value any) {
		if isSet {
			letters += letter
			if value != nil {
				values[letter] = value
			}
		}
	}
	l := &o.life
	add("K", l.keepFailed != nil, l.keepFailed)
	add("b", o.batch != nil, o.batch)
	add("d", o.told, nil)
	add("e", l.runFor > 0, l.runFor)
	add("f", o.policy != nil, o.policy)
	add("g", o.share != nil, o.share)
	add("h", o.header != "", map[string]string{"a": o.header})
	add("k", l.keepFor != nil, l.keepFor)
	add("l", o.lockTime > 0, o.lockTime)
	add("p", o.progressed, nil)
	add("q", o.onLost != "", o.onLost)
	add("r", o.kept, nil)
	add("s", l.startBy > 0, l.startBy)
	add("t", l.ttl > 0, l.ttl)
	add("u", o.claim != nil, o.claim)
	add("w", o.waited, nil)
	if letters == "" {
		return ""
	}
	if l.startBy > 0 || l.ttl > 0 {
		values["put"] = l.put
	}
	raw, err := json.Marshal(values)
	if err != nil {
		panic(err)
	}
	return normal(letters + "|" + string(raw))
}

// normal returns a text of options with its letters and its members in order.
func normal(text string) string {
	letters, raw, _ := strings.Cut(text, "|")
	var values any
	if json.Unmarshal([]byte(raw), &values) != nil {
		return text
	}
	inOrder, err := json.Marshal(values)
	if err != nil {
		panic(err)
	}
	all := strings.Split(letters, "")
	slices.Sort(all)
	return strings.Join(all, "") + "|" + string(inOrder)
}

// The unique keys of steps, and their options.
var uniqueNames = []string{"x", "y"}

// window is the duration of a temporary claim: longer than a run, because the server's own clock
// ends it.
const window = time.Hour

// moreOptions returns the step's put options unknown to qless-core.
func (s step) moreOptions() []qless.PutOption {
	var all []qless.PutOption
	if s.Header != "" {
		all = append(all, qless.Headers{"a": s.Header})
	}
	if s.LockTime != nil {
		all = append(all, qless.LockTime(*s.LockTime))
	}
	if s.OnLost != "" {
		all = append(all, qless.OnLost(s.OnLost))
	}
	if s.OnFailure != "" {
		all = append(all, qless.OnFailure(s.OnFailure))
	}
	if name, mode, ok := strings.Cut(s.Unique, " "); ok {
		unique := qless.Unique(name)
		switch mode {
		case "start":
			unique = unique.UntilStarted()
		case "for":
			unique = unique.For(window)
		}
		all = append(all, unique)
	}
	if own := s.share(); own != nil {
		all = append(all, own.option())
	}
	return append(all, s.lifeOptions()...)
}

// claim returns the step's claim, or nil.
func (s step) claim() *claim {
	name, mode, ok := strings.Cut(s.Unique, " ")
	if !ok {
		return nil
	}
	c := &claim{Key: `["` + name + `"]`}
	switch mode {
	case "start":
		c.Mode = mode
	case "for":
		c.Mode, c.Seconds = mode, window.Seconds()
	}
	return c
}

// drawOptions draws options unknown to qless-core, mostly none.
func (d *dice) drawOptions(s *step) {
	if d.chance(10) {
		s.Header = pick(d, []string{"1", "2"})
	}
	if d.chance(8) {
		s.LockTime = ptr(pick(d, []time.Duration{500 * time.Millisecond, 5 * time.Second, time.Hour}))
	}
	if d.chance(12) {
		s.OnLost = pick(d, []string{"first", "last", "place"})
	}
	if d.chance(15) {
		s.Unique = pick(d, uniqueNames) + " " + pick(d, []string{"", "", "start", "for"})
	}
	d.drawLife(s)
	d.drawShare(s)
	d.drawPolicy(s)
}

// drawPolicy draws the policy of a job for failures of others. The order of failures of several
// jobs is unknown, which matters if each failure deletes the previous jobs.
func (d *dice) drawPolicy(s *step) {
	if d.knowsFailures(s.JID) && (len(s.Depends) > 0 || d.chance(5)) && d.chance(60) {
		s.OnFailure = pick(d, []string{"wait", "run", "run", "fail", "fail"})
	}
}

// knowsFailures reports whether the order of a job's notifications of failures is known.
func (d *dice) knowsFailures(jid string) bool {
	if d.m.setting("jobs-failed-history", -1) == 0 ||
		d.m.setting("jobs-failed-history-count", 1000) != 1000 {
		return false
	}
	j := d.m.jobs[jid]
	if j == nil {
		return true
	}
	needs := sorted(j.dependencies)
	return len(d.toWaitFor(slices.Clone(needs))) == len(needs)
}

// hasPolicies reports whether a failure may make other jobs fail.
func (m *queues) hasPolicies() bool {
	for _, j := range m.jobs {
		if j.options.policy != nil {
			return true
		}
	}
	return false
}

// merge gives a job the options of a step.
func (o *options) merge(s step) {
	o.header = cmp.Or(s.Header, o.header)
	if s.LockTime != nil {
		o.lockTime = s.LockTime.Seconds()
	}
	if o.onLost = cmp.Or(s.OnLost, o.onLost); s.OnLost == "first" {
		o.onLost = ""
	}
	if s.OnFailure != "" {
		o.policy = &policy{Do: s.OnFailure, Of: slices.Clone(s.Depends)}
	}
	if c := s.claim(); c != nil {
		c.After = s.After
		if o.claim != nil && o.claim.Key == c.Key {
			c.After = o.claim.After
		}
		o.claim = c
	}
	if s.Opens {
		o.batch = &batch{}
	}
	if own := s.share(); own != nil {
		o.share = own
	}
}

// beginLife drops the options of an earlier life.
func (o *options) beginLife() {
	o.kept, o.waited = false, false
	o.life.startBy, o.life.ttl = 0, 0
}

// holder returns the job that prevents others from being put with a key, or nil.
func (m *queues) holder(key string) *job {
	stored, ok := m.claims[key]
	if !ok {
		return nil
	}
	j := m.jobs[stored.jid]
	if stored.ends > 0 {
		if stored.ends <= m.now {
			return nil
		}
		if j == nil {
			j = &job{jid: stored.jid} // the job is gone, but its claim stays
		}
		return j
	}
	switch {
	case m.keeps(j, key):
		return j
	case j == nil:
		return m.keptBefore(key, nil)
	}
	return m.keptBefore(key, j.options.claim)
}

// keeps reports whether a job still holds a key claimed in its name.
func (m *queues) keeps(j *job, key string) bool {
	return j != nil && !j.isOver() && j.options.claim != nil && j.options.claim.Key == key &&
		!(j.options.claim.Mode == "start" && j.state == qless.StateRunning) && !m.isDead(j, j.state)
}

// keptBefore returns the job that has a key after the last claiming job, perhaps a follower, has
// lost it; nil if none has.
func (m *queues) keptBefore(key string, c *claim) *job {
	other := m.followed[key]
	if c != nil && c.Key == key {
		other = c.After
	}
	if j := m.jobs[other]; m.keeps(j, key) && j.options.claim.Mode != "for" {
		return j
	}
	return nil
}

// noteClaim notes that a job claims a key.
func (m *queues) noteClaim(jid string, c *claim) {
	stored := storedClaim{jid: jid}
	if c.Mode == "for" {
		stored.ends = m.now + c.Seconds
	}
	m.claims[c.Key] = stored
	if c.After != "" {
		m.followed[c.Key] = c.After
	}
}

// isOver reports whether a job is complete or has failed.
func (j *job) isOver() bool {
	return j.state == qless.StateComplete || j.state == qless.StateFailed
}

// claim gives a job the key that it claims. before is its previous claim.
func (m *queues) claim(j *job, before *claim) {
	c := j.options.claim
	if other := m.claims[c.Key].jid; other != j.jid && m.jobs[other] != nil {
		m.sharing[other] = true // the other's life is over, or it is followed
	}
	m.noteClaim(j.jid, c)
	delete(m.sharing, j.jid)
	if before != nil && before.Key != c.Key {
		m.unclaim(j.jid, before, true)
	}
}

// claimAgain gives a job with a new life its key back, unless another job has the key by now.
func (m *queues) claimAgain(j *job) {
	c := j.options.claim
	if c == nil || c.Mode == "for" {
		return
	}
	if other := m.holder(c.Key); other != nil && other.jid != j.jid {
		m.sharing[j.jid] = true
		return
	}
	m.claim(j, nil)
}

// unclaim gives up the claim of a job, in favor of the followed job. A temporary claim stays unless
// the job was canceled.
func (m *queues) unclaim(jid string, c *claim, canceled bool) {
	delete(m.sharing, jid)
	if c == nil {
		return
	}
	stored := m.claims[c.Key]
	if stored.jid != jid || stored.ends > 0 && !canceled {
		return
	}
	if other := m.keptBefore(c.Key, c); other != nil {
		m.noteClaim(other.jid, other.options.claim)
		delete(m.sharing, other.jid)
		return
	}
	delete(m.claims, c.Key)
	delete(m.followed, c.Key)
}

// end applies the effects of a job's end: completion, failure, cancellation, or the end of its
// life. It reports whether to delete a complete job.
func (m *queues) end(j *job, last qless.State) bool {
	if j.options.kept && last == j.state {
		j.options.kept = false
		j.result.state, j.result.time = j.state, j.time
	}
	m.unclaim(j.jid, j.options.claim, last == canceled)
	if last == qless.StateFailed && j.options.told {
		m.notifyDependents(j)
	}
	forgotten := j.options.life.isMortal() && m.keepRecord(j, last)
	return forgotten
}

// notifyDependents notifies the dependents of a failed job, and their own dependents if they fail,
// too.
func (m *queues) notifyDependents(failed *job) int {
	return m.notifyEach(m.orderOf(failed), failed)
}

// notifyEach notifies some dependents of a failed job, and their own dependents if they fail, too.
func (m *queues) notifyEach(jids []string, failed *job) int {
	minded := 0
	for queue := []*job{failed}; len(queue) > 0; queue = queue[1:] {
		other := queue[0]
		group := other.failure.group
		if other != failed {
			jids = m.orderOf(other)
		}
		for _, jid := range jids {
			j := m.jobs[jid]
			if !m.minds(j) {
				continue
			}
			minded++
			if !m.notify(j, other, group) {
				continue
			}
			told := j.options.told
			j.options.told = false // these are notified later
			m.end(j, qless.StateFailed)
			j.options.told = told
			m.limitFailures(j)
			if told {
				queue = append(queue, j)
			}
		}
	}
	return minded
}

// orderOf returns the dependents of a job in the order of the server. The place of a job added, or
// added again, by this step is unknown.
func (m *queues) orderOf(j *job) []string {
	var known []string
	if m.server != nil {
		known = in(m.server.dependents, j.jid).members
	}
	jids := sorted(j.dependents)
	for _, jid := range jids {
		m.anyOrder = m.anyOrder || len(jids) > 1 && (m.linked[jid] || !slices.Contains(known, jid))
	}
	slices.SortStableFunc(jids, func(a, b string) int {
		return cmp.Compare(slices.Index(known, a), slices.Index(known, b))
	})
	return jids
}

// minds reports whether a failed dependency matters to a job.
func (m *queues) minds(j *job) bool {
	return j.state == qless.StateDepends && j.options.policy != nil && j.options.policy.Do != "wait"
}

// notify notifies such a job of a failure, and reports whether it fails, too.
func (m *queues) notify(j, other *job, group string) bool {
	p := j.options.policy
	if p.Failed == nil {
		p.Failed = map[string]string{}
	}
	p.Failed[other.jid] = group
	m.record(j, "dependency-failed", m.now)
	if p.Do == "run" {
		m.undepend(j, other.jid)
		if len(j.dependencies) == 0 {
			m.free(j, true)
		}
		return false
	}
	for jid := range j.dependencies {
		m.undepend(j, jid)
	}
	m.file(j, failure{
		group: "failed-dependency", when: math.Floor(m.now),
		message: fmt.Sprintf("It depends on %s, which has failed in %s", other.jid, group),
	})
	return true
}

// watch registers a job with a policy with its dependencies.
func (m *queues) watch(j *job) {
	if j.options.policy == nil || len(j.dependencies) == 0 {
		return
	}
	m.watchSome(j, without(sorted(j.dependencies), openBatch))
}

// watchSome registers the job with some of its dependencies.
func (m *queues) watchSome(j *job, needs []string) {
	if j.options.policy == nil {
		return
	}
	for _, jid := range needs {
		m.jobs[jid].options.told = true
	}
	for _, jid := range needs {
		if other := m.jobs[jid]; other != nil && other.state == qless.StateFailed {
			m.notifyEach([]string{j.jid}, other)
		}
	}
}

// store gives a job that has just ended, or moved to its next queue, the result set through a
// handle.
func (j *job) store(h *handle) {
	if h.result != "" {
		j.result = result{state: j.state, time: j.time, data: h.result}
	}
}

// endActions read an end, or wait for it.
var endActions = []action{
	{
		name: "Result", weight: 2,
		draw: func(d *dice) step { return step{Do: "Result", JID: d.jid()} },
		play: func(w *world, s step) outcome {
			r, err := w.by(s).Result(w.ctx, s.JID)
			return outcomeOf(err, func() string { return fmt.Sprintf("%s %s", r.State, r.Data) })
		},
		predict: func(m *queues, s step) outcome {
			j := m.jobs[s.JID]
			switch {
			case j == nil:
				return refused(qless.ErrNotFound)
			case !j.isOver():
				return refused(qless.ErrUnfinished)
			}
			data := ""
			if j.result.state == j.state && j.result.time == j.time {
				data = j.result.data
			}
			return outcome(fmt.Sprintf("%s %s", j.state, data))
		},
	},
	{
		name: "Await", weight: 2, // the first step of a wait
		draw: func(d *dice) step { return step{Do: "Await", JID: d.jid()} },
		play: func(w *world, s step) outcome {
			at := time.UnixMicro(w.micros)
			reply, err := scripts.Run(w.ctx, w.rdb, prefix, at, "await", s.JID)
			if err == nil && reply == nil {
				return refused(qless.ErrNotFound)
			}
			return ended(err)
		},
		predict: func(m *queues, s step) outcome {
			j := m.jobs[s.JID]
			if j == nil {
				return refused(qless.ErrNotFound)
			}
			j.options.waited = j.options.waited || !j.isOver()
			return done
		},
	},
	{
		name: "Holder", weight: 1,
		draw: func(d *dice) step { return step{Do: "Holder", Unique: pick(d, uniqueNames)} },
		play: func(w *world, s step) outcome {
			jid, err := inspect.New(w.by(s)).Holder(w.ctx, s.Unique)
			return outcomeOf(err, func() string { return jid })
		},
		predict: func(m *queues, s step) outcome {
			if j := m.holder(`["` + s.Unique + `"]`); j != nil {
				return outcome(j.jid)
			}
			return ""
		},
	},
}

// parents returns the dependencies given in the put of a job with a policy.
func (o *options) parents() []string {
	if o.policy == nil {
		return nil
	}
	return o.policy.Of
}
