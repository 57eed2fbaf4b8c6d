package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/tests/repairs"
)

// all is a range that covers every list of the test.
var all = inspect.Range{Limit: -1}

// listActions only read, but some move jobs that have fallen due.
var listActions = []action{
	{
		name: "Counts", weight: 2,
		draw: func(d *dice) step { return step{Do: "Counts", Queue: d.busyQueue()} },
		play: func(w *world, s step) outcome {
			counts, err := w.by(s).Queue(s.Queue).Counts(w.ctx)
			return outcomeOf(err, func() string { return fmt.Sprintf("%+v", counts) })
		},
		predict: func(m *queues, s step) outcome {
			return outcome(fmt.Sprintf("%+v", m.counts(s.Queue)))
		},
	},
	{
		name: "Queues", weight: 1,
		draw: func(d *dice) step { return step{Do: "Queues"} },
		play: func(w *world, s step) outcome {
			counts, err := w.by(s).Queues(w.ctx)
			return outcomeOf(err, func() string { return fmt.Sprintf("%+v", counts) })
		},
		predict: func(m *queues, s step) outcome {
			counts := []qless.QueueCounts{}
			for _, queue := range slices.Concat(byTime(m.known), byTime(m.unlisted)) {
				counts = append(counts, m.counts(queue))
			}
			return outcome(fmt.Sprintf("%+v", counts))
		},
	},
	{
		name: "Len", weight: 1,
		draw: func(d *dice) step { return step{Do: "Len", Queue: d.queue()} },
		play: func(w *world, s step) outcome {
			n, err := w.by(s).Do(w.ctx, "length", s.Queue)
			return outcomeOf(err, func() string { return fmt.Sprint(n) })
		},
		predict: func(m *queues, s step) outcome {
			n := len(m.in(s.Queue, "work")) + len(m.in(s.Queue, "locks")) + len(m.in(s.Queue, "scheduled"))
			return outcome(fmt.Sprint(n))
		},
	},
	{
		name: "Queue.Jobs", weight: 3,
		draw: func(d *dice) step {
			states := []qless.State{
				qless.StateWaiting, qless.StateRunning, timedOut, qless.StateScheduled,
				qless.StateDepends, qless.StateComplete,
			}
			return step{Do: "Queue.Jobs", Queue: d.busyQueue(), State: states[d.IntN(len(states))]}
		},
		play: func(w *world, s step) outcome {
			return listedOfQueue(w, s)
		},
		predict: predictJobs,
	},
	{
		name: "Recurring", weight: 1,
		draw: func(d *dice) step { return step{Do: "Recurring", Queue: d.queue()} },
		play: func(w *world, s step) outcome {
			return listed(inspect.New(w.by(s)).Queue(s.Queue, inspect.Recurring).JIDs(w.ctx, all))
		},
		predict: func(m *queues, s step) outcome {
			jids := []string{}
			for _, r := range m.recurring(s.Queue) {
				jids = append(jids, r.jid)
			}
			return lists(jids)
		},
	},
	{
		name: "Completed", weight: 1,
		draw: func(d *dice) step { return step{Do: "Completed"} },
		play: func(w *world, s step) outcome { return listed(inspect.New(w.by(s)).Completed().JIDs(w.ctx, all)) },
		predict: func(m *queues, s step) outcome {
			jids := jidsOf(m.completed())
			slices.Reverse(jids)
			return lists(jids)
		},
	},
	{
		name: "Failed", weight: 1,
		draw: func(d *dice) step { return step{Do: "Failed", Group: d.group()} },
		play: func(w *world, s step) outcome {
			groups, err := inspect.New(w.by(s)).FailureGroups(w.ctx)
			if err != nil {
				return ended(err)
			}
			jobs, err := inspect.New(w.by(s)).Failed(s.Group).JIDs(w.ctx, all)
			return outcomeOf(err, func() string { return fmt.Sprint(groups, jobs.Total, jobs.Items) })
		},
		predict: func(m *queues, s step) outcome {
			groups := map[string]int{}
			for name, jids := range m.groups {
				groups[name] = len(jids)
			}
			return outcome(fmt.Sprint(groups, len(m.groups[s.Group]), m.groups[s.Group]))
		},
	},
	{
		name: "Tagged", weight: 1,
		draw: func(d *dice) step { return step{Do: "Tagged", Group: d.tags(1)[0]} },
		play: func(w *world, s step) outcome {
			jobs, err := inspect.New(w.by(s)).Tagged(s.Group).JIDs(w.ctx, all)
			slices.Sort(jobs.Items) // jobs of one call are tagged at the same time
			return outcomeOf(err, func() string { return fmt.Sprint(jobs.Total, jobs.Items) })
		},
		predict: func(m *queues, s step) outcome {
			jids := m.tagged()[s.Group]
			return outcome(fmt.Sprint(len(jids), sorted(jids)))
		},
	},
	{
		name: "Tags", weight: 1,
		draw:    func(d *dice) step { return step{Do: "Tags"} },
		play:    func(w *world, s step) outcome { return listed(inspect.New(w.by(s)).Tags(w.ctx, all)) },
		predict: predictTags,
	},
	{
		name: "Tracked", weight: 1,
		draw: func(d *dice) step { return step{Do: "Tracked"} },
		play: func(w *world, s step) outcome {
			return listed(inspect.New(w.by(s)).Tracked().JIDs(w.ctx, all))
		},
		predict: func(m *queues, s step) outcome {
			return lists(byTime(m.tracked))
		},
	},
	{
		name: "Stats", weight: 1,
		draw: func(d *dice) step { return step{Do: "Stats", Queue: d.queue()} },
		play: func(w *world, s step) outcome {
			told, err := w.by(s).Queue(s.Queue).Stats(w.ctx, time.UnixMicro(w.micros))
			return outcomeOf(err, func() string {
				return stats{told.Retries, told.Failures, told.Failed, told.Wait.Count, told.Run.Count,
					told.Expired}.String()
			})
		},
		predict: func(m *queues, s step) outcome { return outcome(m.count(s.Queue, m.now).String()) },
	},
	{
		name: "Workers", weight: 1,
		draw: func(d *dice) step { return step{Do: "Workers"} },
		play: func(w *world, s step) outcome {
			workers, err := inspect.New(w.by(s)).Workers(w.ctx)
			return outcomeOf(err, func() string {
				names := []string{}
				for _, worker := range workers {
					names = append(names, worker.Name)
				}
				return fmt.Sprint(names)
			})
		},
		predict: func(m *queues, s step) outcome {
			m.forgetWorkers()
			names := byTime(m.seen)
			slices.Reverse(names)
			return outcome(fmt.Sprint(names))
		},
	},
	{
		name: "Worker", weight: 2,
		draw: func(d *dice) step { return step{Do: "Worker"} },
		play: func(w *world, s step) outcome {
			held, err := repairs.HeldBy(w.ctx, w.by(s), s.Worker)
			return outcomeOf(err, func() string { return string(lists(slices.Sorted(slices.Values(held)))) })
		},
		predict: predictWorker,
	},
}

// listedOfQueue returns the outcome of the command jobs, used by classic clients. It moves due
// jobs.
func listedOfQueue(w *world, s step) outcome {
	if s.State == qless.StateComplete { // queues have no list of these
		return listed(inspect.New(w.by(s)).Queue(s.Queue, inspect.List(s.State)).JIDs(w.ctx, all))
	}
	reply, err := w.by(s).Do(w.ctx, "jobs", s.State, s.Queue, 0, 1000)
	return outcomeOf(err, func() string {
		jids := []string{}
		for _, jid := range reply.([]any) {
			jids = append(jids, jid.(string))
		}
		return string(lists(jids))
	})
}

// listed returns the outcome of a call that returns a list.
func listed(page inspect.Page[string], err error) outcome {
	return outcomeOf(err, func() string { return string(lists(page.Items)) })
}

func lists(jids []string) outcome { return outcome(fmt.Sprintf("[%s]", strings.Join(jids, " "))) }

// byTime returns the names in a set, ordered by time.
func byTime(times map[string]float64) []string {
	return slices.SortedFunc(maps.Keys(times), func(a, b string) int {
		return cmp.Or(cmp.Compare(times[a], times[b]), cmp.Compare(a, b))
	})
}

func (s stats) String() string {
	return fmt.Sprintf("%d retries, %d failures, %d failed, %d waits, %d runs, %d expired",
		s.retries, s.failures, s.failed, s.waits, s.runs, s.expired)
}

func (m *queues) counts(queue string) qless.QueueCounts {
	m.moveDue(queue, len(m.jobs))
	locks := m.in(queue, "locks")
	stalled := len(until(locks, m.now))
	return qless.QueueCounts{
		Name: queue, Waiting: len(m.in(queue, "work")), Running: len(locks) - stalled, Stalled: stalled,
		Scheduled: len(m.in(queue, "scheduled")), Depends: len(m.in(queue, "depends")),
		Recurring: len(m.recurring(queue)), Paused: m.paused[queue],
	}
}

func predictJobs(m *queues, s step) outcome {
	locks := m.in(s.Queue, "locks")
	switch s.State {
	case qless.StateWaiting:
		return lists(jidsOf(m.work(s.Queue)))
	case qless.StateRunning: // a job whose lock ends now is in both lists
		return lists(jidsOf(slices.DeleteFunc(locks, func(j *job) bool { return j.score < m.now })))
	case timedOut:
		return lists(jidsOf(until(locks, m.now)))
	case qless.StateScheduled:
		m.moveDue(s.Queue, len(m.jobs))
		return lists(jidsOf(m.in(s.Queue, "scheduled")))
	case qless.StateDepends:
		return lists(jidsOf(m.in(s.Queue, "depends")))
	}
	return refused(qless.ErrInvalid)
}

// tagged returns the jobs of every tag.
func (m *queues) tagged() map[string]map[string]bool {
	tags := map[string]map[string]bool{}
	for _, j := range m.jobs {
		for _, tag := range j.tags {
			if tags[tag] == nil {
				tags[tag] = map[string]bool{}
			}
			tags[tag][j.jid] = true
		}
	}
	return tags
}

// predictTags returns the tags of two or more jobs, the most used first.
func predictTags(m *queues, _ step) outcome {
	tagged := m.tagged()
	tags := []string{}
	for tag, jids := range tagged {
		if len(jids) > 1 {
			tags = append(tags, tag)
		}
	}
	slices.SortFunc(tags, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(tagged[b]), len(tagged[a])), cmp.Compare(b, a))
	})
	return lists(tags)
}

// forgetWorkers removes workers not seen for long, and the lists of their jobs.
func (m *queues) forgetWorkers() {
	for worker, seen := range m.seen {
		if seen <= m.now-m.setting("max-worker-age", 86400) {
			delete(m.seen, worker)
			for jid := range m.held[worker] {
				m.letGo(worker, jid)
				m.forgotten[handleKey{worker, jid}] = true
			}
		}
	}
}

// predictWorker returns a worker's jobs: with valid locks, and with expired locks.
func predictWorker(m *queues, s step) outcome {
	var held []string
	for jid := range m.held[s.Worker] {
		if m.holds(s.Worker, jid) {
			held = append(held, jid)
		}
	}
	slices.Sort(held)
	return lists(held)
}

// holds reports whether a worker has a job.
func (m *queues) holds(worker, jid string) bool {
	j := m.jobs[jid]
	return j != nil && j.state == qless.StateRunning && j.worker == worker
}
