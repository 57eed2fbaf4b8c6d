package model

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/qless/qless-go"
)

// takeActions take or peek jobs.
var takeActions = []action{
	{
		name: "Pop", weight: 26,
		draw: func(d *dice) step {
			return step{Do: "Pop", Queue: d.busyQueue(), Count: 1 + d.IntN(4)}
		},
		play: func(w *world, s step) outcome {
			jobs, err := w.by(s).Queue(s.Queue).Pop(w.ctx, s.Count)
			return w.got(s, jobs, err)
		},
		predict: func(m *queues, s step) outcome { return m.gives(s, m.pop(s)) },
	},
	{
		name: "Peek", weight: 3,
		draw: func(d *dice) step { return step{Do: "Peek", Queue: d.busyQueue(), Count: 1 + d.IntN(4)} },
		play: func(w *world, s step) outcome {
			jobs, err := w.by(s).Queue(s.Queue).Peek(w.ctx, s.Count)
			return w.got(s, jobs, err)
		},
		predict: func(m *queues, s step) outcome { return m.gives(s, m.peek(s.Queue, s.Count)) },
	},
	{
		name: "Job", weight: 2,
		draw: func(d *dice) step { return step{Do: "Job", JID: d.jid()} },
		play: func(w *world, s step) outcome {
			j, err := w.by(s).Job(w.ctx, s.JID)
			return w.got(s, []*qless.Job{j}, err)
		},
		predict: func(m *queues, s step) outcome {
			if m.jobs[s.JID] == nil {
				return refused(qless.ErrNotFound)
			}
			return m.gives(s, []*job{m.jobs[s.JID]})
		},
	},
	{
		name: "Jobs", weight: 2,
		draw: func(d *dice) step { return step{Do: "Jobs", JIDs: d.jids(1 + d.IntN(4))} },
		play: func(w *world, s step) outcome {
			jobs, err := w.by(s).Jobs(w.ctx, s.JIDs...)
			return w.got(s, jobs, err)
		},
		predict: func(m *queues, s step) outcome {
			var found []*job
			for _, jid := range s.JIDs {
				if j := m.jobs[jid]; j != nil {
					found = append(found, j)
				}
			}
			return m.gives(s, found)
		},
	},
}

// got stores the jobs received by a worker, and shows them.
func (w *world) got(s step, jobs []*qless.Job, err error) outcome {
	return outcomeOf(err, func() string {
		var all []string
		for _, j := range jobs {
			w.give(s.Worker, j)
			all = append(all, viewOf(j))
		}
		return s.shown(all)
	})
}

// neededBy matches the part of a view with the job's dependents.
var neededBy = regexp.MustCompile(`needed by \[[^]]*\], `)

// shown shows the jobs returned by a call. A pop may show jobs before finding one with an ended
// life, so their dependents may fail after that.
func (s step) shown(jobs []string) string {
	text := fmt.Sprintf("%d jobs: %s", len(jobs), strings.Join(jobs, " "))
	if s.Do == "Pop" {
		return neededBy.ReplaceAllString(text, "")
	}
	return text
}

// gives predicts got.
func (m *queues) gives(s step, jobs []*job) outcome {
	var all []string
	for _, j := range jobs {
		m.give(s.Worker, j)
		if s.Do == "Pop" {
			m.handles[handleKey{s.Worker, j.jid}][0].since = j.time
		}
		all = append(all, m.view(j))
	}
	return outcome(s.shown(all))
}

// pop locks jobs for a worker: first those with expired locks, then waiting ones.
func (m *queues) pop(s step) []*job {
	queue, worker, count := s.Queue, s.Worker, s.Count
	if m.paused[queue] {
		return nil
	}
	m.seen[worker] = m.now
	count = m.allowed(queue, count)
	if count == 0 {
		return nil
	}
	isDue := len(until(m.in(queue, "scheduled"), m.now)) > 0
	taken := m.expire(queue, count)
	for _, j := range taken {
		m.lock(j, s)
	}
	m.spawnDue(queue, count-len(taken))
	if isDue { // otherwise a job released by a lost one, with a delay that is over, is left for the next pop
		m.moveDue(queue, count-len(taken))
	}
	for len(taken) < count {
		some := first(m.work(queue), count-len(taken))
		if len(some) == 0 {
			break
		}
		for _, j := range some {
			if !m.dropDead(j, qless.StateWaiting) {
				m.lock(j, s)
				taken = append(taken, j)
			}
		}
	}
	return taken
}

// allowed returns the number of further jobs that a queue may run.
func (m *queues) allowed(queue string, wanted int) int {
	limit := int(m.setting(queue+"-max-concurrency", 0))
	if limit <= 0 {
		return wanted
	}
	for _, j := range m.in(queue, "locks") {
		if j.score >= m.now {
			limit--
		}
	}
	return min(wanted, max(0, limit))
}

// dropDead ends the life of a running job, or of a job about to be handed out, if the life is over
// in a state.
func (m *queues) dropDead(j *job, state qless.State) bool {
	return m.isDead(j, state) && m.endLife(j.jid, state)
}

// inGrace reports whether a job's worker has the grace period, which made the lock longer. The
// field grace alone may be left from the previous worker.
func (j *job) inGrace() bool { return j.grace && j.score != j.expires }

// expire handles up to limit expired locks, besides those of jobs whose lives are over, and returns
// the jobs to hand out. A worker that lost its lock first gets the grace period; then the job loses
// a retry.
func (m *queues) expire(queue string, limit int) []*job {
	grace := m.setting("grace-period", 10)
	var taken []*job
	for _, j := range until(m.in(queue, "locks"), m.now) {
		if limit == 0 {
			break
		}
		if m.dropDead(j, qless.StateRunning) {
			continue
		}
		limit--
		m.letGo(j.worker, j.jid)
		warned := j.inGrace()
		sudden := grace <= 0 || !warned && j.options.lockTime > 0
		if sudden || !warned {
			m.record(j, "timed-out", m.now)
			j.grace, j.score = true, m.now+grace
			m.count(queue, m.now).retries++
		}
		if !sudden && !warned {
			continue
		}
		j.remaining--
		j.grace = false
		switch initial := m.setting("backoff-initial-delay", 0); {
		case j.remaining < 0:
			m.file(j, m.exhausted(j))
			m.end(j, qless.StateFailed)
			m.limitFailures(j)
		case m.dropDead(j, qless.StateWaiting):
			limit++
		case initial > 0:
			factor := m.setting("backoff-factor", 3)
			delay := initial * math.Pow(factor, float64(j.retries-j.remaining))
			j.state, j.score = qless.StateScheduled, m.now+delay
		case j.options.onLost == "last" || j.options.onLost == "place":
			m.putBack(j)
		default:
			taken = append(taken, j)
		}
	}
	return taken
}

// exhausted returns the failure of a job without retries.
func (m *queues) exhausted(j *job) failure {
	return failure{
		group: "failed-retries-" + j.queue, when: inJSON(m.now),
		message: fmt.Sprintf("Job exhausted retries in queue %q", j.queue),
	}
}

// putBack puts a lost job back, to the place given by its options.
func (m *queues) putBack(j *job) {
	at := m.now + float64(m.madeLast)*1e-6
	switch {
	case j.options.onLost == "last" || j.options.share != nil:
		m.madeLast++
	case j.placed > 0:
		at = j.placed
	}
	m.enqueue(j, at)
	m.takeTurns(j)
	j.worker, j.expires, j.time = "", 0, at
}

// lockTime returns the duration of a renewed lock on a job.
func (m *queues) lockTime(j *job) float64 {
	if j.options.lockTime > 0 {
		return j.options.lockTime
	}
	return m.heartbeat(j.queue)
}

// lock gives a job to the worker of a pop.
func (m *queues) lock(j *job, s step) {
	m.record(j, "popped", m.now)
	if j.options.onLost != "" {
		j.placed = j.time
	}
	j.state, j.worker, j.time = qless.StateRunning, s.Worker, m.now
	j.expires = m.now + m.lockTime(j)
	j.score = j.expires
	m.hold(s.Worker, j.jid, j.expires)
	m.count(j.queue, m.now).waits++
}

// spawnDue puts up to limit due jobs of recurring jobs.
func (m *queues) spawnDue(queue string, limit int) {
	var due []*recurring
	for _, r := range m.recurring(queue) {
		if r.due <= m.now {
			due = append(due, r)
		}
	}
	for _, r := range first(due, limit) {
		limit -= m.spawn(r, limit)
	}
}

// recurring returns the recurring jobs of a queue, the next first.
func (m *queues) recurring(queue string) []*recurring {
	var all []*recurring
	for _, r := range m.recurs {
		if r.queue == queue {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *recurring) int {
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.jid, b.jid))
	})
	return all
}

// spawn puts up to limit due jobs of a recurring job, and returns their number. With an interval of
// whole seconds, jobs fall due on whole seconds.
func (m *queues) spawn(r *recurring, limit int) int {
	at := r.due
	if r.interval == math.Floor(r.interval) {
		at = math.Floor(at)
	}
	if missed := (m.now - at) / r.interval; r.backlog != 0 && missed > float64(r.backlog) {
		at += math.Ceil(missed-float64(r.backlog)) * r.interval
	}
	spawned := 0
	for at <= m.now && spawned < limit {
		m.putChild(r, at)
		at += r.interval
		spawned++
	}
	if spawned > 0 {
		r.due = at
	}
	return spawned
}

// putChild puts one job of a recurring job. It skips numbers taken by other jobs.
func (m *queues) putChild(r *recurring, at float64) {
	jid := ""
	for jid == "" || m.jobs[jid] != nil {
		r.count++
		jid = fmt.Sprintf("%s-%d", r.jid, r.count)
	}
	j := &job{
		jid: jid, klass: r.klass, data: r.data, queue: r.queue, spawnedFrom: r.jid, time: at,
		priority: r.priority, retries: r.retries, remaining: r.retries, tags: slices.Clone(r.tags),
		dependencies: map[string]bool{}, dependents: map[string]bool{},
	}
	m.jobs[jid] = j
	m.record(j, "put", at)
	m.enqueue(j, at)
}

// moveDue moves up to limit jobs with an ended delay.
func (m *queues) moveDue(queue string, limit int) {
	due := first(until(m.in(queue, "scheduled"), m.now), limit)
	for n, j := range due {
		if j.options.onLost == "" || j.options.share != nil {
			m.enqueue(j, m.now)
			continue
		}
		j.time = j.score
		m.enqueue(j, j.score+float64(n)*1e-6)
	}
	m.takeTurns(due...)
}

// peek returns the jobs with expired locks, and waiting ones.
func (m *queues) peek(queue string, count int) []*job {
	shown := m.alive(first(until(m.in(queue, "locks"), m.now), count))
	m.spawnDue(queue, count-len(shown))
	m.moveDue(queue, count-len(shown))
	return append(shown, first(m.alive(m.work(queue)), count-len(shown))...)
}

// alive returns the jobs that may be handed out.
func (m *queues) alive(jobs []*job) []*job {
	return slices.DeleteFunc(jobs, func(j *job) bool { return m.isDead(j, qless.StateWaiting) })
}
