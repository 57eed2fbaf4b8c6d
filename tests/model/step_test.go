package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go"
)

// A step is one call with everything needed to play it again, alone or after other steps. Zero and
// nil values are not given.
type step struct {
	Do   string        // the name of an action
	Tick time.Duration // the advance of the clock before the call

	Worker string
	Queue  string
	Count  int

	// A call on a job uses an earlier handle of the worker: the latest handle of the jid, or an older
	// one. With Read, the job is read first. Without a handle, no call is made.
	JID    string
	Handle int
	Read   bool
	JIDs   []string

	Data     string
	Priority *int
	Retries  *int
	Backlog  *int
	Tags     []string
	Depends  []string
	Delay    *time.Duration
	Every    time.Duration
	Next     string
	Group    string
	Message  string
	If       string // the condition of a put
	State    qless.State
	Option   string
	Value    string
	Many     []step // the jobs of a PutMany
	Opens    bool   // the job is a new batch's

	Header    string
	LockTime  *time.Duration
	OnLost    string
	OnFailure string
	Unique    string // a key, a space, and the mode of the claim
	Replace   string // delay or due
	After     string // the followed running job, as found by the model
	Within    time.Duration
	Result    string

	StartBy, TTL, KeepFor, KeepFailedFor, MaxRunTime *time.Duration

	At *time.Duration // since noon

	Fair        string // a tenant, perhaps with a space and a weight
	Done, Total int    // the progress

	Raw []string // a raw command for the server
}

// String writes the step as one readable line.
func (s step) String() string {
	var b strings.Builder
	b.WriteString(s.Do)
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		name, field := v.Type().Field(i).Name, v.Field(i)
		if name == "Do" || field.IsZero() {
			continue
		}
		if field.Kind() == reflect.Pointer {
			field = field.Elem()
		}
		if field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.String {
			fmt.Fprintf(&b, " %s=%q", name, field.Interface())
		} else {
			fmt.Fprintf(&b, " %s=%v", name, field.Interface())
		}
	}
	return strings.TrimSpace(b.String())
}

// putOptions returns the step's put options, without the jid.
func (s step) putOptions() []qless.PutOption {
	var options []qless.PutOption
	if s.Priority != nil {
		options = append(options, qless.Priority(*s.Priority))
	}
	if s.Retries != nil {
		options = append(options, qless.Retries(*s.Retries))
	}
	if s.Tags != nil {
		options = append(options, qless.Tags(s.Tags))
	}
	if s.Delay != nil {
		options = append(options, qless.Delay(*s.Delay))
	}
	if s.Depends != nil {
		options = append(options, qless.DependsOn(s.Depends))
	}
	if condition, ok := conditions[s.If]; ok {
		options = append(options, condition)
	}
	return append(options, s.moreOptions()...)
}

// specs returns the jobs of a PutMany.
func (s step) specs() []qless.JobSpec {
	var jobs []qless.JobSpec
	for _, one := range s.Many {
		options := append(one.putOptions(), qless.JID(one.JID))
		data := json.RawMessage(one.Data)
		jobs = append(jobs, qless.JobSpec{Klass: klass, Data: data, Options: options})
	}
	return jobs
}

// conditions are the options for refusing a put, by their names in steps.
var conditions = map[string]qless.If{
	"absent": qless.IfAbsent, "finished": qless.IfFinished, "idle": qless.IfNotRunning,
}

// leaves reports whether the step's condition prevents it from putting an existing job.
func (s step) leaves(j *job) bool {
	switch s.If {
	case "absent":
		return true
	case "finished":
		return j.state != qless.StateComplete && j.state != qless.StateFailed
	case "idle":
		return j.state == qless.StateRunning
	}
	return false
}

// seconds returns the step's delay.
func (s step) seconds() float64 { return s.delay().Seconds() }

// delay returns the delay, or 0 if missing.
func (s step) delay() time.Duration {
	if s.Delay == nil {
		return 0
	}
	return *s.Delay
}

// An outcome is the result of a call in a comparable form.
type outcome string

const (
	done    outcome = "done"
	skipped outcome = "skipped" // the handle does not exist
)

func refused(code qless.Code) outcome { return outcome("error: " + string(code)) }

// ended returns the outcome of a call that returns only an error.
func ended(err error) outcome { return outcomeOf(err, func() string { return string(done) }) }

// outcomeOf returns the outcome of a call: its error or, without one, the result of show.
func outcomeOf(err error, show func() string) outcome {
	if err == nil {
		return outcome(show())
	}
	var own *qless.Error
	if errors.As(err, &own) && own.Code != qless.ErrServer {
		return refused(own.Code)
	}
	return outcome("error: " + err.Error())
}

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

// onJob plays a call on a job, with the handle named by the step.
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

// existing is the same for calls accepted by any existing job.
func existing(call func(m *queues, j *job, s step) outcome) func(*queues, step) outcome {
	return onHandle(func(m *queues, _ *handle, j *job, s step) outcome {
		if j == nil {
			return refused(qless.ErrNotFound)
		}
		return call(m, j, s)
	})
}

// notOwned returns why a worker may not end or renew a job; empty if it may.
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

// notRun is the same for a call that knows the job's pop time.
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

// handle returns the job named by a step, or nil if the worker never had it.
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

// give stores a job received by a worker.
func (w *world) give(worker string, j *qless.Job) {
	key := handleKey{worker, j.JID}
	w.handles[key] = first(append([]*qless.Job{j}, w.handles[key]...), kept)
}
