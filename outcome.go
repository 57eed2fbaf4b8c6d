package qless

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/wire"
)

// An Action is how a worker ends its hold on a job.
type Action string

// The actions of outcomes.
const (
	ActionComplete Action = "complete" // complete it, for good or into another queue
	ActionFail     Action = "fail"     // fail it at once
	ActionRelease  Action = "release"  // put it back without using up a retry
	ActionRetry    Action = "retry"    // put it back, or fail it if no retries are left
)

// An Outcome says what happens to a job when its handler has returned. The errors that [Next],
// [Snooze], [Throttled], [RetryIn] and [FailWith] return are of type *Outcome. [OutcomeOf] returns the outcome
// for any error of a handler.
type Outcome struct {
	// Action is what happens to the job.
	Action Action

	// Queue is the queue that a completed job goes on to. Empty means that it is complete for good.
	Queue string

	// Delay is how long the job waits in its queue, unless it is complete or failed. For
	// ActionRetry, 0 means what [Backoff] returns, and a negative delay none. For ActionRelease, 0
	// means 1 s.
	Delay time.Duration

	// DependsOn are the jids of the jobs that the job waits for in its next Queue.
	DependsOn []string

	// Priority is the job's priority in its next Queue. Nil leaves it as it is.
	Priority *int

	// Retries is how many retries the job has in its next Queue. Nil leaves it as it is.
	Retries *int

	// Tags are the job's tags in its next Queue. Nil leaves them as they are.
	Tags []string

	// Headers are the job's headers in its next Queue. Nil leaves them as they are.
	Headers map[string]string

	// Limits are the limits of a job that goes back by ActionRelease that are held for the Delay: all
	// that it has if the list is empty, and none if it is nil. See [Throttled].
	Limits []string

	// OnFailure is what becomes of the job in its next Queue when one that it waits for fails. Empty
	// leaves it as it is.
	OnFailure OnFailure

	// Group is the failure group. If it is empty, ActionFail uses the klass, and ActionRetry the
	// FailGroup of [WorkerConfig].
	Group string

	// Err is why the job is failed or retried.
	Err error
}

// Error returns the text of Err, or describes the outcome if there is none.
func (o *Outcome) Error() string {
	switch {
	case o.Err != nil:
		return redisx.Text(o.Err)
	case o.Action == ActionComplete && o.Queue != "":
		return "next queue " + strconv.Quote(o.Queue)
	case o.Action == ActionRelease && o.Limits != nil:
		return "throttled for " + o.Delay.String()
	case o.Action == ActionRelease:
		return "snooze for " + o.Delay.String()
	}
	return string(o.Action)
}

// MarshalJSON writes the delay in seconds, and Err as its text.
func (o Outcome) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Action    Action            `json:"action"`
		Queue     string            `json:"queue,omitempty"`
		Delay     float64           `json:"delay,omitempty"`
		DependsOn []string          `json:"depends_on,omitempty"`
		Priority  *int              `json:"priority,omitempty"`
		Retries   *int              `json:"retries,omitempty"`
		Tags      []string          `json:"tags,omitempty"`
		Headers   map[string]string `json:"headers,omitempty"`
		Limits    []string          `json:"limits,omitzero"`
		OnFailure OnFailure         `json:"on_failure,omitempty"`
		Group     string            `json:"group,omitempty"`
		Err       string            `json:"error,omitempty"`
	}{
		o.Action, o.Queue, secondsOf(o.Delay), o.DependsOn, o.Priority, o.Retries, o.Tags,
		o.Headers, o.Limits, o.OnFailure, o.Group, textOf(o.Err),
	})
}

// textOf returns the text of an error, empty for nil.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return redisx.Text(err)
}

// Unwrap returns Err.
func (o *Outcome) Unwrap() error { return o.Err }

// OutcomeOf returns the outcome for the error of a handler: ActionComplete for nil, the [Outcome]
// in its chain if there is one, and ActionRetry otherwise.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Outcome{Action: ActionComplete}
	}
	var o *Outcome
	if errors.As(err, &o) && o != nil {
		return *o
	}
	return Outcome{Action: ActionRetry, Err: err}
}

// Next is returned by a handler to complete its job and put it into another queue, with fresh
// retries. The options are those of [NextOption]. With both [Delay] and [DependsOn], the delay is
// ignored if all the other jobs are already complete.
//
// If the job can't be put there, because the queue or an option is invalid, it fails in the
// group <klass>:next.
func Next(queue string, options ...NextOption) error {
	var given callOptions
	err := applyOptions("complete", &given, options, NextOption.applyNext)
	o := nextOutcome(queue, &given)
	if err != nil {
		o.Err = err
		return &o
	}
	o.Err = o.checkNext("")
	return &o
}

// nextOutcome returns the outcome for a job that goes on to another queue.
func nextOutcome(queue string, given *callOptions) Outcome {
	o := Outcome{
		Action: ActionComplete, Queue: queue,
		DependsOn: given.depends, Priority: given.priority, Retries: given.retries,
		Headers: given.headers, OnFailure: given.onFailure,
	}
	if given.noHeaders && o.Headers == nil {
		o.Headers = map[string]string{}
	}
	if given.delay != nil {
		o.Delay = *given.delay
	}
	if given.tagged {
		o.Tags = append([]string{}, given.tags...)
	}
	return o
}

// Snooze is returned by a handler to put its job back into the queue for a while. It uses up no
// retry, and the job's data is saved. A delay of 0 or less means 1 s: a job that came back at once
// would keep its worker busy for nothing.
func Snooze(delay time.Duration) error {
	if delay <= 0 {
		delay = minSnooze
	}
	return &Outcome{Action: ActionRelease, Delay: delay}
}

// minSnooze is the delay of a snoozed job whose handler gave none.
const minSnooze = time.Second

// RetryIn is returned by a handler to retry its job after a delay. It uses up a retry; if none is
// left, the job fails. A delay of 0 or less means at once, whatever the [Backoff]. The error is the
// reason, and may be nil.
func RetryIn(delay time.Duration, err error) error {
	if delay <= 0 {
		delay = none
	}
	return &Outcome{Action: ActionRetry, Delay: delay, Err: err}
}

// FailWith is returned by a handler to fail its job at once, even if it has retries left. The group
// defaults to the klass. The error is the reason, and may be nil.
func FailWith(group string, err error) error {
	return &Outcome{Action: ActionFail, Group: group, Err: err}
}

// A PanicError is the Err of the [Outcome] of a job whose handler panicked.
type PanicError struct {
	Value any    // the value passed to panic
	Stack []byte // the stack of the goroutine, as [runtime/debug.Stack] formats it
}

// Error returns the value and the stack.
func (p *PanicError) Error() string { return fmt.Sprintf("panic: %v\n\n%s", p.Value, p.Stack) }

// Unwrap returns the value if it is an error.
func (p *PanicError) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// none means no duration where 0 means the default.
const none time.Duration = -1

// checkNext returns an error if the completed job can't go where the outcome says.
func (o *Outcome) checkNext(jid string) error {
	if err := checkName("complete", "next queue", o.Queue); err != nil {
		return err
	}
	options := o.nextOptions()
	options.jid = jid
	return options.check("complete")
}

func (o *Outcome) nextOptions() callOptions {
	return callOptions{
		delay: &o.Delay, depends: o.DependsOn, priority: o.Priority, retries: o.Retries,
		tags: o.Tags, tagged: o.Tags != nil,
		headers: o.Headers, noHeaders: o.Headers != nil, onFailure: o.OnFailure,
	}
}

// hasNext reports whether the outcome says anything about a next queue.
func (o *Outcome) hasNext() bool {
	return o.Queue != "" || o.Delay != 0 || o.DependsOn != nil || o.Priority != nil ||
		o.Retries != nil || o.Tags != nil || o.Headers != nil || o.OnFailure != ""
}

// An actionSpec is how an action is passed to the script finish, and counted.
type actionSpec struct {
	args      func(o *Outcome) []string // in pairs
	hasResult bool                      // the job may have ended by it
	count     func(s *WorkerStats) *int
}

var actions = map[Action]actionSpec{
	ActionComplete: {
		args:      (*Outcome).completeArgs,
		hasResult: true,
		count:     func(s *WorkerStats) *int { return &s.Completed },
	},
	ActionFail: {
		args:      (*Outcome).failureArgs,
		hasResult: true,
		count:     func(s *WorkerStats) *int { return &s.Failed },
	},
	ActionRelease: {
		args:  (*Outcome).releaseArgs,
		count: func(s *WorkerStats) *int { return &s.Released },
	},
	ActionRetry: {
		args:      (*Outcome).retryArgs,
		hasResult: true,
		count:     func(s *WorkerStats) *int { return &s.Retried },
	},
}

func (o *Outcome) completeArgs() []string {
	if o.Queue == "" {
		return nil
	}
	options := o.nextOptions()
	args := []string{"next", o.Queue, "delay", options.delayText()}
	if len(o.DependsOn) > 0 {
		args = append(args, "depends", jsonList(o.DependsOn))
	}
	if o.Priority != nil {
		args = append(args, "priority", strconv.Itoa(*o.Priority))
	}
	if o.Retries != nil {
		args = append(args, "retries", strconv.Itoa(*o.Retries))
	}
	if o.Tags != nil {
		args = append(args, "tags", jsonList(o.Tags))
	}
	return append(args, options.storedArgs()...)
}

func (o *Outcome) failureArgs() []string {
	return []string{"group", validText(o.Group), "message", o.message()}
}

func (o *Outcome) retryArgs() []string {
	args := []string{"delay", wire.FormatSeconds(o.Delay)}
	if o.Group == "" {
		return args
	}
	return append(args, o.failureArgs()...)
}

func (o *Outcome) releaseArgs() []string {
	var args []string
	if o.Delay != 0 {
		args = append(args, "delay", wire.FormatSeconds(o.Delay))
	}
	if o.Limits != nil {
		args = append(args, "throttled", jsonList(o.Limits))
	}
	return args
}

// message returns the failure message of a failed or retried job.
func (o *Outcome) message() string {
	if o.Err == nil {
		return ""
	}
	return validText(redisx.Text(o.Err))
}
