package model

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/qless/qless-go"
)

// openBatch is a pseudo member: the job of a batch waits for it until the batch is committed.
const openBatch = "x:open"

// batchActions are the actions on batches. Members never conflict over a unique key; PutMany draws
// such conflicts.
var batchActions = []action{
	{
		name: "NewBatch", weight: 3,
		draw: drawNewBatch,
		play: func(w *world, s step) outcome {
			options := append(s.putOptions(), qless.JID(s.JID))
			callback := qless.JobSpec{Klass: klass, Data: json.RawMessage(s.Data), Options: options}
			_, err := w.by(s).NewBatch(w.ctx, s.Queue, callback)
			return ended(err)
		},
		predict: func(m *queues, s step) outcome {
			s.Opens = true
			return m.put(s)
		},
	},
	{
		name: "Batch.Add", weight: 5,
		draw: drawAdd,
		play: func(w *world, s step) outcome {
			_, err := w.by(s).Batch(s.JID).Add(w.ctx, s.Queue, s.specs())
			return ended(err)
		},
		predict: predictAdd,
	},
	{
		name: "Batch.Commit", weight: 3,
		draw: func(d *dice) step { return step{Do: "Batch.Commit", JID: d.batch()} },
		play: func(w *world, s step) outcome { return ended(w.by(s).Batch(s.JID).Commit(w.ctx)) },
		predict: onBatch(func(m *queues, j *job) outcome {
			isLast := j.dependencies[openBatch] && len(j.dependencies) == 1
			m.undepend(j, openBatch)
			if isLast {
				m.free(j, true)
			}
			return done
		}),
	},
	{
		name: "Batch.Status", weight: 2,
		draw: func(d *dice) step { return step{Do: "Batch.Status", JID: d.batch()} },
		play: func(w *world, s step) outcome {
			status, err := w.by(s).Batch(s.JID).Status(w.ctx)
			return outcomeOf(err, func() string {
				failed := map[string]string{}
				for _, f := range status.Failed {
					failed[f.JID] = f.Group
				}
				return shownBatch(string(onServer(status.State)), status.Open, status.Total, status.Pending, failed)
			})
		},
		predict: onBatch(func(m *queues, j *job) outcome {
			isOpen := j.dependencies[openBatch]
			pending := len(j.dependencies)
			if isOpen {
				pending--
			}
			var failed map[string]string
			if j.options.policy != nil {
				failed = j.options.policy.Failed
			}
			return outcome(shownBatch(string(j.state), isOpen, j.options.batch.Total, pending, failed))
		}),
	},
	{
		name: "Batch.Cancel", weight: 1,
		draw: func(d *dice) step { return step{Do: "Batch.Cancel", JID: d.batch()} },
		play: func(w *world, s step) outcome { return ended(w.by(s).Batch(s.JID).Cancel(w.ctx)) },
		predict: onBatch(func(m *queues, j *job) outcome {
			return m.cancel(append([]string{j.jid}, without(sorted(j.dependencies), openBatch)...))
		}),
	},
}

// A batch is a job's information about its members.
type batch struct {
	Total int `json:"n"`
}

func shownBatch(state string, isOpen bool, total, pending int, failed map[string]string) string {
	if len(failed) == 0 {
		failed = nil
	}
	return fmt.Sprintf("%s, open %t, %d of %d, failed %v", state, isOpen, pending, total, failed)
}

// drawNewBatch draws a batch, mostly with a new jid.
func drawNewBatch(d *dice) step {
	s := d.putting(step{Do: "NewBatch", Queue: d.queue(), JID: d.jid()})
	s.Depends, s.OnFailure = nil, ""
	d.drawPolicy(&s)
	if s.OnFailure == "" && d.knowsFailures(s.JID) && d.chance(50) {
		s.OnFailure = pick(d, []string{"run", "fail"})
	}
	return s
}

// drawAdd draws jobs that mostly become members of an open or waiting batch.
func drawAdd(d *dice) step {
	s := drawPutMany(d)
	s.Do, s.JID = "Batch.Add", d.batch()
	for i := range s.Many {
		s.Many[i].Unique = ""
		if d.chance(90) {
			s.Many[i].Depends = without(s.Many[i].Depends, s.JID)
		}
	}
	if d.chance(90) {
		s.Many = slices.DeleteFunc(s.Many, func(one step) bool { return one.JID == s.JID })
	}
	if j := d.m.jobs[s.JID]; j != nil && len(j.dependents) > 0 && len(s.Many) > 0 && d.chance(40) {
		last := &s.Many[len(s.Many)-1]
		last.OnFailure, last.Depends = "", without([]string{pick(d, sorted(j.dependents))}, last.JID)
	}
	return s
}

// batch draws the jid of a batch, mostly a waiting one.
func (d *dice) batch() string {
	isBatch := func(j *job) bool { return j.options.batch != nil }
	waits := d.existing(func(j *job) bool { return isBatch(j) && j.state == qless.StateDepends })
	if len(waits) > 0 && d.chance(80) {
		return pick(d, waits)
	}
	if all := d.existing(isBatch); len(all) > 0 && d.chance(80) {
		return pick(d, all)
	}
	return d.jid()
}

// onBatch predicts a call on a batch in the model.
func onBatch(call func(m *queues, j *job) outcome) func(*queues, step) outcome {
	return func(m *queues, s step) outcome {
		j := m.jobs[s.JID]
		switch {
		case j == nil:
			return refused(qless.ErrNotFound)
		case j.options.batch == nil:
			return refused(qless.ErrInvalid)
		}
		return call(m, j)
	}
}

func predictAdd(m *queues, s step) outcome {
	for _, one := range s.Many {
		if one.JID == s.JID || slices.Contains(one.Depends, s.JID) {
			return refused(qless.ErrInvalid)
		}
	}
	if problem := m.checkMany(s); problem != done {
		return problem
	}
	j := m.jobs[s.JID]
	if len(m.accepted(s.Many)) > 0 {
		switch {
		case j == nil:
			return refused(qless.ErrNotFound)
		case j.state != qless.StateDepends:
			return refused(qless.ErrNotDepending)
		case j.options.batch == nil:
			return refused(qless.ErrInvalid)
		}
	}
	if m.putsCircle(s.Many, s.JID) {
		return refused(qless.ErrInvalid)
	}
	return m.putMany(s, j)
}

// join makes newly put jobs members of a batch.
func (m *queues) join(j *job, members []*job) {
	var jids []string
	for _, member := range members {
		if !j.dependencies[member.jid] {
			j.options.batch.Total++
		}
		j.dependencies[member.jid] = true
		member.dependents[j.jid] = true
		jids = append(jids, member.jid)
	}
	m.watchSome(j, jids)
}
