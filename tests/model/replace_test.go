package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/tests/scripts"
)

// replaceActions are puts that replace the job with their unique key. The library would give them
// random jids, so they call the script directly.
var replaceActions = []action{
	{
		name: "Replace", weight: 5,
		draw: drawReplace,
		play: func(w *world, s step) outcome {
			at := time.UnixMicro(w.micros)
			reply, err := scripts.Run(w.ctx, w.rdb, prefix, at, "put", s.replaceArgs()...)
			return outcomeOf(err, func() string { return fmt.Sprint(reply) })
		},
		predict: predictReplace,
	},
	{
		name: "ReplaceMany", weight: 3,
		draw: drawReplaceMany,
		play: func(w *world, s step) outcome {
			args := []any{s.Worker, "new"}
			for _, one := range s.Many {
				own := one.replaceArgs()
				args = append(append(append(args, own[1:6]...), len(own)-8), own[8:]...)
			}
			reply, err := scripts.Run(w.ctx, w.rdb, prefix, time.UnixMicro(w.micros), "put.many", args...)
			if err != nil && strings.Contains(err.Error(), "is named twice") {
				return refused(qless.ErrInvalid)
			}
			return outcomeOf(err, func() string { return fmt.Sprint(reply) })
		},
		predict: predictReplaceMany,
	},
}

// drawReplaceMany draws puts with different keys and without lifetimes, because the call reads
// these jobs before ending the lives of others.
func drawReplaceMany(d *dice) step {
	s := step{Do: "ReplaceMany", Worker: d.worker()}
	for _, key := range uniqueNames {
		one := drawReplace(d)
		_, mode, _ := strings.Cut(one.Unique, " ")
		one.Unique, one.Worker, one.Fair = key+" "+mode, s.Worker, ""
		one.StartBy, one.TTL, one.KeepFor, one.KeepFailedFor = nil, nil, nil, nil
		if len(s.Many) == 0 || one.JID != s.Many[0].JID {
			s.Many = append(s.Many, one)
		}
	}
	return s
}

// predictReplaceMany predicts the effects of the same puts one by one. The reply names only puts
// that have left a job unchanged, or replaced a job. The states of others are from before the call.
func predictReplaceMany(m *queues, s step) outcome {
	if m.putsTwice(s.Many) {
		return refused(qless.ErrInvalid)
	}
	found, before := []any{}, maps.Clone(m.jobs)
	for i, one := range s.Many {
		jid, isKnown := m.replaced(one), m.jobs[one.JID] != nil
		reply := string(predictReplace(m, one))
		if of, what, ok := strings.Cut(strings.Trim(reply, "[]"), " "); ok && !isKnown {
			if before[of] == nil {
				what = "" // it had a temporary claim on the key, and is gone
			}
			found = append(found, []any{i, of, what})
		}
		if j := m.jobs[jid]; j != nil && j.state == qless.StateWaiting {
			j.slack = float64(i) * resolution(j.priority)
		}
	}
	if len(found) == 0 {
		return "<nil>"
	}
	return outcome(fmt.Sprint(found))
}

// putsTwice reports whether two of these steps put the same job.
func (m *queues) putsTwice(steps []step) bool {
	put := map[string]bool{}
	for _, s := range steps {
		jid := m.replaced(s)
		if put[jid] || put[s.JID] && m.jobs[s.JID] != nil {
			return true
		}
		put[jid] = jid != ""
	}
	return false
}

// replaced returns the jid of the job put by a step, or empty if the step leaves a job unchanged.
func (m *queues) replaced(s step) string {
	key := s.claim().Key
	other := m.holder(key)
	switch {
	case m.jobs[s.JID] != nil:
		return ""
	case other == nil || other.jid == s.JID:
		return s.JID
	case m.claims[key].ends > 0 || other.options.claim.Mode == "for",
		other.options.claim.PutAs == s.JID:
		return ""
	case other.state == qless.StateRunning:
		return s.JID
	}
	return other.jid
}

func drawReplace(d *dice) step {
	s := step{Do: "Replace", Queue: d.queue(), JID: pick(d, jobNames), Data: d.data()}
	s.Priority, s.Retries, s.Tags, s.Delay = d.priority(), d.retries(), d.tags(0), d.delay()
	d.drawOptions(&s)
	s.OnFailure, s.At, s.Depends = "", nil, nil
	s.Unique = pick(d, uniqueNames) + " " + pick(d, []string{"", "", "start"})
	s.Replace = pick(d, []string{"delay", "delay", "due"})
	if s.Replace == "delay" && d.chance(40) {
		s.Within = pick(d, []time.Duration{time.Second, time.Minute})
	}
	if s.outlived(s.seconds()) {
		s.Delay = nil
	}
	return s
}

// replaceArgs returns the arguments of the command put: five for the worker, the job and its delay,
// followed by pairs.
func (s step) replaceArgs() []any {
	var o options
	o.merge(s)
	o.life.merge(s, 0)
	seconds := strconv.FormatFloat(s.seconds(), 'f', -1, 64)
	args := []any{
		s.Worker, s.Queue, s.JID, klass, s.Data, seconds, "new", 1, "o", o.text(), "replace", s.Replace,
	}
	if s.Within > 0 {
		args = append(args, "within", strconv.FormatFloat(s.Within.Seconds(), 'f', -1, 64))
	}
	if s.Priority != nil {
		args = append(args, "priority", *s.Priority)
	}
	if s.Retries != nil {
		args = append(args, "retries", *s.Retries)
	}
	if s.Tags != nil {
		tags, _ := json.Marshal(s.Tags)
		args = append(args, "tags", string(tags))
	}
	return args
}

func predictReplace(m *queues, s step) outcome {
	if m.jobs[s.JID] != nil {
		return outcome(s.JID)
	}
	c := s.claim()
	other := m.holder(c.Key)
	if other == nil || other.jid == s.JID {
		m.put(s)
		return outcome(s.JID)
	}
	held := other.options.claim
	switch {
	case m.claims[c.Key].ends > 0:
		return outcome(fmt.Sprintf("[%s %s]", other.jid, other.state))
	case held.PutAs == s.JID:
	case held.Mode == "for":
		return outcome(fmt.Sprintf("[%s %s]", other.jid, other.state))
	case other.state == qless.StateRunning:
		s.OnFailure, s.Depends, s.After = "run", []string{other.jid}, other.jid
		m.put(s)
		return outcome(s.JID)
	default:
		m.replace(s, other)
	}
	return outcome(fmt.Sprintf("[%s replaced]", other.jid))
}

// replace turns a waiting job into the step's.
func (m *queues) replace(s step, j *job) {
	old := j.options
	began := j.time
	if old.claim.last == j.time {
		began = old.claim.first
	}
	due, turn := m.now+s.seconds(), 0.0
	if s.Replace == "due" {
		due, turn = m.dueOf(s, j, began)
	}
	if s.Within > 0 {
		due = min(due, began+s.Within.Seconds())
	}
	m.leave(j)
	j.options = options{told: old.told, waited: old.waited, policy: old.policy, batch: old.batch}
	j.options.merge(s)
	j.options.life.merge(s, m.now)
	c := j.options.claim
	c.After, c.PutAs, c.first, c.last = old.claim.After, s.JID, began, m.now
	c.Times = exact(began) + " " + m.stamp
	j.priority, j.retries, j.tags = 0, 5, s.Tags
	if s.Priority != nil {
		j.priority = *s.Priority
	}
	if s.Retries != nil {
		j.retries = *s.Retries
	}
	j.klass, j.data, j.queue, j.worker, j.expires, j.time = klass, s.Data, s.Queue, "", 0, m.now
	j.remaining = j.retries
	m.record(j, "put", m.now)
	m.know(s.Queue)
	m.place(j, max(due-m.now, 0))
	switch {
	case j.state != qless.StateWaiting:
	case turn != 0:
		j.score = turn
	case due < m.now && j.options.share == nil:
		j.score = workScore(due, j.priority)
	default:
		m.takeTurns(j)
	}
	if m.claims[c.Key].jid == j.jid {
		m.claim(j, nil)
	} // otherwise it has the key again, because its follower's life is over, which is found out each time
	m.watch(j)
	m.enterLives([]*job{j})
}

// dueOf returns the due time of a replaced waiting job, and the score to keep for a job with a
// turn.
func (m *queues) dueOf(s step, j *job, began float64) (due, turn float64) {
	switch {
	case j.state == qless.StateScheduled:
		return j.score, 0
	case j.state == qless.StateDepends && j.delayed > 0:
		return j.delayed, 0
	case j.state == qless.StateDepends:
		return m.now, 0
	case math.IsInf(j.score, 1): // it was timed out
		return 0, 0
	}
	due = (float64(j.priority) - j.score) * 1e10
	priority := 0
	if s.Priority != nil {
		priority = *s.Priority
	}
	switch {
	case due <= m.now:
		return due, 0
	case s.share() == nil:
		return began, 0
	case j.options.share != nil && s.Queue == j.queue && priority == j.priority:
		return m.now, j.score
	}
	return m.now, 0
}

// exact formats a number like the scripts.
func exact(n float64) string { return strconv.FormatFloat(n, 'g', 17, 64) }
