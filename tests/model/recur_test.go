package model

import (
	"encoding/json"
	"slices"

	"github.com/qless/qless-go"
)

var recurActions = []action{
	{
		name: "Recur", weight: 3,
		draw: func(d *dice) step {
			s := step{
				Do: "Recur", Queue: d.queue(), JID: d.recurring(), Every: d.interval(), Delay: d.delay(),
				Data: d.data(), Priority: d.priority(), Retries: d.retries(), Tags: d.tags(0),
			}
			if d.chance(40) {
				s.Backlog = ptr(d.IntN(3))
			}
			return s
		},
		play: func(w *world, s step) outcome {
			options := []qless.RecurOption{qless.JID(s.JID)}
			if s.Priority != nil {
				options = append(options, qless.Priority(*s.Priority))
			}
			if s.Retries != nil {
				options = append(options, qless.Retries(*s.Retries))
			}
			if s.Tags != nil {
				options = append(options, qless.Tags(s.Tags...))
			}
			if s.Backlog != nil {
				options = append(options, qless.Backlog(*s.Backlog))
			}
			if s.Delay != nil {
				options = append(options, qless.Offset(*s.Delay))
			}
			data := json.RawMessage(s.Data)
			_, err := w.by(s).Queue(s.Queue).Recur(w.ctx, klass, data, s.Every, options...)
			return ended(err)
		},
		predict: predictRecur,
	},
	{
		name: "RecurringJob", weight: 1,
		draw: func(d *dice) step { return step{Do: "RecurringJob", JID: d.recurring()} },
		play: onRecurring(func(w *world, r *qless.RecurringJob, _ step) outcome {
			return outcome(viewOfRecurring(r))
		}),
		predict: ofRecurring(func(m *queues, r *recurring, _ step) outcome { return outcome(r.view()) }),
	},
	{
		name: "RecurringJob.Cancel", weight: 1,
		draw: drawRecurring("RecurringJob.Cancel", func(*dice, *step) {}),
		play: onRecurring(func(w *world, r *qless.RecurringJob, _ step) outcome {
			return ended(r.Cancel(w.ctx))
		}),
		predict: func(m *queues, s step) outcome {
			if m.recurs[s.JID] == nil && m.recurHandles[s.JID] && !s.Read {
				return done // by an old handle: it is gone, as was asked for
			}
			return ofRecurring(func(m *queues, r *recurring, _ step) outcome {
				delete(m.recurs, r.jid)
				return done
			})(m, s)
		},
	},
	{
		name: "RecurringJob.SetInterval", weight: 2,
		draw: drawRecurring("RecurringJob.SetInterval", func(d *dice, s *step) {
			s.Every = d.interval()
		}),
		play: onRecurring(func(w *world, r *qless.RecurringJob, s step) outcome {
			return ended(r.SetInterval(w.ctx, s.Every))
		}),
		predict: ofRecurring(func(m *queues, r *recurring, s step) outcome {
			r.due += s.Every.Seconds() - r.interval
			r.interval = s.Every.Seconds()
			return done
		}),
	},
	{
		name: "RecurringJob.Move", weight: 1,
		draw: drawRecurring("RecurringJob.Move", func(d *dice, s *step) { s.Queue = d.queue() }),
		play: onRecurring(func(w *world, r *qless.RecurringJob, s step) outcome {
			return ended(r.Move(w.ctx, s.Queue))
		}),
		predict: ofRecurring(func(m *queues, r *recurring, s step) outcome {
			r.queue = s.Queue
			m.know(s.Queue)
			return done
		}),
	},
	{
		name: "RecurringJob.Set", weight: 1,
		draw: drawRecurring("RecurringJob.Set", func(d *dice, s *step) {
			s.Priority, s.Retries, s.Backlog, s.Data = d.priority(), d.retries(), ptr(d.IntN(3)), d.data()
		}),
		play:    onRecurring(setRecurring),
		predict: ofRecurring(predictSet),
	},
	{
		name: "RecurringJob.Tag", weight: 1,
		draw: drawRecurring("RecurringJob.Tag", func(d *dice, s *step) { s.Tags = d.tags(1) }),
		play: onRecurring(func(w *world, r *qless.RecurringJob, s step) outcome {
			return ended(r.Tag(w.ctx, s.Tags...))
		}),
		predict: ofRecurring(func(m *queues, r *recurring, s step) outcome {
			r.tags = withTags(r.tags, s.Tags)
			return done
		}),
	},
	{
		name: "RecurringJob.Untag", weight: 1,
		draw: drawRecurring("RecurringJob.Untag", func(d *dice, s *step) { s.Tags = d.tags(1) }),
		play: onRecurring(func(w *world, r *qless.RecurringJob, s step) outcome {
			return ended(r.Untag(w.ctx, s.Tags...))
		}),
		predict: ofRecurring(func(m *queues, r *recurring, s step) outcome {
			r.tags = withoutTags(r.tags, s.Tags)
			return done
		}),
	},
}

// drawRecurring draws a step on a recurring job, mostly by a handle that is read first.
func drawRecurring(name string, fill func(d *dice, s *step)) func(*dice) step {
	return func(d *dice) step {
		s := step{Do: name, JID: d.recurring(), Read: d.chance(70)}
		fill(d, &s)
		return s
	}
}

// onRecurring plays a call on a recurring job.
func onRecurring(call func(*world, *qless.RecurringJob, step) outcome) func(*world, step) outcome {
	return func(w *world, s step) outcome {
		if s.Read || s.Do == "RecurringJob" {
			r, err := w.by(s).RecurringJob(w.ctx, s.JID)
			if err != nil {
				return ended(err)
			}
			w.recurs[s.JID] = r
		}
		if w.recurs[s.JID] == nil {
			return skipped
		}
		return call(w, w.recurs[s.JID], s)
	}
}

// ofRecurring is how the model answers to it.
func ofRecurring(call func(m *queues, r *recurring, s step) outcome) func(*queues, step) outcome {
	return func(m *queues, s step) outcome {
		r := m.recurs[s.JID]
		read := s.Read || s.Do == "RecurringJob"
		if !read && !m.recurHandles[s.JID] {
			return skipped
		}
		if r == nil {
			return refused(qless.CodeNotFound)
		}
		m.recurHandles[s.JID] = true
		return call(m, r, s)
	}
}

func predictRecur(m *queues, s step) outcome {
	r := &recurring{
		jid: s.JID, klass: klass, data: s.Data, queue: s.Queue, retries: 5,
		tags: slices.Clone(s.Tags), interval: s.Every.Seconds(), due: m.now + s.seconds(),
	}
	if s.Priority != nil {
		r.priority = *s.Priority
	}
	if s.Retries != nil {
		r.retries = *s.Retries
	}
	if s.Backlog != nil {
		r.backlog = *s.Backlog
	}
	if old := m.recurs[s.JID]; old != nil {
		r.count = old.count
		if old.queue == r.queue && old.interval == r.interval {
			r.due = old.due // it goes on as before
		}
	}
	m.recurs[s.JID] = r
	m.know(s.Queue)
	return done
}

// setRecurring changes all that a recurring job gives its jobs.
func setRecurring(w *world, r *qless.RecurringJob, s step) outcome {
	set := []func() error{
		func() error { return r.SetData(w.ctx, json.RawMessage(s.Data)) },
		func() error { return r.SetKlass(w.ctx, klass) },
		func() error { return r.SetBacklog(w.ctx, *s.Backlog) },
	}
	if s.Priority != nil {
		set = append(set, func() error { return r.SetPriority(w.ctx, *s.Priority) })
	}
	if s.Retries != nil {
		set = append(set, func() error { return r.SetRetries(w.ctx, *s.Retries) })
	}
	for _, change := range set {
		if err := change(); err != nil {
			return ended(err)
		}
	}
	return done
}

func predictSet(m *queues, r *recurring, s step) outcome {
	r.data, r.backlog = s.Data, *s.Backlog
	if s.Priority != nil {
		r.priority = *s.Priority
	}
	if s.Retries != nil {
		r.retries = *s.Retries
	}
	return done
}
