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

// A step is one call, and all that it needs: played again, alone or after other steps, it does the
// same. Zero and nil values are not given.
type step struct {
	Do   string        // the name of an action
	Tick time.Duration // how far the clock moves before the call

	Worker string
	Queue  string
	Count  int

	// A call on a job uses a handle that the worker got before: the latest one of the jid, or an
	// older one. Read reads the job first. Without any such handle nothing is called.
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
	Opens    bool   // the job is that of a new batch

	Header    string
	LockTime  *time.Duration
	OnLost    string
	OnFailure string
	Unique    string // a key, a space, and the mode of the claim
	Replace   string // delay or due
	After     string // the running job that it follows, as the model finds out
	Within    time.Duration
	Result    string

	StartBy, TTL, KeepFor, KeepFailedFor, MaxRunTime *time.Duration

	At *time.Duration // since noon

	Fair        string // a tenant, and maybe a space and a weight
	Done, Total int    // of progress

	Raw []string // a command for the server itself
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

// putOptions returns what the step says as options of a put. The jid is not among them.
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

// conditions are the options that refuse a put, by the names that steps have for them.
var conditions = map[string]qless.If{
	"absent": qless.IfAbsent, "finished": qless.IfFinished, "idle": qless.IfNotRunning,
}

// leaves reports whether the step's condition keeps it from putting a job that exists.
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

// An outcome is what a call returned, written so that it can be compared.
type outcome string

const (
	done    outcome = "done"
	skipped outcome = "skipped" // there is no such handle
)

func refused(code qless.Code) outcome { return outcome("error: " + string(code)) }

// ended returns the outcome of a call that returns an error only.
func ended(err error) outcome { return outcomeOf(err, func() string { return string(done) }) }

// outcomeOf returns the outcome of a call that returned an error, or what show says.
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
