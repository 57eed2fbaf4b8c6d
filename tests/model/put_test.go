package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/qless/qless-go"
)

// klass is the klass of every job.
const klass = "K"

var putActions = []action{
	{
		name: "Put", weight: 14,
		draw: func(d *dice) step { return d.putting(step{Do: "Put", Queue: d.queue(), JID: d.jid()}) },
		play: func(w *world, s step) outcome {
			options := append(s.putOptions(), qless.JID(s.JID))
			_, err := w.by(s).Queue(s.Queue).Put(w.ctx, klass, json.RawMessage(s.Data), options...)
			return ended(err)
		},
		predict: func(m *queues, s step) outcome { return m.put(s) },
	},
	{
		name: "PutMany", weight: 4,
		draw: drawPutMany,
		play: func(w *world, s step) outcome {
			_, err := w.by(s).Queue(s.Queue).PutMany(w.ctx, s.specs())
			return ended(err)
		},
		predict: predictPutMany,
	},
	{
		name: "Move", weight: 4,
		draw: func(d *dice) step {
			s := d.putting(d.onAny(step{Do: "Move", Queue: d.queue()}))
			if d.chance(70) {
				s.Data = ""
			}
			return s
		},
		play: onJob(func(w *world, j *qless.Job, s step) outcome {
			return ended(j.Move(w.ctx, s.Queue, s.putOptions()...))
		}),
		predict: onHandle(func(m *queues, h *handle, j *job, s step) outcome {
			if slices.Contains(s.Depends, s.JID) || s.If == "absent" || s.outlived(s.seconds()) {
				return refused(qless.ErrInvalid)
			}
			if j == nil {
				return refused(qless.ErrNotFound)
			}
			s.Data = h.data
			return m.put(s)
		}),
	},
}

func drawPutMany(d *dice) step {
	s := step{Do: "PutMany", Queue: d.queue(), Worker: d.worker()}
	jids, turns := d.jids(2+d.IntN(4)), d.chance(30)
	if turns {
		jids = d.chain()
	}
	for i, jid := range jids {
		one := d.putting(step{JID: jid})
		switch {
		case turns && i > 0: // it now waits for a job that waited for it
			one.OnFailure, one.Depends = "", jids[i-1:i]
		case turns && d.chance(70):
			one.OnFailure, one.Depends = "", d.toWaitFor(d.jids(1))
		}
		one.Worker = s.Worker
		s.Many = append(s.Many, one)
	}
	// A job put before one of its parents does not wait for that parent.
	for i := range s.Many {
		for _, later := range s.Many[i:] {
			s.Many[i].Depends = without(s.Many[i].Depends, later.JID)
		}
	}
	// For jobs that change their claims in one call, the keys before the call count.
	if slices.ContainsFunc(s.Many, func(one step) bool { return d.m.jobs[one.JID].isHolder() }) {
		for i := range s.Many {
			s.Many[i].Unique = ""
		}
	}
	if !turns && d.chance(60) { // jobs with a known order of popping
		for i := range s.Many {
			s.Many[i].Priority, s.Many[i].Delay, s.Many[i].Depends = s.Many[0].Priority, nil, nil
		}
	}
	return s
}

// isHolder reports whether a job may have a unique key.
func (j *job) isHolder() bool {
	return j != nil && j.options.claim != nil && (!j.isOver() || j.options.claim.Mode == "for")
}

func predictPutMany(m *queues, s step) outcome {
	if problem := m.checkMany(s); problem != done {
		return problem
	}
	if m.putsCircle(s.Many, "") {
		return refused(qless.ErrInvalid)
	}
	return m.putMany(s, nil)
}

// checkMany returns why the jobs of a PutMany can't be put.
func (m *queues) checkMany(s step) outcome {
	seen := map[string]bool{}
	for _, one := range s.Many {
		if seen[one.JID] || one.outlived(m.wait(one)) {
			return refused(qless.ErrInvalid)
		}
		seen[one.JID] = true
	}
	return done
}

// putMany puts jobs into a queue, as members of a batch if that is not nil.
func (m *queues) putMany(s step, batch *job) outcome {
	waiting, reply := 0, done
	var put []*job
	for _, one := range s.Many {
		one.Queue = s.Queue
		if problem := m.write(one); problem != done {
			reply = problem
			continue
		}
		put = append(put, m.jobs[one.JID])
		j := m.jobs[one.JID]
		if j.state == qless.StateWaiting {
			j.slack = float64(waiting) * resolution(j.priority)
			waiting++
			if j.options.share == nil && j.time == m.now {
				m.inOrder = append(m.inOrder, j.jid)
			}
		}
	}
	m.takeTurns(put...)
	if batch != nil {
		m.join(batch, put)
	}
	for _, j := range put {
		m.watch(j)
	}
	m.enterLives(put)
	return reply
}

// put puts a job, and notifies it of its failed dependencies.
func (m *queues) put(s step) outcome {
	if m.putsCircle([]step{s}, "") {
		return refused(qless.ErrInvalid)
	}
	reply := m.write(s)
	if reply == done {
		j := m.jobs[s.JID]
		m.takeTurns(j)
		m.watch(j) // the job may fail at once, and be forgotten
		m.enterLives([]*job{j})
	}
	return reply
}

// write writes a job, or moves the existing job. Values omitted by the step stay unchanged.
func (m *queues) write(s step) outcome {
	if slices.Contains(s.Depends, s.JID) || s.outlived(m.wait(s)) {
		return refused(qless.ErrInvalid)
	}
	j := m.jobs[s.JID]
	isNew := j == nil
	if isNew {
		j = &job{jid: s.JID, retries: 5, dependencies: map[string]bool{}, dependents: map[string]bool{}}
		m.jobs[s.JID] = j
	} else if s.leaves(j) && !m.isDead(j, j.state) {
		return refused(qless.ErrExists)
	}
	if s.Replace == "" && m.isTaken(s) {
		if isNew {
			delete(m.jobs, s.JID)
		}
		return refused(qless.ErrExists)
	}
	before, wasOver, ran := j.options.claim, j.isOver(), j.state == qless.StateRunning
	wasDead := !wasOver && m.isDead(j, qless.StateWaiting)
	if wasOver {
		j.options.beginLife()
	} else if wasDead {
		j.options.life.startBy, j.options.life.ttl = 0, 0
	}
	j.options.merge(s)
	j.options.life.merge(s, m.now)
	j.options.progressed = false
	if !isNew {
		m.leave(j)
	}
	if len(s.Depends) > 0 || s.Opens {
		for jid := range j.dependencies {
			m.undepend(j, jid)
		}
		m.dependOn(j, s.Depends)
	}
	if s.Opens {
		j.dependencies[openBatch] = true
	}
	if s.Priority != nil {
		j.priority = *s.Priority
	}
	if s.Retries != nil {
		j.retries = *s.Retries
	}
	if s.Tags != nil {
		j.tags = slices.Clone(s.Tags)
	}
	j.klass, j.data, j.queue, j.worker, j.expires, j.time = klass, s.Data, s.Queue, "", 0, m.now
	j.remaining = j.retries
	m.record(j, "put", m.now)
	m.know(s.Queue)
	m.place(j, m.wait(s))
	m.placeInTime(s, j)
	switch {
	case s.Unique != "":
		m.claim(j, before)
	case wasOver || wasDead || ran:
		m.claimAgain(j)
	}
	return done
}

// placeInTime places a job by its due time, if past at the put, and if the job keeps its place.
func (m *queues) placeInTime(s step, j *job) {
	if s.At == nil || j.state != qless.StateWaiting || j.options.onLost != "place" || j.options.share != nil {
		return
	}
	if at := secondsOf(noon.Add(*s.At).UnixMicro()); at < m.now {
		j.time, j.score = at, workScore(at, j.priority)
	}
}

// isTaken reports whether another job has the unique key claimed by a step.
func (m *queues) isTaken(s step) bool {
	c := s.claim()
	if c == nil {
		return false
	}
	other := m.holder(c.Key)
	return other != nil && other.jid != s.JID
}

// leave removes a job from all places of its state.
func (m *queues) leave(j *job) {
	if j.worker != "" {
		m.letGo(j.worker, j.jid)
	}
	if j.state == qless.StateFailed {
		m.unfile(j)
	}
	j.grace = false
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(names, func(other string) bool { return other == name })
}

// needs maps the jid of each job to the jobs that it waits for.
func (m *queues) needs() map[string][]string {
	all := map[string][]string{}
	for jid, j := range m.jobs {
		all[jid] = sorted(j.dependencies)
	}
	return all
}

// hasCircle reports whether a job waits for itself, by way of others.
func hasCircle(needs map[string][]string) bool {
	followed := map[string]bool{} // false while a job's dependencies are being followed
	var isInCircle func(jid string) bool
	isInCircle = func(jid string) bool {
		if whole, begun := followed[jid]; begun {
			return !whole
		}
		followed[jid] = false
		if slices.ContainsFunc(needs[jid], isInCircle) {
			return true
		}
		followed[jid] = true
		return false
	}
	for jid := range needs {
		if isInCircle(jid) {
			return true
		}
	}
	return false
}

// closesCircle reports whether a job would wait for itself if it waited for more jobs.
func (m *queues) closesCircle(jid string, others []string) bool {
	needs := m.needs()
	needs[jid] = slices.Concat(needs[jid], m.unfinished(others))
	return len(others) > 0 && hasCircle(needs)
}

// putsCircle reports whether a job would wait for itself after puts of one call, whose jobs become
// members of a batch unless that is empty.
func (m *queues) putsCircle(puts []step, batch string) bool {
	needs := m.needs()
	put := map[string]bool{}
	for _, one := range m.accepted(puts) {
		if len(one.Depends) > 0 {
			needs[one.JID] = slices.DeleteFunc(slices.Clone(one.Depends), func(jid string) bool {
				return !put[jid] && len(m.unfinished([]string{jid})) == 0
			})
		}
		if batch != "" {
			needs[batch] = append(needs[batch], one.JID)
		}
		put[one.JID] = true
	}
	return hasCircle(needs)
}

// unfinished returns the existing, incomplete jobs.
func (m *queues) unfinished(jids []string) []string {
	return slices.DeleteFunc(slices.Clone(jids), func(jid string) bool {
		return m.jobs[jid] == nil || m.jobs[jid].state == qless.StateComplete
	})
}

// accepted returns the puts of one call with conditions that hold and unique keys that are free.
func (m *queues) accepted(puts []step) []step {
	claimed := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(puts), func(one step) bool {
		j, c := m.jobs[one.JID], one.claim()
		if j != nil && one.leaves(j) && !m.isDead(j, j.state) {
			return true
		}
		if c == nil && j != nil && j.isOver() {
			c = j.options.claim // it claims its key again, if that is free
		} else if c != nil && (claimed[c.Key] || m.isTaken(one)) {
			return true
		}
		if c != nil {
			claimed[c.Key] = true
		}
		return false
	})
}

// A share describes a job's turns in a queue.
type share struct {
	Tenant string  `json:"t"`
	Weight float64 `json:"w,omitempty"`
}

// share returns the step's share, or nil.
func (s step) share() *share {
	tenant, weight, ok := strings.Cut(s.Fair, " ")
	if tenant == "" {
		return nil
	}
	own := &share{Tenant: tenant}
	if ok {
		own.Weight, _ = strconv.ParseFloat(weight, 64)
	}
	return own
}

// option returns a share as a put option.
func (s *share) option() qless.PutOption {
	if s.Weight == 0 {
		return qless.Fair(s.Tenant)
	}
	return qless.Fair(s.Tenant, qless.Weight(s.Weight))
}

// drawShare draws a tenant, mostly none, and perhaps a weight.
func (d *dice) drawShare(s *step) {
	if d.chance(12) {
		s.Fair = pick(d, []string{"x", "y", "z", "x 2", "y 0.5"})
	}
}

// turns identifies the jobs of a priority in a queue, among which tenants take turns.
type turns struct {
	priority int
	queue    string
}

// key returns the name of the server's key for the turns, without our prefix.
func (t turns) key() string { return fmt.Sprintf("fair:%d:%s", t.priority, t.queue) }

// takeTurns gives jobs that begin to wait together their places among the jobs with turns.
func (m *queues) takeTurns(jobs ...*job) {
	before := map[turns]float64{}
	for _, j := range jobs {
		if j.options.share != nil && j.state == qless.StateWaiting {
			j.score = m.fairScore(j, before)
		}
	}
}

// fairScore returns the score of a waiting job, and notes when its tenant's next turn begins.
// before has the first turns of the queues before the call.
func (m *queues) fairScore(j *job, before map[turns]float64) float64 {
	own, tenant := turns{j.priority, j.queue}, j.options.share.Tenant
	turn, known := before[own]
	var passed []string
	if !known {
		var waits bool
		turn, waits = m.firstTurn(own)
		if waits {
			passed = first(m.passed(own, turn), 2)
		} else {
			m.fair[own] = map[string]float64{}
		}
		before[own] = turn
	}
	turn = min(max(turn, m.fair[own][tenant]), 0.49)
	for _, other := range passed {
		delete(m.fair[own], other)
	}
	_, exponent := math.Frexp(math.Abs(float64(j.priority)) + 1)
	m.fair[own][tenant] = turn + math.Ldexp(1, exponent-45)/cmp.Or(j.options.share.Weight, 1)
	return float64(j.priority) - 0.5 - turn
}

// passed returns the tenants with turns that ended before a turn, in order.
func (m *queues) passed(own turns, turn float64) []string {
	return slices.DeleteFunc(byTime(m.fair[own]), func(tenant string) bool {
		return m.fair[own][tenant] > turn
	})
}

// firstTurn returns the turn of the first waiting job with one, or false if there is none.
func (m *queues) firstTurn(own turns) (float64, bool) {
	base := float64(own.priority) - 0.5
	for _, j := range m.work(own.queue) {
		if j.score <= base && j.score > base-0.5 {
			return max(base-j.score, 0), true
		}
	}
	return 0, false
}

// compareTurns compares the ends of tenants' turns.
func (m *queues) compareTurns(p *problems, k *keyspace) {
	names := map[string]bool{}
	for own, ends := range m.fair {
		if _, waits := m.firstTurn(own); !waits {
			delete(m.fair, own) // the last job has left
			continue
		}
		names[own.key()] = true
		compareScores(p, "turns of "+own.key(), in(k.ours, own.key()).scores, ends)
	}
	for name := range maps.Keys(k.ours) {
		if strings.HasPrefix(name, "fair:") && !names[name] {
			p.add("the server has %s, the model has not", name)
		}
	}
}

// tenant returns the tenant of a job's turn; empty for none.
func (o *options) tenant() string {
	if o.share == nil {
		return ""
	}
	return o.share.Tenant
}

// checkShares checks that jobs with turns wait behind all others of their priority, before the jobs
// of the next priority, and with no other jobs among them.
func checkShares(p *problems, k *keyspace, _ *queues) {
	for jid, h := range k.jobs {
		t := &h.job
		if t.state != "waiting" {
			continue
		}
		behind := t.priority - k.of(t.queue, "work").scores[jid]
		isFair := strings.Contains(t.options, `"g":`)
		if behind >= 1 || behind >= 0.5 && !isFair {
			p.add("%sj:%s has priority %g, but is %g behind it", prefix, jid, t.priority, behind)
		}
	}
}
