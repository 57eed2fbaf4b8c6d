package qless

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// Options of single calls. An option's type says which calls take it: [Delay] goes with
// put, complete and retry, [Backlog] with recur only.
type (
	// A PutOption changes one [Queue.Put] or [Job.Move].
	PutOption interface{ applyPut(*callOptions) }

	// A CompleteOption changes one [Job.Complete].
	CompleteOption interface{ applyComplete(*callOptions) }

	// A NextOption changes one [Next]: [Delay] or [DependsOn].
	NextOption interface{ applyNext(*callOptions) }

	// A RetryOption changes one [Job.Retry].
	RetryOption interface{ applyRetry(*callOptions) }

	// A RecurOption changes one [Queue.Recur].
	RecurOption interface{ applyRecur(*callOptions) }
)

// callOptions holds what the options of any call can say; nil and zero mean unsaid.
type callOptions struct {
	jid      string
	priority *int
	retries  *int
	tags     []string
	tagged   bool
	delay    *time.Duration
	depends  []string
	next     string
	backlog  *int
	offset   time.Duration
	group    string
	message  string
}

// A JobOption goes with put and recur.
type JobOption func(*callOptions)

func (o JobOption) applyPut(c *callOptions)   { o(c) }
func (o JobOption) applyRecur(c *callOptions) { o(c) }

// JID sets the id of the job. Defaults to a new random one. It can't end in -history,
// -dependents or -dependencies, which are names of a job's lists.
//
// Warning: a put with the jid of a job that exists moves that job, whatever its state. One that
// waits stays one job. One that is running is taken from its worker and runs a second time, at
// once if there is a worker for it, while the first run goes on until it notices. One that is
// complete or failed runs again. So the same jid prevents a second run only as long as the first
// has not begun. To put a follow-up job once, return [Next], or make the follow-up depend on this
// job ([DependsOn]), so that it can't begin before this one is complete. In any case its effect
// should be idempotent.
func JID(jid string) JobOption {
	return func(c *callOptions) { c.jid = jid }
}

// Priority sets the priority: higher ones are popped first. Defaults to 0, or to what the
// job had.
//
// Of jobs with the same priority the oldest is popped first. A queue keeps both in one
// floating-point number, which has less room for the age when the priority is large: jobs that
// were put closer together than this may be popped in any order.
//
//	      0  0.3 µs
//	      1  1.1 µs
//	     10  18 µs
//	    100  142 µs
//	   1000  1.1 ms
//	 100000  146 ms
//	1000000  1.2 s
//
// Below 0 it is the same, but 2.2 µs for -1.
func Priority(priority int) JobOption {
	return func(c *callOptions) { c.priority = &priority }
}

// Retries sets how often a job may be retried, or lost by its worker, before it fails.
// Defaults to 5, or to what the job had.
func Retries(retries int) JobOption {
	return func(c *callOptions) { c.retries = &retries }
}

// Tags sets the tags of a job. Defaults to none, or to what the job had; Tags() with no tag
// takes them away.
func Tags(tags ...string) JobOption {
	return func(c *callOptions) { c.tags, c.tagged = tags, true }
}

// A DelayOption goes with put, complete and retry.
type DelayOption time.Duration

func (o DelayOption) applyPut(c *callOptions)      { c.delay = (*time.Duration)(&o) }
func (o DelayOption) applyComplete(c *callOptions) { c.delay = (*time.Duration)(&o) }
func (o DelayOption) applyNext(c *callOptions)     { c.delay = (*time.Duration)(&o) }
func (o DelayOption) applyRetry(c *callOptions)    { c.delay = (*time.Duration)(&o) }

// Delay keeps a job from being popped for a time. Defaults to 0. A put with [DependsOn] has both:
// the job waits for the others and for the end of the delay. When a job goes on to another queue
// ([Next], [NextQueue]) the delay does not count if there are dependencies and all of them are
// complete already: the job can be popped at once, as with the clients of other languages.
func Delay(delay time.Duration) DelayOption { return DelayOption(delay) }

// A DependsOption goes with put and complete.
type DependsOption []string

func (o DependsOption) applyPut(c *callOptions)      { c.depends = append(c.depends, o...) }
func (o DependsOption) applyNext(c *callOptions)     { c.depends = append(c.depends, o...) }
func (o DependsOption) applyComplete(c *callOptions) { c.depends = append(c.depends, o...) }

// DependsOn makes a job wait until other jobs are complete. Those that do not exist or are
// complete already are not waited for. One that fails keeps it waiting, until it is unfailed
// and completed, or canceled together with it. A jid that no job can have ([JID]) is
// [ErrInvalid].
func DependsOn(jids ...string) DependsOption { return jids }

// A NextQueueOption goes with complete.
type NextQueueOption string

func (o NextQueueOption) applyComplete(c *callOptions) { c.next = string(o) }

// NextQueue makes a completed job go on to another queue, as the same job with fresh
// retries. [Delay] and [DependsOn] say when it may run there; with both, and no dependency left to
// wait for, it may run at once.
func NextQueue(name string) NextQueueOption { return NextQueueOption(name) }

// A FailureOption goes with retry.
type FailureOption struct{ group, message string }

func (o FailureOption) applyRetry(c *callOptions) { c.group, c.message = o.group, o.message }

// Because records why a job is retried. The group is the one that the job fails in when
// this was its last retry; it defaults to failed-retries-<queue>.
func Because(group, message string) FailureOption { return FailureOption{group, message} }

// An IntervalOption goes with recur.
type IntervalOption func(*callOptions)

func (o IntervalOption) applyRecur(c *callOptions) { o(c) }

// Backlog caps how many missed jobs of a recurring job are put at once when nobody popped
// its queue for a while. Defaults to 0: all of them.
func Backlog(jobs int) IntervalOption {
	return func(c *callOptions) { c.backlog = &jobs }
}

// Offset sets how long the first job of a recurring job waits. Defaults to 0: it is put at
// once, when the queue is next popped.
func Offset(offset time.Duration) IntervalOption {
	return func(c *callOptions) { c.offset = offset }
}

// check errors unless all that the options say can be used.
func (c *callOptions) check(op string) error {
	switch {
	case c.delay != nil && *c.delay < 0:
		return invalid(op, c.jid, "the delay %v is negative", *c.delay)
	case c.offset < 0:
		return invalid(op, c.jid, "the offset %v is negative", c.offset)
	}
	for _, number := range []struct {
		what  string
		value *int
		least int
	}{
		{"priority", c.priority, math.MinInt32}, {"retries", c.retries, 0}, {"backlog", c.backlog, 0},
	} {
		if number.value != nil {
			if err := checkNumber(op, c.jid, number.what, *number.value, number.least); err != nil {
				return err
			}
		}
	}
	for _, tag := range c.tags {
		if err := checkName(op, "tag", tag); err != nil {
			return err
		}
	}
	for _, jid := range c.depends {
		if err := checkName(op, "jid of a dependency", jid); err != nil {
			return err
		}
		if err := checkJID(op, c.jid, jid); err != nil {
			return err
		}
		if jid == c.jid {
			return invalid(op, c.jid, "the job depends on itself")
		}
	}
	return nil
}

// checkNumber errors unless a number is in the range that replies keep exactly.
func checkNumber(op, jid, what string, n, least int) error {
	if n < least || n > math.MaxInt32 {
		return invalid(op, jid, "the %s %d is not from %d to %d", what, n, least, math.MaxInt32)
	}
	return nil
}

// delayText returns the delay in seconds, "0" when there is none.
func (c *callOptions) delayText() string {
	if c.delay == nil {
		return "0"
	}
	return wire.FormatSeconds(*c.delay)
}

// appendJob appends the pairs of arguments that put and recur share.
func (c *callOptions) appendJob(args []any) []any {
	if c.priority != nil {
		args = append(args, "priority", strconv.Itoa(*c.priority))
	}
	if c.tagged {
		args = append(args, "tags", jsonList(c.tags))
	}
	if c.retries != nil {
		args = append(args, "retries", strconv.Itoa(*c.retries))
	}
	return args
}

// jsonList writes names as a JSON array.
func jsonList(names []string) string {
	if len(names) == 0 {
		return "[]"
	}
	text, err := json.Marshal(names)
	if err != nil {
		panic(err) // strings always marshal
	}
	return string(text)
}
