package qless

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/guard"
	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/wire"
)

// An Action is how a worker ends the run of a job.
type Action string

// The actions of outcomes.
const (
	ActionComplete Action = "complete" // complete, or move to another queue
	ActionFail     Action = "fail"     // fail at once
	ActionRelease  Action = "release"  // put back without using up a retry
	ActionRetry    Action = "retry"    // put back, or fail if no retries are left
)

// An Outcome determines what happens to a job when the handler has returned. The errors of [Next],
// [Snooze], [Throttled], [RetryIn] and [FailWith] are of type *Outcome. [OutcomeOf] returns the
// outcome for any error of a handler.
type Outcome struct {
	// Action is what happens to the job.
	Action Action

	// Queue is the next queue of a completed job. Empty means that the job ends.
	Queue string

	// Delay is how long the job waits in its queue, unless complete or failed. For ActionRetry, 0
	// means the delay of the [Backoff], and a negative value none. For ActionRelease, 0 means 1 s.
	Delay time.Duration

	// DependsOn are the jids of the jobs to wait for in the next Queue.
	DependsOn []string

	// Priority is the job's priority in the next Queue, or nil for no change.
	Priority *int

	// Retries is the job's number of retries in the next Queue, or nil for no change.
	Retries *int

	// Tags are the job's tags in the next Queue, or nil for no change.
	Tags []string

	// Headers are the job's headers in the next Queue, or nil for no change.
	Headers map[string]string

	// Limits are the job's limits that ActionRelease holds for the Delay: all if the list is empty,
	// none if nil.
	Limits []string

	// OnFailure is the job's policy in the next Queue, or empty for no change.
	OnFailure OnFailure

	// Group is the failure group, cut at 16 KiB. If empty, ActionFail uses the klass, and ActionRetry
	// the FailGroup of [WorkerConfig].
	Group string

	// Err is the reason why the job fails or is retried. The server gets up to 16 KiB of the text.
	Err error
}

// Error returns the text of Err, or describes the outcome if there is none.
func (o *Outcome) Error() string {
	switch {
	case o.Err != nil:
		return guard.Text(o.Err)
	case o.Action == ActionComplete && o.Queue != "":
		return "next queue " + strconv.Quote(o.Queue)
	case o.Action == ActionRelease && o.Limits != nil:
		return "throttled for " + o.Delay.String()
	case o.Action == ActionRelease:
		return "snooze for " + o.Delay.String()
	}
	return string(o.Action)
}

// Unwrap returns Err.
func (o *Outcome) Unwrap() error { return o.Err }

// OutcomeOf returns the outcome for the error of a handler: ActionComplete for nil, the [Outcome]
// in the error's chain, if any, and ActionRetry otherwise.
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

// Next is returned by a handler to complete the job and put it into another queue, with fresh
// retries. The options are those of [NextOption]. With both [Delay] and [DependsOn], the delay is
// ignored if all the other jobs are already complete.
//
// With an invalid queue or option, the job fails in the group <klass>:next.
func Next(queue string, options ...NextOption) error {
	var given jobopts.Options
	err := applyOptions("complete", "", &given, options, NextOption.applyNext)
	o := nextOutcome(queue, &given)
	if err != nil {
		o.Err = err
		return &o
	}
	o.Err = o.checkNext("")
	return &o
}

// nextOutcome returns the outcome for a move to another queue.
func nextOutcome(queue string, given *jobopts.Options) Outcome {
	o := Outcome{
		Action: ActionComplete, Queue: queue, DependsOn: given.DependsOn,
		Priority: given.Priority, Retries: given.Retries, Tags: given.Tags, Headers: given.Headers,
	}
	if given.IsCleared("Headers") && o.Headers == nil {
		o.Headers = map[string]string{}
	}
	if given.OnFailure != nil {
		o.OnFailure = OnFailure(given.OnFailure.Do)
	}
	if given.Delay != nil {
		o.Delay = *given.Delay
	}
	return o
}

// Snooze is returned by a handler to put the job back into the queue for a while, without using up
// a retry. The job's data is saved. A delay of 0 or less means 1 s.
func Snooze(delay time.Duration) error {
	if delay <= 0 {
		delay = minSnooze
	}
	return &Outcome{Action: ActionRelease, Delay: delay}
}

// minSnooze is the delay of a snoozed job whose handler gave none.
const minSnooze = time.Second

// RetryIn is returned by a handler to retry the job after a delay, which uses up a retry; if none
// is left, the job fails. A delay of 0 or less means at once, whatever the [Backoff]. The error is
// the reason, and may be nil.
func RetryIn(delay time.Duration, err error) error {
	if delay <= 0 {
		delay = none
	}
	return &Outcome{Action: ActionRetry, Delay: delay, Err: err}
}

// FailWith is returned by a handler to fail the job at once, even with retries left. The group
// defaults to the klass. The error is the reason, and may be nil.
func FailWith(group string, err error) error {
	return &Outcome{Action: ActionFail, Group: group, Err: err}
}

// A PanicError is the Err of the [Outcome] of a job whose handler panicked.
type PanicError struct {
	Value any    // the value passed to panic
	Stack []byte // the stack of the goroutine, formatted by [runtime/debug.Stack]
}

// Error returns up to 4 KiB of the value, and the stack.
func (p *PanicError) Error() string {
	value := guard.PanicValue(p.Value)
	return fmt.Sprintf("panic: %s\n\n%s", value, p.Stack)
}

// Unwrap returns the value if it is an error.
func (p *PanicError) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// none means no duration where 0 means the default.
const none time.Duration = -1

// checkNext returns an error if the completed job can't move to the next queue.
func (o *Outcome) checkNext(jid string) error {
	if err := checkName("complete", "next queue", o.Queue); err != nil {
		return err
	}
	return checkNext(jid, o.nextOptions())
}

// checkNext returns an error if the options of a job for the next queue are invalid.
func checkNext(jid string, o *jobopts.Options) error {
	if slices.Contains(o.DependsOn, jid) && jid != "" {
		return invalid("complete", jid, "the job depends on itself")
	}
	return checkOptions("complete", jid, o)
}

// nextOptions returns the options of a job for the next queue.
func (o *Outcome) nextOptions() *jobopts.Options {
	given := &jobopts.Options{
		Delay: &o.Delay, DependsOn: o.DependsOn, Priority: o.Priority, Retries: o.Retries, Tags: o.Tags,
	}
	if o.Headers != nil {
		Headers(o.Headers).applyNext(given)
	}
	o.OnFailure.applyNext(given)
	return given
}

// hasNext reports whether the outcome has a field for a next queue set.
func (o *Outcome) hasNext() bool {
	return o.Queue != "" || o.Delay != 0 || o.DependsOn != nil || o.Priority != nil ||
		o.Retries != nil || o.Tags != nil || o.Headers != nil || o.OnFailure != ""
}

func (o *Outcome) completeArgs(string) []string {
	if o.Queue == "" {
		return nil
	}
	var args []string
	for _, arg := range o.nextOptions().NextArgs([]any{"next", o.Queue}) {
		args = append(args, wire.AsString(arg))
	}
	return args
}

func (o *Outcome) failureArgs(message string) []string {
	return []string{"group", guard.Group(o.Group), "message", message}
}

func (o *Outcome) retryArgs(message string) []string {
	args := []string{"delay", wire.FormatSeconds(o.Delay)}
	if o.Group == "" {
		return args
	}
	return append(args, o.failureArgs(message)...)
}

func (o *Outcome) releaseArgs(string) []string {
	var args []string
	if o.Delay != 0 {
		args = append(args, "delay", wire.FormatSeconds(o.Delay))
	}
	if o.Limits != nil {
		args = append(args, "throttled", wire.JSONList(o.Limits))
	}
	return args
}

// message returns the failure message of a failed or retried job.
func (o *Outcome) message() string {
	if o.Err == nil {
		return ""
	}
	return guard.Message(guard.Text(o.Err))
}

// A Backoff returns the delay before a job is retried. The attempt is 1 after the first failure. A
// negative duration counts as 0. A Backoff is also an option of [Worker.Handle], for the jobs of
// one klass.
type Backoff func(job *Job, attempt int, err error) time.Duration

// ExponentialBackoff doubles the wait with each attempt, from first up to longest. Each wait varies
// by up to a quarter, unless the [ClientConfig] has a Clock.
func ExponentialBackoff(first, longest time.Duration) Backoff {
	return func(job *Job, attempt int, _ error) time.Duration {
		wait := longest
		if shift := attempt - 1; shift < 32 && first<<shift>>shift == first {
			wait = min(first<<shift, longest)
		}
		if job != nil && job.client != nil && job.client.clock != nil {
			return wait
		}
		return time.Duration(float64(wait) * (0.75 + rand.Float64()/2))
	}
}

// DefaultFailGroup returns the failure group of a job without retries left: the klass, with the
// type of the error if that is specific, and otherwise with the first line of the error's text. In
// the text, a * replaces parts that seem to vary from job to job: anything in quotes, addresses,
// paths, and words with a digit.
func DefaultFailGroup(job *Job, err error) string {
	for ; err != nil; err = errors.Unwrap(err) {
		name := strings.TrimPrefix(reflect.TypeOf(err).String(), "*")
		_, isOutcome := err.(*Outcome)
		switch {
		case errors.Is(err, ErrMaxRunTime):
			return job.Klass + ":max-run-time"
		case errors.Is(err, context.DeadlineExceeded):
			return job.Klass + ":timeout"
		case strings.HasPrefix(name, "errors."), strings.HasPrefix(name, "fmt."), isOutcome:
		default:
			return job.Klass + ":" + name
		}
		if errors.Unwrap(err) == nil {
			return job.Klass + ":" + fmt.Sprintf("%.80s", redisx.WithoutDetails(guard.Text(err)))
		}
	}
	return job.Klass + ":error"
}
