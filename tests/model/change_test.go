package model

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/tests/repairs"
)

// changeActions are actions of any client on any job.
var changeActions = []action{
	{
		name: "Cancel", weight: 4,
		draw: func(d *dice) step { return step{Do: "Cancel", JIDs: d.cancelable()} },
		play: func(w *world, s step) outcome { return ended(w.by(s).Cancel(w.ctx, s.JIDs...)) },
		predict: func(m *queues, s step) outcome {
			return m.cancel(s.JIDs)
		},
	},
	{
		name: "Tag", weight: 3,
		draw: func(d *dice) step { return d.onAny(step{Do: "Tag", Tags: d.tags(1)}) },
		play: onJob(func(w *world, j *qless.Job, s step) outcome {
			return ended(j.Tag(w.ctx, s.Tags...))
		}),
		predict: existing(func(m *queues, j *job, s step) outcome {
			j.tags = withTags(j.tags, s.Tags)
			return done
		}),
	},
	{
		name: "Untag", weight: 2,
		draw: func(d *dice) step { return d.onAny(step{Do: "Untag", Tags: d.tags(1)}) },
		play: onJob(func(w *world, j *qless.Job, s step) outcome {
			return ended(j.Untag(w.ctx, s.Tags...))
		}),
		predict: existing(func(m *queues, j *job, s step) outcome {
			j.tags = withoutTags(j.tags, s.Tags)
			return done
		}),
	},
	{
		name: "Depend", weight: 3,
		draw: func(d *dice) step {
			return d.onDepending(step{Do: "Depend", JIDs: d.toWaitFor(d.linked(1 + d.IntN(2)))})
		},
		play: onJob(func(w *world, j *qless.Job, s step) outcome {
			return ended(j.Depend(w.ctx, s.JIDs...))
		}),
		predict: depending(func(m *queues, j *job, s step) {
			m.dependOn(j, s.JIDs)
			m.watch(j)
		}),
	},
	{
		name: "Undepend", weight: 3,
		draw: func(d *dice) step {
			return d.onDepending(step{Do: "Undepend", JIDs: d.jids(1 + d.IntN(3))})
		},
		play: onJob(func(w *world, j *qless.Job, s step) outcome {
			return ended(j.Undepend(w.ctx, s.JIDs...))
		}),
		predict: depending(func(m *queues, j *job, s step) {
			for _, jid := range s.JIDs {
				m.undepend(j, jid)
			}
			if len(j.dependencies) == 0 {
				m.free(j, false)
			}
		}),
	},
	{
		name: "UndependAll", weight: 1,
		draw: func(d *dice) step { return d.onDepending(step{Do: "UndependAll"}) },
		play: onJob(func(w *world, j *qless.Job, s step) outcome { return ended(j.UndependAll(w.ctx)) }),
		predict: depending(func(m *queues, j *job, s step) {
			for jid := range j.dependencies {
				m.undepend(j, jid)
			}
			m.free(j, false)
		}),
	},
	{
		name: "SetPriority", weight: 3,
		draw: func(d *dice) step { return d.onAny(step{Do: "SetPriority", Priority: d.newPriority()}) },
		play: onJob(func(w *world, j *qless.Job, s step) outcome {
			return ended(j.SetPriority(w.ctx, *s.Priority))
		}),
		predict: existing(func(m *queues, j *job, s step) outcome {
			j.priority = *s.Priority
			if part(j.state) == "work" && (j.options.share == nil || j.state != qless.StateWaiting) {
				j.score = float64(j.priority)
			}
			m.takeTurns(j)
			return done
		}),
	},
	{
		name: "Track", weight: 2,
		draw: func(d *dice) step { return d.onAny(step{Do: "Track"}) },
		play: onJob(func(w *world, j *qless.Job, s step) outcome { return ended(j.Track(w.ctx)) }),
		predict: existing(func(m *queues, j *job, s step) outcome {
			m.tracked[j.jid] = m.now
			return done
		}),
	},
	{
		name: "Untrack", weight: 2,
		draw: func(d *dice) step { return d.onAny(step{Do: "Untrack"}) },
		play: onJob(func(w *world, j *qless.Job, s step) outcome { return ended(j.Untrack(w.ctx)) }),
		predict: onHandle(func(m *queues, _ *handle, j *job, s step) outcome {
			if _, tracked := m.tracked[s.JID]; j == nil && !tracked {
				return refused(qless.ErrNotFound)
			}
			delete(m.tracked, s.JID)
			return done
		}),
	},
	{
		name: "Unfail", weight: 2,
		draw: func(d *dice) step {
			s := d.onAny(step{Do: "Unfail"})
			if all := d.existing(func(j *job) bool { return j.state == qless.StateFailed }); len(all) > 0 {
				s.JID, s.Read, s.Handle = pick(d, all), true, 0
			}
			return s
		},
		play: onJob(func(w *world, j *qless.Job, s step) outcome { return ended(j.Unfail(w.ctx)) }),
		predict: existing(func(m *queues, j *job, s step) outcome {
			if j.state != qless.StateFailed {
				return refused(qless.ErrNotFailed)
			}
			m.unfile(j)
			m.unfail(j, j.queue, m.now)
			m.takeTurns(j)
			return done
		}),
	},
	{
		name: "Log", weight: 2,
		draw: func(d *dice) step { return d.onAny(step{Do: "Log", Message: "looked at"}) },
		play: onJob(func(w *world, j *qless.Job, s step) outcome {
			return ended(j.Log(w.ctx, s.Message, json.RawMessage(`{"by":"me"}`)))
		}),
		predict: existing(func(m *queues, j *job, s step) outcome {
			m.record(j, s.Message, m.now)
			return done
		}),
	},
}

// depending predicts, in the model, a call accepted by a job while it waits for others.
func depending(call func(m *queues, j *job, s step)) func(*queues, step) outcome {
	return onHandle(func(m *queues, _ *handle, j *job, s step) outcome {
		switch {
		case slices.Contains(s.JIDs, s.JID):
			return refused(qless.ErrInvalid)
		case j == nil:
			return refused(qless.ErrNotFound)
		case j.state != qless.StateDepends:
			return refused(qless.ErrNotDepending)
		case s.Do == "Depend" && m.closesCircle(s.JID, s.JIDs):
			return refused(qless.ErrInvalid)
		}
		call(m, j, s)
		return done
	})
}

// cancel deletes jobs, unless another job depends on one of them.
func (m *queues) cancel(jids []string) outcome {
	for _, jid := range jids {
		if j := m.jobs[jid]; j != nil {
			for dependent := range j.dependents {
				if !slices.Contains(jids, dependent) {
					return refused(qless.ErrHasDependents)
				}
			}
		}
	}
	for _, jid := range m.dependentsFirst(jids) {
		if j := m.jobs[jid]; j != nil && j.state != qless.StateComplete {
			m.leave(j)
			m.remove(j)
			m.end(j, canceled)
		}
	}
	return done
}

// dependentsFirst returns the jids with dependents before their dependencies.
func (m *queues) dependentsFirst(jids []string) []string {
	var order []string
	looked := map[string]bool{}
	var add func(jid string)
	add = func(jid string) {
		if looked[jid] {
			return
		}
		looked[jid] = true
		if j := m.jobs[jid]; j != nil {
			for _, dependent := range sorted(j.dependents) {
				add(dependent)
			}
		}
		order = append(order, jid)
	}
	for _, jid := range jids {
		add(jid)
	}
	return order
}

// withTags returns the tags, followed by the new tags of extra.
func withTags(tags, extra []string) []string {
	tags = slices.Clone(tags)
	for _, tag := range extra {
		if !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	return tags
}

// withoutTags returns the tags missing in extra.
func withoutTags(tags, extra []string) []string {
	return slices.DeleteFunc(slices.Clone(tags), func(tag string) bool {
		return slices.Contains(extra, tag)
	})
}

// settingActions change queues, settings, workers and the clock.
var settingActions = []action{
	{
		name: "Clock", weight: 10,
		draw:    func(d *dice) step { return step{Do: "Clock", Tick: d.leap()} },
		play:    func(w *world, s step) outcome { return done },
		predict: func(m *queues, s step) outcome { return done },
	},
	{
		name: "Pause", weight: 1,
		draw: func(d *dice) step { return step{Do: "Pause", Queue: d.queue()} },
		play: func(w *world, s step) outcome {
			return ended(w.by(s).Queue(s.Queue).Pause(w.ctx))
		},
		predict: func(m *queues, s step) outcome {
			m.paused[s.Queue] = true
			return done
		},
	},
	{
		name: "Unpause", weight: 4,
		draw: func(d *dice) step { return step{Do: "Unpause", Queue: d.queue()} },
		play: func(w *world, s step) outcome {
			return ended(w.by(s).Queue(s.Queue).Resume(w.ctx))
		},
		predict: func(m *queues, s step) outcome {
			delete(m.paused, s.Queue)
			return done
		},
	},
	{
		name: "Forget", weight: 1,
		draw: func(d *dice) step { return step{Do: "Forget", Queue: d.queue()} },
		play: func(w *world, s step) outcome {
			return ended(inspect.New(w.by(s)).ForgetQueue(w.ctx, s.Queue))
		},
		predict: func(m *queues, s step) outcome {
			if m.hasJobs(s.Queue) {
				return refused(qless.ErrInvalid)
			}
			delete(m.known, s.Queue)
			delete(m.unlisted, s.Queue)
			return done
		},
	},
	{
		name: "Queue.Unfail", weight: 3,
		draw: func(d *dice) step {
			return step{Do: "Queue.Unfail", Queue: d.queue(), Group: d.failed(), Count: 1 + d.IntN(3)}
		},
		play: func(w *world, s step) outcome {
			n, err := repairs.UnfailInto(w.ctx, w.by(s), s.Queue, s.Group, s.Count)
			return outcomeOf(err, func() string { return strconv.Itoa(n) })
		},
		predict: predictUnfail,
	},
	{
		name: "Client.Unfail", weight: 3,
		draw: func(d *dice) step {
			return step{Do: "Client.Unfail", Group: d.failed(), Count: 1 + d.IntN(3)}
		},
		play: func(w *world, s step) outcome {
			n, err := repairs.Unfail(w.ctx, w.by(s), s.Group, s.Count)
			return outcomeOf(err, func() string { return strconv.Itoa(n) })
		},
		predict: predictUnfail,
	},
	{
		name: "Config.Set", weight: 4,
		draw: func(d *dice) step {
			option, value := d.setting()
			return step{Do: "Config.Set", Option: option, Value: value}
		},
		play: func(w *world, s step) outcome {
			return ended(w.by(s).Config().Set(w.ctx, s.Option, s.Value))
		},
		predict: func(m *queues, s step) outcome {
			if n, _ := strconv.ParseFloat(s.Value, 64); n < 0 || s.Option == "heartbeat" && n <= 0 {
				return refused(qless.ErrInvalid)
			}
			m.config[s.Option] = s.Value
			return done
		},
	},
	{
		name: "Config.Unset", weight: 2,
		draw: func(d *dice) step {
			option, _ := d.setting()
			return step{Do: "Config.Unset", Option: option}
		},
		play: func(w *world, s step) outcome {
			return ended(w.by(s).Config().Unset(w.ctx, s.Option))
		},
		predict: func(m *queues, s step) outcome {
			delete(m.config, s.Option)
			return done
		},
	},
	{
		name: "Deregister", weight: 1,
		draw: func(d *dice) step { return step{Do: "Deregister"} },
		play: func(w *world, s step) outcome { return ended(inspect.New(w.by(s)).ForgetWorkers(w.ctx, s.Worker)) },
		predict: func(m *queues, s step) outcome {
			delete(m.seen, s.Worker)
			return done
		},
	},
}

// predictUnfail moves the oldest failures of a group into a queue.
func predictUnfail(m *queues, s step) outcome {
	group := m.groups[s.Group]
	staying := max(0, len(group)-s.Count)
	var back []*job // the oldest failure first
	for _, jid := range slices.Backward(group[staying:]) {
		at := m.now
		if s.Queue == "" { // into their own queues, each a microsecond after the previous job
			at += float64(len(back)) * 1e-6
		}
		j := m.jobs[jid]
		m.count(j.queue, j.failure.when).failed--
		delete(m.filed, jid)
		m.unfail(j, cmp.Or(s.Queue, j.queue), at)
		back = append(back, j)
	}
	m.takeTurns(back...)
	m.setGroup(s.Group, group[:staying])
	return outcome(strconv.Itoa(len(group) - staying))
}

// unfail puts a job into a queue after the job has left its group.
func (m *queues) unfail(j *job, queue string, at float64) {
	m.record(j, "put", m.now)
	j.worker, j.expires, j.queue, j.remaining = "", 0, queue, j.retries
	m.enqueue(j, at)
	m.knowUnlisted(queue)
	m.claimAgain(j)
	if l := &j.options.life; l.isMortal() {
		l.startBy, l.ttl = 0, 0
		delete(m.until, j.jid)
	}
}
