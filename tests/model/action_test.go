package model

import (
	"encoding/json"
	"slices"

	"github.com/qless/qless-go"
)

// An action is a kind of step: how a step is drawn, the call that it makes, and the outcome that
// the model predicts.
type action struct {
	name    string
	weight  int // the relative frequency; 0 for never
	draw    func(d *dice) step
	play    func(w *world, s step) outcome
	predict func(m *queues, s step) outcome
}

var actions = slices.Concat(
	putActions, takeActions, holdActions, changeActions, recurActions, listActions, settingActions,
	endActions, lifeActions, progressActions, replaceActions, batchActions,
	breakActions,
)

// actionOf returns the action of a step.
func actionOf(s step) *action {
	for i := range actions {
		if actions[i].name == s.Do {
			return &actions[i]
		}
	}
	panic("no action " + s.Do)
}

// onJob plays a call on a job, with the handle that the step names.
func onJob(call func(w *world, j *qless.Job, s step) outcome) func(*world, step) outcome {
	return func(w *world, s step) outcome {
		j, err := w.handle(s)
		if err != nil || j == nil {
			return outcomeOf(err, func() string { return string(skipped) })
		}
		if s.Data != "" {
			j.Data = json.RawMessage(s.Data)
		}
		return call(w, j, s)
	}
}

// onHandle predicts such a call in the model. A job that is gone is nil.
func onHandle(call func(m *queues, h *handle, j *job, s step) outcome) func(*queues, step) outcome {
	return func(m *queues, s step) outcome {
		if s.Read {
			if m.jobs[s.JID] == nil {
				return refused(qless.ErrNotFound)
			}
			m.give(s.Worker, m.jobs[s.JID])
		}
		handles := m.handles[handleKey{s.Worker, s.JID}]
		if s.Handle >= len(handles) {
			return skipped
		}
		h := handles[s.Handle]
		if s.Data != "" {
			h.data = s.Data
		}
		if s.Result != "" {
			h.result = s.Result
		}
		return call(m, h, m.jobs[s.JID], s)
	}
}

// existing is the same for calls that any existing job accepts.
func existing(call func(m *queues, j *job, s step) outcome) func(*queues, step) outcome {
	return onHandle(func(m *queues, _ *handle, j *job, s step) outcome {
		if j == nil {
			return refused(qless.ErrNotFound)
		}
		return call(m, j, s)
	})
}

// notOwned returns the reason why a worker may not end or renew a job; empty if it may.
func notOwned(j *job, worker string) outcome {
	switch {
	case j == nil:
		return refused(qless.ErrNotFound)
	case j.state != qless.StateRunning:
		return refused(qless.ErrNotRunning)
	case j.worker != worker:
		return refused(qless.ErrLockLost)
	}
	return ""
}

// notRun is the same for a call that knows the time at which its worker popped the job.
func notRun(h *handle, j *job, worker string) outcome {
	if problem := notOwned(j, worker); problem != "" {
		return problem
	}
	if h.since != 0 && h.since != j.time {
		return refused(qless.ErrLockLost)
	}
	return ""
}

// notHeld is the same for a call that also knows the job's queue.
func notHeld(h *handle, j *job, worker string) outcome {
	if problem := notRun(h, j, worker); problem != "" {
		return problem
	}
	if h.queue != j.queue {
		return refused(qless.ErrWrongQueue)
	}
	return ""
}

// by returns the client of a step's worker.
func (w *world) by(s step) *qless.Client { return w.clients[s.Worker] }

// handle returns the job that a step names, or nil if the worker never got it.
func (w *world) handle(s step) (*qless.Job, error) {
	key := handleKey{s.Worker, s.JID}
	if s.Read {
		j, err := w.by(s).Job(w.ctx, s.JID)
		if err != nil {
			return nil, err
		}
		w.give(s.Worker, j)
	}
	if s.Handle >= len(w.handles[key]) {
		return nil, nil
	}
	return w.handles[key][s.Handle], nil
}

// give stores a job that a worker got.
func (w *world) give(worker string, j *qless.Job) {
	key := handleKey{worker, j.JID}
	w.handles[key] = first(append([]*qless.Job{j}, w.handles[key]...), kept)
}
