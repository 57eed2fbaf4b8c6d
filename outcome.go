package qless

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/wire"
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
// [Delay] or when other jobs are complete ([DependsOn]). With both, and no dependency left to wait
// for, the delay does not count: the job can be popped at once.
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
	since    string // when the job was taken, as the server said; empty when that is not known
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
	details := o.details()
	args = append(args, string(o.action), o.jid, o.queue, o.data, strconv.Itoa(len(details)))
	return anys(args, details...)
}

// details returns the arguments of the outcome's action. An outcome that is sent again says
// which run of the job it is about: if the first answer was lost, so may be the answer to a
// reserve that took the same job again.
func (o *outcome) details() []string {
	if !o.unknown || o.since == "" {
		return o.args
	}
	details := slices.Clone(o.args)
	switch o.action {
	case actionComplete:
		details = append(details, "since")
	case actionRetry:
		for len(details) < 3 {
			details = append(details, "")
		}
	}
	return append(details, o.since)
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
	o := &outcome{jid: r.jid, queue: r.queue, since: r.since}
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
		o.args = []string{validText(cmp.Or(d.group, r.klass)), message}
	case actionRetry:
		group := cmp.Or(w.cfg.FailGroup(r.job, d.err), r.klass)
		o.args = []string{wire.FormatSeconds(max(d.delay, 0)), validText(group), message}
	case actionRelease:
		o.args = []string{wire.FormatSeconds(d.delay)}
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

// quoted matches what is in quotes of any kind, or follows a quote that is never closed. An
// apostrophe within a word is no quote.
var quoted = regexp.MustCompile(strings.Join([]string{
	`"(?:\\.|[^"\\])*"`,
	"`[^`]*`",
	"`[^`']*'",
	`\B'(?:\b'\b|[^'])*'\B`,
	`“[^”]*”`,
	`„[^“”]*[“”]`,
	`«[^»]*»`,
	`‘(?:\pL’\pL|[^’])*’`,
	`=\([^)]*\)`, // as PostgreSQL quotes
	"[\"`“„«‘].*",
	`\B'.*`,
}, "|"))

// varying matches the words that are numbers, addresses, paths and the like, or hold one.
var varying = regexp.MustCompile(`[\pN@/\\]|^[a-fA-F]{8,}$`)

// keyed matches a word that has a value after its name, as in user=jane.
var keyed = regexp.MustCompile(`^([\pL_.-]+=).`)

// stars matches several words that are left out, one after the other.
var stars = regexp.MustCompile(`\*(?: \*)+`)

// withoutDetails returns the first line of an error's text with a * in place of whatever is likely
// to differ from one job to the next, or to be personal.
func withoutDetails(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	words := strings.Fields(quoted.ReplaceAllString(line, "*"))
	for i, word := range words {
		words[i] = withoutDetail(word)
	}
	return stars.ReplaceAllString(strings.Join(words, " "), "*")
}

func withoutDetail(word string) string {
	core := strings.Trim(word, "()[]{}<>,.;:!?")
	if core == "" || strings.EqualFold(core, "i/o") {
		return word
	}
	before, after, _ := strings.Cut(word, core)
	if key := keyed.FindStringSubmatch(core); key != nil {
		return before + key[1] + "*" + after
	}
	if varying.MatchString(core) {
		return before + "*" + after
	}
	return word
}

// DefaultFailGroup names the failure group of a job that has no retries left after its
// klass and its error: the error's type where that says something, else the first line of its
// text, with a * in place of what varies from job to job: what is in quotes, addresses, paths, and
// words with a digit. What it can't tell apart, such as a name without quotes, stays: where that is
// personal or varies, give the worker a FailGroup of your own.
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
			return job.Klass + ":" + fmt.Sprintf("%.80s", withoutDetails(err.Error()))
		}
	}
	return job.Klass + ":error"
}
