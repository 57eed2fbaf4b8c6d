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
				options = append(options, qless.Tags(s.Tags))
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
			if m.recurs[s.JID] == nil && m.recurHandles[s.JID] != nil && !s.Read {
				return done // through an old handle: it is gone, as requested
			}
			return ofRecurring(func(m *queues, r *recurring, _ step) outcome {
				delete(m.recurs, r.jid)
				return done
			})(m, s)
		},
	},
	{
		name: "RecurringJob.Update", weight: 6,
		draw: drawRecurring("RecurringJob.Update", func(d *dice, s *step) {
			for _, fill := range []func(){
				func() { s.Every = d.interval() },
				func() { s.Queue = d.queue() },
				func() { s.Data = d.data() },
				func() { s.Backlog = ptr(d.IntN(3)) },
				func() { s.Tags = d.tags(1) },
			} {
				if d.chance(30) {
					fill()
				}
			}
			s.Priority, s.Retries = d.priority(), d.retries()
		}),
		play:    onRecurring(updateRecurring),
		predict: predictUpdate,
	},
}

// drawRecurring draws a step on a recurring job, mostly with a handle that is read first.
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

// ofRecurring predicts such a call in the model.
func ofRecurring(call func(m *queues, r *recurring, s step) outcome) func(*queues, step) outcome {
	return func(m *queues, s step) outcome {
		r := m.recurs[s.JID]
		read := s.Read || s.Do == "RecurringJob"
		if !read && m.recurHandles[s.JID] == nil {
			return skipped
		}
		if r == nil {
			return refused(qless.ErrNotFound)
		}
		if read {
			m.recurHandles[s.JID] = r.copy()
		}
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
			r.due = old.due // keep the old due time
		}
	}
	m.recurs[s.JID] = r
	m.know(s.Queue)
	return done
}

// updateRecurring changes a copy of the handle. Once written, the copy becomes the handle.
func updateRecurring(w *world, r *qless.RecurringJob, s step) outcome {
	changed := *r
	if s.Every > 0 {
		changed.Interval = s.Every
	}
	if s.Queue != "" {
		changed.Queue = s.Queue
	}
	if s.Data != "" {
		changed.Data = json.RawMessage(s.Data)
	}
	if s.Tags != nil {
		changed.Tags = s.Tags
	}
	setIf(&changed.Priority, s.Priority)
	setIf(&changed.Retries, s.Retries)
	setIf(&changed.Backlog, s.Backlog)
	err := changed.Update(w.ctx)
	if err == nil {
		w.recurs[s.JID] = &changed
	}
	return ended(err)
}

// setIf sets a field if there is a value for it.
func setIf[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

// predictUpdate writes the step's changes to the handle, regardless of the present state of the
// recurring job.
func predictUpdate(m *queues, s step) outcome {
	now := m.recurs[s.JID]
	if s.Read && now == nil {
		return refused(qless.ErrNotFound)
	} else if s.Read {
		m.recurHandles[s.JID] = now.copy()
	}
	read := m.recurHandles[s.JID]
	if read == nil {
		return skipped
	}
	every := s.Every.Seconds()
	changes := []struct {
		made  bool
		apply func(r *recurring)
	}{
		{every > 0 && every != read.interval, func(r *recurring) {
			r.due += every - r.interval
			r.interval = every
		}},
		{s.Queue != "" && s.Queue != read.queue, func(r *recurring) {
			r.queue = s.Queue
			m.know(s.Queue)
		}},
		{s.Data != "" && s.Data != read.data, func(r *recurring) { r.data = s.Data }},
		{s.Tags != nil && !slices.Equal(s.Tags, read.tags), func(r *recurring) { r.tags = slices.Clone(s.Tags) }},
		{differs(s.Priority, read.priority), func(r *recurring) { r.priority = *s.Priority }},
		{differs(s.Retries, read.retries), func(r *recurring) { r.retries = *s.Retries }},
		{differs(s.Backlog, read.backlog), func(r *recurring) { r.backlog = *s.Backlog }},
	}
	changed := read.copy()
	for _, change := range changes {
		switch {
		case !change.made:
		case now == nil:
			return refused(qless.ErrNotFound)
		default:
			change.apply(now)
			change.apply(changed)
		}
	}
	m.recurHandles[s.JID] = changed
	return done
}

// differs reports whether a given value differs from a field.
func differs(value *int, field int) bool { return value != nil && *value != field }
