package qless

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// Options of calls. The type of an option determines which calls accept it.
type (
	// A PutOption is an option for [Queue.Put], [Queue.PutMany], [Queue.Call], [CallFor],
	// [Client.NewBatch], [Job.Move] or [Schedule]: [At], [Delay], [DependsOn], [Fair],
	// [FairWeight], [Header], [Headers], [IfAbsent], [IfFinished], [IfNotRunning], [JID],
	// [KeepFailedFor], [KeepFor], [Limits], [LockTime], [OnFailure], [OnLost], [Priority],
	// [Retries], [RunFor], [StartBy], [Tags], [TTL] or [Unique]. A job that exists keeps what the
	// options of a further put do not set, unless an option says otherwise.
	PutOption interface{ applyPut(*callOptions) }

	// A NextOption is an option for [Job.Next] and [Next]: [Delay], [DependsOn], [Header],
	// [Headers], [OnFailure], [Priority], [Retries] or [Tags].
	NextOption interface{ applyNext(*callOptions) }

	// A WaitOption is an option for [Client.Wait] and [Shards.Wait]: [OnProgress].
	WaitOption interface{ applyWait(*callOptions) }

	// A PopOption is an option for [Queue.Pop] and [ShardedQueue.Pop]: [LockTime].
	PopOption interface{ applyPop(*callOptions) }

	// A RetryOption is an option for [Job.Retry]: [Because] or [Delay].
	RetryOption interface{ applyRetry(*callOptions) }

	// A RecurOption is an option for [Queue.Recur]: [Backlog], [JID], [Offset], [Priority],
	// [Retries] or [Tags].
	RecurOption interface{ applyRecur(*callOptions) }
)

// callOptions holds the options of a call. Nil and zero mean not set.
type callOptions struct {
	jid      string
	named    bool // the caller has chosen the jid
	priority *int
	retries  *int
	tags     []string
	tagged   bool
	delay    *time.Duration
	at       *time.Time
	depends  []string
	next     string // the queue that a completed job goes on to
	backlog  *int
	offset   time.Duration
	group    string
	message  string

	headers   map[string]string
	noHeaders bool // an existing job loses its headers, unless there are others

	lockTime *time.Duration
	onLost   *Place

	startBy, ttl, keepFor, keepFailedFor, runFor *time.Duration
	lifeEnds                                     lifeEnds

	conditions []condition // at most one, or the same several times, once checked

	onFailure OnFailure

	onProgress OnProgress // of a wait

	fair *FairOption

	limits *LimitsOption

	opensBatch bool         // it is the callback of a batch that is open
	batchSize  *wire.Number // how many members its batch has, if it is a callback
	batch      string       // of which it is a member

	unique *UniqueOption
	claim  *claim // of a put, made of unique

	waited bool // somebody waits for the end of the job

	dataBytes int // how much of each job's data a list shows

	include []Include // what else a call that counts reads
}

// applyOptions applies the options of a call, using the method of their interface.
func applyOptions[O any](
	op string, c *callOptions, options []O, apply func(O, *callOptions),
) error {
	for i, option := range options {
		if any(option) == nil {
			return invalid(op, c.jid, "options[%d] is nil", i)
		}
		apply(option, c)
	}
	return nil
}

// JID is the id of a job. The default is a new random one. A jid can't end in -history,
// -dependents or -dependencies, which are names of a job's lists.
//
// If a job with this jid exists in any state, even running or complete, it is overwritten and put
// again. A waiting job stays one job. A running job is taken from its worker and may run a second
// time at once, while the first run continues until it notices. A complete or failed job runs
// again. So reusing a jid prevents a second run only until the first has begun. [IfAbsent],
// [IfFinished] and [IfNotRunning] refuse the put instead.
//
// To put a follow-up job once, return [Next], or make the follow-up depend on this job
// ([DependsOn]), so that it can't begin before this one is complete. In any case it should be
// idempotent.
type JID string

func (o JID) applyPut(c *callOptions)   { c.jid, c.named = string(o), o != "" }
func (o JID) applyRecur(c *callOptions) { c.jid = string(o) }

// A givenJID is the jid of a job that this package has chosen.
type givenJID string

func (o givenJID) applyPut(c *callOptions) { c.jid = string(o) }

// Priority is the priority of a job. Jobs with a higher priority are popped first. The default is
// 0, or what the job had.
//
// Among jobs with the same priority, the oldest is popped first. A queue stores both in one
// floating-point number, so a large priority leaves less precision for the age. Jobs that were put
// closer together than this may be popped in any order:
//
//	      0  0.3 µs
//	      1  1.1 µs
//	     10  18 µs
//	    100  142 µs
//	   1000  1.1 ms
//	 100000  146 ms
//	1000000  1.2 s
//
// Negative priorities behave the same, except that it is 2.2 µs for -1.
type Priority int

func (o Priority) applyPut(c *callOptions)   { c.priority = (*int)(&o) }
func (o Priority) applyNext(c *callOptions)  { c.priority = (*int)(&o) }
func (o Priority) applyRecur(c *callOptions) { c.priority = (*int)(&o) }

// Retries is how often a job may be retried, or lost by its worker, before it fails. The default
// is 5, or what the job had; 0 means none.
type Retries int

func (o Retries) applyPut(c *callOptions)   { c.retries = (*int)(&o) }
func (o Retries) applyNext(c *callOptions)  { c.retries = (*int)(&o) }
func (o Retries) applyRecur(c *callOptions) { c.retries = (*int)(&o) }

// A TagsOption is returned by [Tags].
type TagsOption struct{ tags []string }

// Tags replaces the tags of a job. The default is none, or what the job had; Tags() without
// arguments removes them.
func Tags(tags ...string) TagsOption { return TagsOption{tags} }

func (o TagsOption) applyPut(c *callOptions)   { c.tags, c.tagged = o.tags, true }
func (o TagsOption) applyNext(c *callOptions)  { c.tags, c.tagged = o.tags, true }
func (o TagsOption) applyRecur(c *callOptions) { c.tags, c.tagged = o.tags, true }

// Delay is how long it takes until a job can be popped. The default is 0; a negative delay is
// [ErrInvalid].
//
// A job that is put with [DependsOn] as well waits for both: the other jobs and the delay. When a
// job goes on to another queue ([Next], [Job.Next]), the delay is ignored if there are dependencies
// and all of them are already complete: the job can be popped at once, as with clients of other
// languages.
type Delay time.Duration

func (o Delay) applyPut(c *callOptions)   { c.delay = (*time.Duration)(&o) }
func (o Delay) applyNext(c *callOptions)  { c.delay = (*time.Duration)(&o) }
func (o Delay) applyRetry(c *callOptions) { c.delay = (*time.Duration)(&o) }

// A DependsOnOption is returned by [DependsOn].
type DependsOnOption struct{ jids []string }

// DependsOn makes a job wait until other jobs are complete. Used twice, it adds to the first. Jobs
// that do not exist or are already complete are not waited for. If one of them fails, the job keeps
// waiting until that one is unfailed and completed, or both are canceled together, unless
// [OnFailure] says something else. A jid that no job can have ([JID]) is [ErrInvalid].
func DependsOn(jids ...string) DependsOnOption { return DependsOnOption{jids} }

func (o DependsOnOption) applyPut(c *callOptions)  { c.depends = append(c.depends, o.jids...) }
func (o DependsOnOption) applyNext(c *callOptions) { c.depends = append(c.depends, o.jids...) }

// A BecauseOption is returned by [Because].
type BecauseOption struct{ group, message string }

// Because records why a job is retried. If it has no retries left, it fails in this group; the
// default is failed-retries-<queue>.
func Because(group, message string) BecauseOption { return BecauseOption{group, message} }

func (o BecauseOption) applyRetry(c *callOptions) { c.group, c.message = o.group, o.message }

// Backlog limits how many missed jobs of a recurring job are put when its queue was not popped for
// a while. The default, 0, puts all of them.
type Backlog int

func (o Backlog) applyRecur(c *callOptions) { c.backlog = (*int)(&o) }

// Offset delays the first job of a recurring job. The default, 0, makes it due at once.
type Offset time.Duration

func (o Offset) applyRecur(c *callOptions) { c.offset = time.Duration(o) }

// check returns an error if an option is invalid.
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
		{"priority", c.priority, math.MinInt32},
		{"retries", c.retries, 0},
		{"backlog", c.backlog, 0},
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
	if err := c.checkConditions(op); err != nil {
		return err
	}
	if err := c.checkLock(op); err != nil {
		return err
	}
	if err := c.checkLifetimes(op); err != nil {
		return err
	}
	if err := c.onFailure.check(op, c.jid); err != nil {
		return err
	}
	if err := c.checkUnique(op); err != nil {
		return err
	}
	if err := c.fair.check(op, c.jid, c.priority); err != nil {
		return err
	}
	if err := c.limits.check(op, c.jid); err != nil {
		return err
	}
	return c.checkHeaders(op)
}

// checkNumber returns an error unless a number is in the range that replies preserve exactly.
func checkNumber(op, jid, what string, n, least int) error {
	if n < least || n > math.MaxInt32 {
		return invalid(op, jid, "the %s %d is not from %d to %d", what, n, least, math.MaxInt32)
	}
	return nil
}

// delayText returns the delay in seconds, or "0" if there is none.
func (c *callOptions) delayText() string {
	if c.delay == nil {
		return "0"
	}
	return wire.FormatSeconds(*c.delay)
}

// appendJob appends the pairs of arguments that put, next and recur share.
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

// nextArgs returns the pairs of arguments that put a completed job into its next queue.
func (c *callOptions) nextArgs() []any {
	args := c.appendJob([]any{"next", c.next, "delay", c.delayText()})
	if len(c.depends) > 0 {
		args = append(args, "depends", jsonList(c.depends))
	}
	return anys(args, c.storedArgs()...)
}

// jsonList encodes names as a JSON array.
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
