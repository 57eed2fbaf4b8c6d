package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/qless/qless-go"
)

// A step is one call with everything that it needs, so that it can be played again, alone or after
// other steps. Zero and nil values are not given.
type step struct {
	Do   string        // the name of an action
	Tick time.Duration // the advance of the clock before the call

	Worker string
	Queue  string
	Count  int

	// A call on a job uses a handle that the worker got before: the latest one of the jid, or an
	// older one. With Read, the job is read first. Without a handle, no call is made.
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
	After     string // the running job that it follows, as found by the model
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

// conditions are the options that refuse a put, by their names in steps.
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

// delay returns the delay, or 0 if there is none.
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
