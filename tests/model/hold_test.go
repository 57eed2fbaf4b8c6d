package model

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/tests/repairs"
)

// holdActions are actions of a worker on jobs that it has, or believes it has.
var holdActions = []action{
	{
		name: "Complete", weight: 12,
		draw: func(d *dice) step {
			s := d.onHeld(step{Do: "Complete"})
			s.Data = d.maybeData()
			if d.chance(30) {
				s.Next = d.queue()
				s.Delay = d.delay()
				s.Depends = d.depends()
			}
			if s.Next != "" && d.chance(30) {
				s.Priority, s.Retries, s.Tags = d.priority(), d.retries(), d.tags(0)
				s.Header = pick(d, []string{"", "3"})
			}
			if s.Next != "" {
				d.drawPolicy(&s)
			}
			s.Result = d.result()
			return s
		},
		play: onJob(func(w *world, j *qless.Job, s step) outcome {
			if err := setResult(j, s); err != nil {
				return ended(err)
			}
			if s.Next == "" {
				return ended(j.Complete(w.ctx))
			}
			var options []qless.NextOption
			for _, option := range s.putOptions() {
				options = append(options, option.(qless.NextOption))
			}
			return ended(j.Next(w.ctx, s.Next, options...))
		}),
		predict: onHandle(predictComplete),
	},
	{
		name: "Fail", weight: 5,
		draw: func(d *dice) step {
			s := d.onHeld(step{Do: "Fail", Group: d.group(), Message: "because"})
			s.Data, s.Result = d.maybeData(), d.result()
			return s
		},
		play: onJob(func(w *world, j *qless.Job, s step) outcome {
			if err := setResult(j, s); err != nil {
				return ended(err)
			}
			return ended(j.Fail(w.ctx, s.Group, s.Message))
		}),
		predict: onHandle(func(m *queues, h *handle, j *job, s step) outcome {
			if problem := notRun(h, j, s.Worker); problem != "" {
				return problem
			}
			m.drop(j)
			j.data = h.data
			m.file(j, failure{group: s.Group, message: s.Message, worker: s.Worker, when: math.Floor(m.now)})
			j.store(h)
			m.end(j, qless.StateFailed)
			m.limitFailures(j)
			return done
		}),
	},
	{
		name: "Retry", weight: 6,
		draw: func(d *dice) step {
			s := d.onHeld(step{Do: "Retry", Delay: d.delay()})
			s.Data, s.Result = d.maybeData(), d.result()
			if d.chance(40) {
				s.Message = "again"
			}
			if d.chance(30) {
				s.Group = d.group()
			}
			return s
		},
		play: onJob(func(w *world, j *qless.Job, s step) outcome {
			if err := setResult(j, s); err != nil {
				return ended(err)
			}
			remaining, err := j.Retry(w.ctx, s.delay(), s.Group, s.Message)
			return outcomeOf(err, func() string { return fmt.Sprintf("%d left", remaining) })
		}),
		predict: onHandle(predictRetry),
	},
	{
		name: "Release", weight: 5,
		draw: func(d *dice) step {
			s := d.onHeld(step{Do: "Release", Delay: d.delay()})
			s.Data = d.maybeData()
			return s
		},
		play: onJob(func(w *world, j *qless.Job, s step) outcome {
			return ended(j.Release(w.ctx, s.delay()))
		}),
		predict: onHandle(func(m *queues, h *handle, j *job, s step) outcome {
			if problem := notHeld(h, j, s.Worker); problem != "" {
				return problem
			}
			m.drop(j)
			j.worker, j.expires, j.data = "", 0, h.data
			m.place(j, s.seconds())
			if j.state == qless.StateWaiting {
				j.score = float64(j.priority) // before other jobs of that priority
			}
			return done
		}),
	},
	{
		name: "Heartbeat", weight: 5,
		draw: func(d *dice) step {
			s := d.onHeld(step{Do: "Heartbeat"})
			s.Data = d.maybeData()
			return s
		},
		play: onJob(func(w *world, j *qless.Job, s step) outcome {
			expires, err := j.Heartbeat(w.ctx)
			return outcomeOf(err, func() string { return lockedUntil(expires.Unix()) })
		}),
		predict: onHandle(func(m *queues, h *handle, j *job, s step) outcome {
			if problem := notRun(h, j, s.Worker); problem != "" {
				return problem
			}
			j.expires, j.grace, j.data = m.now+m.lockTime(j), false, h.data
			j.score = j.expires
			m.hold(s.Worker, j.jid, j.expires)
			m.seen[s.Worker] = m.now
			return outcome(lockedUntil(int64(j.expires)))
		}),
	},
	{
		name: "Timeout", weight: 3,
		draw: func(d *dice) step { return step{Do: "Timeout", JIDs: d.running(1 + d.IntN(2))} },
		play: func(w *world, s step) outcome { return ended(repairs.TimeOut(w.ctx, w.by(s), s.JIDs...)) },
		predict: func(m *queues, s step) outcome {
			return m.timeout(s.JIDs)
		},
	},
}

func predictComplete(m *queues, h *handle, j *job, s step) outcome {
	if slices.Contains(s.Depends, s.JID) {
		return refused(qless.ErrInvalid)
	}
	if problem := notRun(h, j, s.Worker); problem != "" {
		return problem
	}
	if j.queue != h.queue {
		return refused(qless.ErrWrongQueue)
	}
	if m.closesCircle(s.JID, s.Depends) {
		return refused(qless.ErrInvalid)
	}
	m.drop(j)
	m.count(j.queue, m.now).runs++
	m.record(j, "done", m.now)
	j.worker, j.expires, j.failure, j.time, j.data = "", 0, failure{}, m.now, h.data
	if s.Priority != nil {
		j.priority = *s.Priority
	}
	if s.Retries != nil {
		j.retries = *s.Retries
	}
	if s.Tags != nil {
		j.tags = slices.Clone(s.Tags)
	}
	j.remaining, j.queue = j.retries, s.Next
	if s.Next == "" {
		m.finish(j, h)
	} else {
		j.options.merge(s)
		m.advance(j, h, s)
	}
	return done
}

// setResult sets a job's result to the step's.
func setResult(j *qless.Job, s step) error {
	if s.Result == "" {
		return nil
	}
	return j.SetResult(json.RawMessage(s.Result))
}

func lockedUntil(second int64) string { return fmt.Sprintf("locked until %d", second) }

// drop removes a running job from its worker.
func (m *queues) drop(j *job) {
	j.grace = false
	m.letGo(j.worker, j.jid)
}

// advance moves a job into its next queue.
func (m *queues) advance(j *job, h *handle, s step) {
	m.record(j, "put", m.now)
	m.know(s.Next)
	m.dependOn(j, s.Depends)
	delay := s.seconds()
	if len(s.Depends) > 0 && len(j.dependencies) == 0 {
		delay = 0 // the new dependencies are complete
	}
	m.place(j, delay)
	m.takeTurns(j)
	j.store(h)
	j.options.kept = j.options.kept || h.result != ""
	if j.options.life.put = math.Floor(m.now); j.options.life.isMortal() {
		m.note(j.jid, j.options.life.endIn(qless.StateWaiting, 0))
	}
	m.watch(j)
}

// finish completes a job, deletes old ones, and releases its dependents.
func (m *queues) finish(j *job, h *handle) {
	j.state, j.score = qless.StateComplete, m.now
	j.store(h)
	if m.end(j, qless.StateComplete) {
		m.remove(j)
	} else {
		m.prune()
	}
	for _, jid := range m.orderOf(j) {
		other := m.jobs[jid]
		delete(other.dependencies, j.jid)
		if len(other.dependencies) == 0 {
			m.free(other, true)
		}
	}
	j.dependents = map[string]bool{}
}

// pruned is the maximum number of jobs deleted by one call.
const pruned = 101

func (m *queues) prune() {
	completed := m.completed()
	old := first(until(completed, m.now-m.setting("jobs-history", 604800)), pruned)
	if excess := len(completed) - int(m.setting("jobs-history-count", 50000)); excess > len(old) {
		old = first(completed, min(excess, pruned))
	}
	for _, j := range old {
		m.remove(j)
	}
}

// completed returns the completed jobs, the oldest first.
func (m *queues) completed() []*job {
	var jobs []*job
	for _, j := range m.jobs {
		if j.state == qless.StateComplete {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, byScore)
	return jobs
}

func predictRetry(m *queues, h *handle, j *job, s step) outcome {
	if problem := notHeld(h, j, s.Worker); problem != "" {
		return problem
	}
	m.drop(j)
	j.data = h.data
	j.remaining--
	why := m.exhausted(j)
	given := s.Group != "" || s.Message != ""
	if given {
		why = failure{group: why.group, message: s.Message, worker: s.Worker, when: math.Floor(m.now)}
		if s.Group != "" {
			why.group = s.Group
		}
	}
	if j.remaining < 0 {
		m.file(j, why)
		j.store(h)
		m.end(j, qless.StateFailed)
		m.limitFailures(j)
	} else {
		m.place(j, s.seconds())
		if given {
			j.failure = why
		}
	}
	return outcome(fmt.Sprintf("%d left", max(j.remaining, -1)))
}

// timeout takes jobs from their workers, to be popped before all others. The job and the list of
// the worker still name each other.
func (m *queues) timeout(jids []string) outcome {
	for _, jid := range jids {
		switch j := m.jobs[jid]; {
		case j == nil:
			return refused(qless.ErrNotFound)
		case j.state != qless.StateRunning:
			return refused(qless.ErrNotRunning)
		}
	}
	for i, jid := range jids {
		if slices.Contains(jids[:i], jid) {
			continue
		}
		j := m.jobs[jid]
		m.record(j, "timed-out", m.now)
		j.state, j.score, j.expires = timedOut, math.Inf(1), 0
		m.left[handleKey{j.worker, jid}] = true
	}
	return done
}

// A progress is the last reported progress of a job.
type progress struct {
	done, total, attempt int
	time                 float64
	note                 string
}

func (p progress) String() string {
	if p.attempt == 0 {
		return "none"
	}
	return fmt.Sprintf("%d of %d in attempt %d at %.14g, %q",
		p.done, p.total, p.attempt, p.time, p.note)
}

// shownProgress returns the progress of a job as readers see it: a put resets it.
func (j *job) shownProgress() progress {
	if !j.options.progressed {
		return progress{}
	}
	return j.progress
}

// progressOf returns the progress of a job returned by the API.
func progressOf(j *qless.Job) progress {
	if j.Progress == nil {
		return progress{}
	}
	p := j.Progress
	return progress{
		done: p.Done, total: p.Total, attempt: p.Attempt, time: secondsUntil(p.Time), note: p.Note,
	}
}

// parseProgress parses the server's representation.
func parseProgress(text string) progress {
	words := strings.SplitN(text, "|", 5)
	if len(words) < 5 {
		return progress{}
	}
	return progress{
		done: int(number(words[0])), total: int(number(words[1])), attempt: int(number(words[2])),
		time: number(words[3]), note: words[4],
	}
}

var progressActions = []action{
	{
		name: "SetProgress", weight: 4,
		draw: func(d *dice) step {
			s := d.onHeld(step{Do: "SetProgress", Done: d.IntN(4), Total: d.IntN(4)})
			if d.chance(50) {
				s.Message = pick(d, []string{"begun", "a|b"})
			}
			return s
		},
		play: onJob(func(w *world, j *qless.Job, s step) outcome {
			return ended(j.SetProgress(w.ctx, s.Done, s.Total, s.Message))
		}),
		predict: onHandle(func(m *queues, h *handle, j *job, s step) outcome {
			if problem := notRun(h, j, s.Worker); problem != "" {
				return problem
			}
			attempt := max(j.retries-max(j.remaining, 0), 0) + 1
			j.progress = progress{s.Done, s.Total, attempt, m.now, s.Message}
			j.options.progressed = true
			return done
		}),
	},
}
