package model

import (
	"encoding/json"
	"slices"

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
	// A job that is put before one that it depends on does not wait for it.
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

// checkMany returns the reason why the jobs of a PutMany can't be put.
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

// write writes a job, or moves the existing one. Values that the step omits stay unchanged.
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

// placeInTime places a job by its due time if that has passed at the put, and the job keeps its
// place.
func (m *queues) placeInTime(s step, j *job) {
	if s.At == nil || j.state != qless.StateWaiting || j.options.onLost != "place" || j.options.share != nil {
		return
	}
	if at := secondsOf(noon.Add(*s.At).UnixMicro()); at < m.now {
		j.time, j.score = at, workScore(at, j.priority)
	}
}

// isTaken reports whether another job has the unique key that a step claims.
func (m *queues) isTaken(s step) bool {
	c := s.claim()
	if c == nil {
		return false
	}
	other := m.holder(c.Key)
	return other != nil && other.jid != s.JID
}

// leave removes a job from everything that its state put it into.
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
