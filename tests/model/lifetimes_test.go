package model

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// A life holds the lifetimes of a job in the model.
type life struct {
	startBy, ttl        float64  // ends of lives; 0 for never
	keepFor, keepFailed *float64 // in seconds; below 0 for forever
	runFor              float64  // in seconds; 0 for none
	put                 float64  // when the first two were set, in whole seconds
}

// The ways for a job to be gone without having ended.
const (
	canceled qless.State = "canceled"
	expired  qless.State = "expired"
)

// timedOut is the server's name for the state of a job taken from its worker. A list of jobs has
// the same name.
const timedOut qless.State = "stalled"

// inJSON returns a number as written by the server, with 14 digits.
func inJSON(n float64) float64 {
	n, _ = strconv.ParseFloat(strconv.FormatFloat(n, 'g', 14, 64), 64)
	return n
}

// isMortal reports whether any lifetime is set.
func (l *life) isMortal() bool {
	return l.startBy > 0 || l.ttl > 0 || l.keepFor != nil || l.keepFailed != nil
}

// isForgotten reports whether a job is deleted on entering a state.
func (l *life) isForgotten(state qless.State) bool {
	return state == qless.StateComplete && l.keepFor != nil && *l.keepFor == 0 ||
		state == qless.StateFailed && l.keepFailed != nil && *l.keepFailed == 0
}

// merge applies the lifetimes of a step at a time.
func (l *life) merge(s step, now float64) {
	for _, of := range []struct {
		given *time.Duration
		time  *float64
	}{{s.StartBy, &l.startBy}, {s.TTL, &l.ttl}} {
		switch {
		case of.given == nil:
		case *of.given == qless.Forever:
			*of.time = 0
		default:
			*of.time = inJSON(now + of.given.Seconds())
		}
	}
	if s.KeepFor != nil {
		l.keepFor = nil
		if *s.KeepFor != qless.Forever {
			l.keepFor = ptr(s.KeepFor.Seconds())
		}
	}
	if s.KeepFailedFor != nil {
		l.keepFailed = ptr(s.KeepFailedFor.Seconds())
		if *s.KeepFailedFor == qless.Forever {
			l.keepFailed = ptr(-1.0)
		}
	}
	switch {
	case s.MaxRunTime == nil:
	case *s.MaxRunTime == qless.Forever:
		l.runFor = 0
	default:
		l.runFor = s.MaxRunTime.Seconds()
	}
	l.put = math.Floor(now)
}

// lifeOptions returns the step's lifetimes as put options.
func (s step) lifeOptions() []qless.PutOption {
	var all []qless.PutOption
	if s.StartBy != nil {
		all = append(all, qless.StartBy(*s.StartBy))
	}
	if s.TTL != nil {
		all = append(all, qless.TTL(*s.TTL))
	}
	if s.KeepFor != nil {
		all = append(all, qless.KeepFor(*s.KeepFor))
	}
	if s.KeepFailedFor != nil {
		all = append(all, qless.KeepFailedFor(*s.KeepFailedFor))
	}
	if s.MaxRunTime != nil {
		all = append(all, qless.MaxRunTime(*s.MaxRunTime))
	}
	if s.At != nil {
		all = append(all, qless.At(noon.Add(*s.At)))
	}
	return all
}

// wait returns how long a job put now by a step can't be popped.
func (m *queues) wait(s step) float64 {
	if s.At != nil {
		return max(secondsOf(noon.Add(*s.At).UnixMicro())-m.now, 0)
	}
	return s.seconds()
}

// outlived reports whether a lifetime of the step is over before the job can be popped.
func (s step) outlived(wait float64) bool {
	return slices.ContainsFunc([]*time.Duration{s.StartBy, s.TTL}, func(d *time.Duration) bool {
		return d != nil && *d != qless.Forever && d.Seconds() <= wait
	})
}

// drawLife draws lifetimes, mostly none.
func (d *dice) drawLife(s *step) {
	lives := []time.Duration{
		500 * time.Millisecond, 5 * time.Second, time.Minute, time.Hour, qless.Forever,
	}
	if d.chance(10) {
		s.StartBy = ptr(pick(d, lives))
	}
	if d.chance(8) {
		s.TTL = ptr(pick(d, lives))
	}
	if d.chance(8) {
		s.KeepFor = ptr(pick(d, []time.Duration{0, 0, 5 * time.Second, time.Hour, qless.Forever}))
	}
	if d.chance(8) {
		s.KeepFailedFor = ptr(pick(d, []time.Duration{0, 0, 5 * time.Second, time.Hour, qless.Forever}))
	}
	if d.chance(6) {
		s.MaxRunTime = ptr(pick(d, []time.Duration{time.Millisecond, time.Minute, qless.Forever}))
	}
	if d.chance(5) {
		waits := []time.Duration{-time.Second, 0, time.Millisecond, 5 * time.Second, time.Minute}
		s.Delay = nil
		s.At = ptr(d.now().Add(pick(d, waits)).Sub(noon))
	}
	if s.Delay != nil && s.outlived(s.seconds()) && d.chance(90) {
		s.Delay = nil
	}
}

// now returns the time of the last step.
func (d *dice) now() time.Time { return time.UnixMicro(int64(math.Round(d.m.now * 1e6))) }

// endIn returns when a life ends in a state that the job entered at a time.
func (l *life) endIn(state qless.State, since float64) float64 {
	gone, start := cmp.Or(l.ttl, math.Inf(1)), cmp.Or(l.startBy, math.Inf(1))
	switch state {
	case qless.StateComplete:
		if l.keepFor != nil {
			return min(gone, since+*l.keepFor)
		}
	case qless.StateFailed:
		if l.keepFailed != nil && *l.keepFailed < 0 {
			return math.Inf(1)
		} else if l.keepFailed != nil {
			return since + *l.keepFailed
		}
	case qless.StateRunning:
	default:
		return min(gone, start)
	}
	return gone
}

// endOf is the same for a job. Options of a put do not apply after another put.
func (m *queues) endOf(j *job, state qless.State, since float64) float64 {
	l := j.options.life
	if ends := l.endIn(state, since); ends > m.now || j.lastPut() <= l.put {
		return ends
	}
	l.startBy, l.ttl = 0, 0
	return l.endIn(state, since)
}

// lastPut returns when a job was last put, as far as its history shows.
func (j *job) lastPut() float64 {
	for _, e := range slices.Backward(j.history) {
		if e.what == "put" {
			return float64(e.when)
		}
	}
	return 0
}

// isDead reports whether a job's life would be over in a state.
func (m *queues) isDead(j *job, state qless.State) bool {
	return j.options.life.isMortal() && m.endOf(j, state, m.now) <= m.now
}

// note notes when to check a job.
func (m *queues) note(jid string, ends float64) {
	if math.IsInf(ends, 1) {
		delete(m.until, jid)
	} else {
		m.until[jid] = ends
	}
}

// keepRecord notes how long to keep a job that has just ended, or deletes a failed job. It reports
// whether to delete a complete job.
func (m *queues) keepRecord(j *job, last qless.State) bool {
	l := j.options.life
	forgotten := l.isForgotten(last)
	switch {
	case last == canceled || last == expired || forgotten && last == qless.StateComplete:
		delete(m.until, j.jid)
	case forgotten && len(j.dependents) > 0:
		m.until[j.jid] = m.now
	case forgotten:
		m.deleteFailed(j)
	case last == qless.StateComplete && l.keepFor != nil,
		last == qless.StateFailed && l.keepFailed != nil:
		m.note(j.jid, l.endIn(last, m.now))
	}
	return forgotten && last == qless.StateComplete
}

// deleteFailed deletes a failed job silently.
func (m *queues) deleteFailed(j *job) {
	m.unfile(j)
	m.remove(j)
	if j.options.life.isMortal() {
		delete(m.until, j.jid)
	}
}

// lookAgain is the time after which an undeletable job is checked again.
const lookAgain = 60

// endLife ends the life of a job if it is over in the job's present or next state. It reports
// whether the life was over.
func (m *queues) endLife(jid string, as qless.State) bool {
	j := m.jobs[jid]
	if j == nil {
		delete(m.until, jid)
		return false
	}
	state, since := j.state, j.time
	if state == qless.StateFailed {
		since = j.failure.when
	}
	ends := m.endOf(j, cmp.Or(as, state), since)
	switch {
	case ends <= m.now && m.expireJob(j):
		if state != qless.StateComplete && state != qless.StateFailed {
			m.count(j.queue, m.now).expired++
			m.vanished++
		}
		return true
	case ends <= m.now:
		ends = m.now + lookAgain
	case state == qless.StateRunning && j.options.life.startBy > 0:
		ends = min(ends, m.now+lookAgain)
	}
	m.note(jid, ends)
	return false
}

// expireJob deletes a job with an ended life, or fails the job if it has dependents.
func (m *queues) expireJob(j *job) bool {
	switch {
	case j.state == qless.StateComplete:
		m.remove(j)
		delete(m.until, j.jid)
	case len(j.dependents) == 0:
		m.leave(j)
		m.remove(j)
		m.end(j, expired)
	case j.state == qless.StateFailed:
		return false
	default:
		m.leave(j)
		for jid := range j.dependencies {
			m.undepend(j, jid)
		}
		m.file(j, failure{
			group: "expired-" + j.queue, when: math.Floor(m.now), message: "Its StartBy or TTL is over",
		})
		m.end(j, qless.StateFailed)
		m.limitFailures(j)
	}
	return true
}

// endLives checks the first jobs whose lives may be over, and returns the number that were.
func (m *queues) endLives(limit int) int {
	var due []string
	for _, jid := range byTime(m.until) {
		if m.until[jid] <= m.now {
			due = append(due, jid)
		}
	}
	ended := 0
	for _, jid := range first(due, limit) {
		if m.endLife(jid, "") {
			ended++
		}
	}
	return ended
}

// enterLives notes the ends of the lives of newly put jobs, and ends up to two others for each.
func (m *queues) enterLives(jobs []*job) {
	mortal := 0
	for _, j := range jobs {
		if l := j.options.life; l.isMortal() {
			mortal++
			if ends := l.endIn(qless.StateWaiting, 0); !math.IsInf(ends, 1) {
				m.until[j.jid] = ends
			}
		}
	}
	m.endLives(2 * mortal)
}

// ends returns when a job's life ends, as reported to readers; 0 for never.
func (j *job) ends() float64 {
	l, since := j.options.life, math.Inf(1)
	if j.lastPut() > l.put {
		l.startBy, l.ttl = 0, 0
	}
	switch j.state {
	case qless.StateComplete:
		for _, e := range j.history {
			if e.what == "done" {
				since = float64(e.when)
			}
		}
	case qless.StateFailed:
		since = j.failure.when
	}
	if ends := l.endIn(j.state, since); !math.IsInf(ends, 1) {
		return ends
	}
	return 0
}

var lifeActions = []action{
	{
		name: "Sweep", weight: 3,
		draw: func(d *dice) step { return step{Do: "Sweep"} },
		play: func(w *world, s step) outcome {
			n, err := inspect.New(w.by(s)).Sweep(w.ctx)
			return outcomeOf(err, func() string { return strconv.Itoa(n) })
		},
		predict: func(m *queues, s step) outcome {
			return outcome(strconv.Itoa(m.endLives(100) + m.sweepFailures()))
		},
	},
}

// sweepFailures deletes failed jobs beyond the age and number limits, and notifies their
// dependents.
func (m *queues) sweepFailures() int {
	seconds, count := m.failureLimits()
	groups, done := inOrder(m.groups), 0
	if seconds >= 0 {
		done += m.clearOld(seconds)
	}
	for _, group := range groups {
		done += m.limitGroup(group, seconds, count, len(m.groups[group]))
		for _, jid := range slices.Clone(m.groups[group]) {
			if j := m.jobs[jid]; j != nil && j.state == qless.StateFailed && j.options.told {
				done += m.notifyDependents(j)
			}
		}
	}
	return done
}
