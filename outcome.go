package qless

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A Backoff says how long a job waits before it is retried. Attempt is 1 after the first
// failure.
type Backoff func(job *Job, attempt int, err error) time.Duration

// ExponentialBackoff doubles the wait with each attempt, from first to at most longest, and
// varies it by a quarter up or down, so that jobs that failed together are not retried
// together.
func ExponentialBackoff(first, longest time.Duration) Backoff {
	return func(_ *Job, attempt int, _ error) time.Duration {
		wait := longest
		if shift := attempt - 1; shift < 32 && first<<shift>>shift == first {
			wait = min(first<<shift, longest)
		}
		return time.Duration(float64(wait) * (0.75 + rand.Float64()/2))
	}
}

// DefaultBackoff waits about 1 s, 2 s, 4 s and so on, at most about 10 minutes.
var DefaultBackoff = ExponentialBackoff(time.Second, 10*time.Minute)

// Reasons for which a handler's context ends, besides [ErrLockLost].
var (
	// ErrCanceled means that the job was canceled.
	ErrCanceled = &Error{Code: CodeCanceled, Message: "the job was canceled"}

	// ErrMaxRunTime means that the handler ran for longer than it may.
	ErrMaxRunTime = &Error{Code: CodeMaxRunTime, Message: "the job ran for too long"}

	// ErrStopped means that the worker was stopped.
	ErrStopped = &Error{Code: CodeStopped, Message: "the worker was stopped"}
)

// directive is an error that a handler returns to say what becomes of its job.
type directive struct {
	action  action
	delay   time.Duration
	group   string
	options callOptions
	err     error
}

func (d *directive) Error() string {
	switch d.action {
	case actionComplete:
		return "next queue " + strconv.Quote(d.options.next)
	case actionRelease:
		return "snooze for " + d.delay.String()
	}
	if d.err == nil {
		return string(d.action)
	}
	return d.err.Error()
}

func (d *directive) Unwrap() error { return d.err }

// RetryIn is returned by a handler to retry its job after a time, at the price of a retry; a
// negative time is 0. Without any left the job fails. The error says why.
func RetryIn(delay time.Duration, err error) error {
	return &directive{action: actionRetry, delay: max(delay, 0), err: err}
}

// FailWith is returned by a handler to fail its job at once, whatever retries it has left.
func FailWith(group string, err error) error {
	return &directive{action: actionFail, group: group, err: err}
}

// Next is returned by a handler to complete its job and put it into another queue, after a
// [Delay] or when other jobs are complete ([DependsOn]).
func Next(queue string, options ...CompleteOption) error {
	d := &directive{action: actionComplete}
	for _, option := range options {
		option.applyComplete(&d.options)
	}
	d.options.next = queue
	return d
}

// Snooze is returned by a handler to give its job back for a time. It spends no retry, and
// the job's data is saved. A time of 0 or less is 1 s, as a job that came back at once, for free,
// would keep its worker busy with nothing.
func Snooze(delay time.Duration) error {
	if delay <= 0 {
		delay = minSnooze
	}
	return &directive{action: actionRelease, delay: delay}
}

// minSnooze is how long a job is given back whose handler named no time.
const minSnooze = time.Second

// action is how a worker ends its hold on a job.
type action string

const (
	actionComplete action = "complete"
	actionFail     action = "fail"
	actionRetry    action = "retry"
	actionRelease  action = "release"
)

// outcome is what became of a job here, to be told to the server.
type outcome struct {
	action   action
	jid      string
	queue    string
	data     string // empty when it did not change
	args     []string
	until    time.Time // when the lock ends
	unknown  bool      // it was sent before, and no answer came
	alone    bool      // the server refused a call with it: it goes by itself
	refusals int       // how often the server refused it alone
	late     bool      // the lock has ended: the job is likely to be another worker's
}

func (o *outcome) lockEnded() bool { return !time.Now().Before(o.until) }

// appendTo appends the outcome as the script finish takes it.
func (o *outcome) appendTo(args []any) []any {
	args = append(args, string(o.action), o.jid, o.queue, o.data, strconv.Itoa(len(o.args)))
	return anys(args, o.args...)
}

// decide turns what a handler returned into the outcome of its job. A panic of the backoff,
// or of what names failure groups, counts as one of the handler.
func (w *Worker) decide(r *run, err error) (o *outcome) {
	defer func() {
		if value := recover(); value != nil {
			o = w.outcomeOf(r, r.panicked(value))
		}
	}()
	return w.outcomeOf(r, err)
}

func (w *Worker) outcomeOf(r *run, err error) *outcome {
	o := &outcome{jid: r.jid, queue: r.queue}
	data, dataErr := r.changedData()
	if dataErr != nil {
		err = FailWith(r.klass+":data", dataErr)
	}
	o.data = data
	if err == nil {
		o.action = actionComplete
		return o
	}
	var d *directive
	if !errors.As(err, &d) {
		d = &directive{action: actionRetry, delay: r.backoff(w)(r.job, r.attempt(), err), err: err}
	}
	if d.action == actionComplete {
		if problem := d.check(r.jid); problem != nil {
			d = &directive{action: actionFail, group: r.klass + ":next", err: problem}
			err = d
		}
	}
	message := ""
	if d.err != nil {
		message = validText(err.Error()) // with what was wrapped around the directive
	}
	o.action = d.action
	switch d.action {
	case actionComplete:
		o.args = d.completeArgs()
	case actionFail:
		o.args = []string{validText(orDefault(d.group, r.klass)), message}
	case actionRetry:
		group := orDefault(w.cfg.FailGroup(r.job, d.err), r.klass)
		o.args = []string{formatSeconds(max(d.delay, 0)), validText(group), message}
	case actionRelease:
		o.args = []string{formatSeconds(d.delay)}
	}
	return o
}

// check errors unless the next queue and its options can be used. The directive may be
// shared by many jobs: it is not changed.
func (d *directive) check(jid string) error {
	if err := checkName("complete", "next queue", d.options.next); err != nil {
		return err
	}
	options := d.options
	options.jid = jid
	return options.check("complete")
}

func (d *directive) completeArgs() []string {
	args := []string{"next", d.options.next, "delay", d.options.delayText()}
	if len(d.options.depends) > 0 {
		args = append(args, "depends", jsonList(d.options.depends))
	}
	return args
}

// panicError is a handler's panic, with its stack.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v\n\n%s", p.value, p.stack) }

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// varying matches the parts of an error's text that differ from one job to the next.
var varying = regexp.MustCompile(`"[^"]*"|'[^']*'|[0-9a-fA-F-]{16,}|[0-9]+`)

// DefaultFailGroup names the failure group of a job that has no retries left after its
// klass and its error: the error's type where that says something, else its text without
// what varies from job to job.
func DefaultFailGroup(job *Job, err error) string {
	for ; err != nil; err = errors.Unwrap(err) {
		name := strings.TrimPrefix(reflect.TypeOf(err).String(), "*")
		switch {
		case errors.Is(err, ErrMaxRunTime):
			return job.Klass + ":max-run-time"
		case errors.Is(err, context.DeadlineExceeded):
			return job.Klass + ":timeout"
		case strings.HasPrefix(name, "errors."), strings.HasPrefix(name, "fmt."), name == "qless.directive":
		default:
			return job.Klass + ":" + name
		}
		if errors.Unwrap(err) == nil {
			line, _, _ := strings.Cut(varying.ReplaceAllString(err.Error(), "*"), "\n")
			return job.Klass + ":" + fmt.Sprintf("%.80s", line)
		}
	}
	return job.Klass + ":error"
}
