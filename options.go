package qless

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/jobopts"
)

// Options of calls. The type of an option determines which calls accept it.
type (
	// A PutOption is an option for [Queue.Put], [Queue.PutMany], [Queue.Call], [Client.NewBatch],
	// [Job.Move] or [Schedule]. A job that is put again keeps the options that the new put does not
	// give.
	PutOption interface{ applyPut(*jobopts.Options) }

	// A NextOption is an option for [Job.Next] and [Next]: [Delay], [DependsOn], [Headers],
	// [OnFailure], [Priority], [Retries] or [Tags].
	NextOption interface{ applyNext(*jobopts.Options) }

	// An UnfailOption is an option for [Job.Unfail] and the Unfail of package inspect: [Retries] or
	// [TTL]. The TTL counts from the call.
	UnfailOption interface{ applyUnfail(*jobopts.Options) }

	// A RecurOption is an option for [Queue.Recur]: [Backlog], [JID], [Offset], [Priority],
	// [Retries] or [Tags].
	RecurOption interface{ applyRecur(*recurOptions) }

	// A WaitOption is an option for [Client.Wait]: [AwaitPut] or [OnProgress].
	WaitOption interface{ applyWait(*waitOptions) }
)

// recurOptions holds the options of a recurring job.
type recurOptions struct {
	jobopts.Options
	backlog int
	offset  time.Duration
}

// waitOptions holds the options of a wait.
type waitOptions struct {
	progress *progressNotifier // of OnProgress, or nil
	awaitPut time.Duration
	doubted  bool // messages may be about an earlier end: they only mean that it is time to ask
}

// applyOptions applies the options of a call to given, using the method of their interface.
func applyOptions[O, G any](
	op, jid string, given *G, options []O, apply func(O, *G),
) error {
	for i, option := range options {
		if any(option) == nil {
			return invalid(op, jid, "options[%d] is nil", i)
		}
		apply(option, given)
	}
	return nil
}

// checkOptions returns an error if options of a call are invalid.
func checkOptions(op, jid string, o *jobopts.Options) error { return asInvalid(op, jid, o.Check()) }

// asInvalid returns an error of an argument as an [ErrInvalid], and nil for nil.
func asInvalid(op, jid string, err error) error {
	if err == nil {
		return nil
	}
	return invalid(op, jid, "%s", err)
}

// JID is the id of a job. The default is a new random one. A jid can't be empty, nor end in
// -history, -dependents or -dependencies.
//
// An existing job with this jid is overwritten and put again, whatever its state. A running one is
// taken from its worker, and may run a second time before the first run notices. So reusing a jid
// prevents a second run only until the first has begun. [IfAbsent], [IfFinished] and [IfNotRunning]
// refuse the put instead. To put a follow-up job once, return [Next], or make the follow-up depend
// on this job ([DependsOn]).
type JID string

func (o JID) applyPut(given *jobopts.Options) { given.SetJID(string(o)) }
func (o JID) applyRecur(given *recurOptions)  { given.JID = string(o) }

// Priority is the priority of a job. Jobs with a higher priority are popped first. The default is
// 0, or the job's present priority.
//
// Among jobs with the same priority, the oldest is popped first. A queue stores both in one
// floating-point number, so a large priority leaves less precision for the age. Jobs that were put
// closer together than this may be popped in any order:
//
//	      1  1.1 µs
//	    100  142 µs
//	   1000  1.1 ms
//	1000000  1.2 s
type Priority int

func (o Priority) applyPut(given *jobopts.Options)  { given.Priority = (*int)(&o) }
func (o Priority) applyNext(given *jobopts.Options) { given.Priority = (*int)(&o) }
func (o Priority) applyRecur(given *recurOptions)   { given.Priority = (*int)(&o) }

// Retries is the number of retries before a job fails; the loss of a lock uses up one, too. The
// default is 5, or the job's present number; 0 means none.
type Retries int

func (o Retries) applyPut(given *jobopts.Options)    { given.Retries = (*int)(&o) }
func (o Retries) applyNext(given *jobopts.Options)   { given.Retries = (*int)(&o) }
func (o Retries) applyUnfail(given *jobopts.Options) { given.Retries = (*int)(&o) }
func (o Retries) applyRecur(given *recurOptions)     { given.Retries = (*int)(&o) }

// Tags are the tags of a job, in place of any others. An empty list removes all. The default is
// none, or the job's present tags.
type Tags []string

func (o Tags) applyPut(given *jobopts.Options)  { given.Tags = append([]string{}, o...) }
func (o Tags) applyNext(given *jobopts.Options) { given.Tags = append([]string{}, o...) }
func (o Tags) applyRecur(given *recurOptions)   { given.Tags = append([]string{}, o...) }

// Delay is the time until a job can be popped. The default is 0.
//
// With [DependsOn], a job waits for both the other jobs and the delay. When a job moves to another
// queue ([Next], [Job.Next]), dependencies that are all complete end the delay, as with clients in
// other languages.
type Delay time.Duration

func (o Delay) applyPut(given *jobopts.Options)  { given.Delay = (*time.Duration)(&o) }
func (o Delay) applyNext(given *jobopts.Options) { given.Delay = (*time.Duration)(&o) }

// DependsOn makes a job wait until other jobs are complete. The lists of several options are
// joined. Jobs that do not exist ([DependsOn.MustExist]) or are already complete are not waited
// for. If one of them fails, the job keeps waiting until that one is unfailed and completed, unless
// [OnFailure] says otherwise. A circle of jobs that wait for one another is [ErrInvalid]: each call
// follows up to 1000 dependencies to find one.
type DependsOn []string

func (o DependsOn) applyPut(given *jobopts.Options) {
	given.DependsOn = append(given.DependsOn, o...)
}

func (o DependsOn) applyNext(given *jobopts.Options) { o.applyPut(given) }

// MustExist refuses the put with [ErrNotFound] if one of the jobs does not exist. A complete job
// exists until the record is deleted (see [KeepFor]). In a [Queue.PutMany], each script puts all
// its jobs or none, and a job may depend on an earlier one.
func (o DependsOn) MustExist() PutOption { return mustExist(o) }

type mustExist DependsOn

func (o mustExist) applyPut(given *jobopts.Options) {
	DependsOn(o).applyPut(given)
	given.MustExist = true
}

// Backlog limits the number of missed jobs of a recurring job, after a while without a pop. The
// default, 0, puts all of them.
type Backlog int

func (o Backlog) applyRecur(given *recurOptions) { given.backlog = int(o) }

// Offset is the delay of the first job of a recurring job. The default, 0, means at once.
type Offset time.Duration

func (o Offset) applyRecur(given *recurOptions) { given.offset = time.Duration(o) }

// checkNumber returns an error unless a number is in the range that replies preserve exactly.
func checkNumber(op, jid, what string, n, least int) error {
	return asInvalid(op, jid, jobopts.CheckNumber(what, n, least))
}

// Headers are strings that travel with a job through retries, failures and other queues, such as
// the context of a trace. The maps of several options are merged.
//
// The default is none, or the job's present headers. Headers that a put or [Next] gives to an
// existing job replace all others. An empty map removes the headers of an existing job, and those
// of a [ClientConfig] or an earlier option. Keys and values must be UTF-8, with at most 8 KiB in
// all, and no key may be empty.
type Headers map[string]string

func (o Headers) applyPut(given *jobopts.Options) {
	if len(o) == 0 {
		given.Headers = nil
		given.Clear("Headers")
		return
	}
	given.Headers = jobopts.Joined(given.Headers, o)
}

func (o Headers) applyNext(given *jobopts.Options) { o.applyPut(given) }

// addNextHeaders adds the NextHeaders of the config to a job that moves to another queue.
func (j *Job) addNextHeaders(ctx context.Context, o *jobopts.Options) {
	isGiven := len(o.Headers) > 0
	if j.client.nextHeaders == nil || !isGiven && o.IsCleared("Headers") {
		return
	}
	var own map[string]string
	if !isGiven {
		own = maps.Clone(j.Headers)
	}
	all := jobopts.Joined(j.client.nextHeaders(ctx, own), o.Headers)
	if len(all) > 0 && jobopts.CheckHeaders(all) == nil {
		o.Headers = all
	}
}

// addHeaders adds the Headers of the config to a job to be put.
func (c *Client) addHeaders(ctx context.Context, p *put) error {
	if c.headers == nil || p.options.IsCleared("Headers") {
		return nil
	}
	headers, err := c.headers(ctx)
	if err != nil {
		return invalid("put", p.jid, "Headers: %s", err)
	}
	if len(headers) == 0 {
		return nil
	}
	p.options.Headers = jobopts.Joined(headers, p.options.Headers)
	return asInvalid("put", p.jid, jobopts.CheckHeaders(p.options.Headers))
}

// OnFailure is the policy of a job for failures of its dependencies ([DependsOn]), including those
// before the put. The default is [OnFailureWait], or the job's present policy.
//
// A put with an OnFailure, even with the default, also records the dependencies: see the Parents of
// [JobOptions]. Beyond some 200, dependents may learn of a failure a minute later.
type OnFailure string

const (
	// OnFailureWait keeps the job waiting until the failed job is unfailed and complete.
	OnFailureWait OnFailure = "wait"

	// OnFailureRun counts a failed job as done. When no others are pending, the job runs, with the
	// failed jobs in FailedDependencies. Unfailing one of these later has no effect on this job.
	OnFailureRun OnFailure = "run"

	// OnFailureFail fails the job too, in the group failed-dependency, and then its own dependents,
	// according to their OnFailure. Once unfailed, the job runs without waiting for anything.
	OnFailureFail OnFailure = "fail"
)

func (o OnFailure) applyPut(given *jobopts.Options) {
	if o != "" {
		given.OnFailure = &jobopts.Policy{Do: string(o)}
	}
}

func (o OnFailure) applyNext(given *jobopts.Options) { o.applyPut(given) }

// A FailedDependency is a failed job on which another one depended.
type FailedDependency struct {
	JID   string `json:"jid"`
	Group string `json:"group"`
}

// failuresOf returns failed jobs, with their groups, by jid.
func failuresOf(groups map[string]string) []FailedDependency {
	var failed []FailedDependency
	for jid, group := range groups {
		failed = append(failed, FailedDependency{JID: jid, Group: group})
	}
	slices.SortFunc(failed, func(a, b FailedDependency) int { return strings.Compare(a.JID, b.JID) })
	return failed
}

// Lifetimes are options of a put to limit how long a job is useful, counted from the put, including
// the [Delay], by the server's clock or the Clock of a [ClientConfig]. [Forever] removes one when a
// job is put again.
type (
	// StartBy is the time after the put within which a job must be popped: at least 1 ms, and longer
	// than the [Delay]. After that, no worker gets the job, not even for a retry.
	//
	// A pop or a put with a lifetime deletes expired jobs as [Job.Cancel] does, and counts them in
	// [Stats].Expired. A job on which others depend fails in the group expired-<queue> instead. The
	// option ends when the job is complete or has failed.
	StartBy time.Duration

	// TTL is the time after the put at which a job is deleted like with [StartBy], but in any state.
	// The context of a running handler ends with [ErrCanceled]. A failed job with a [KeepFailedFor] is
	// kept for that time instead.
	TTL time.Duration

	// KeepFor is how long the record of a complete job is kept, within the settings jobs-history and
	// jobs-history-count. The default is the former, or the job's present value. With 0, the job is
	// deleted on completion.
	KeepFor time.Duration

	// KeepFailedFor is how long a failed job is kept, in place of the settings jobs-failed-history and
	// jobs-failed-history-count, or [Forever]. The default is given by these, or is the job's present
	// value. With 0, a failed job is deleted at once. A job with dependents is kept.
	KeepFailedFor time.Duration

	// MaxRunTime is the time after which the context of a handler ends, with [ErrMaxRunTime]. As an
	// option of a put, it is at least 1 ms, and only workers of this package apply it. As an option
	// of [Worker.Handle], 0, the default, means the worker's, and -1 means never. The shorter of the
	// two applies.
	MaxRunTime time.Duration
)

// Forever is an unlimited time. With [KeepFailedFor], a failed job is kept until unfailed or
// canceled. With [StartBy], [TTL], [KeepFor] and [MaxRunTime], a job that is put again loses the
// option.
const Forever = jobopts.Forever

func (o StartBy) applyPut(given *jobopts.Options) {
	given.StartBy = deadline(given, "StartBy", time.Duration(o))
}

func (o TTL) applyPut(given *jobopts.Options) {
	given.TTL = deadline(given, "TTL", time.Duration(o))
}
func (o TTL) applyUnfail(given *jobopts.Options) { o.applyPut(given) }

func (o KeepFor) applyPut(given *jobopts.Options) {
	given.KeepFor = span(given, "KeepFor", time.Duration(o))
}

func (o KeepFailedFor) applyPut(given *jobopts.Options) {
	given.KeepFailedFor = (*jobopts.Span)(&o)
}

func (o MaxRunTime) applyPut(given *jobopts.Options) {
	given.MaxRunTime = span(given, "MaxRunTime", time.Duration(o))
}

// deadline returns the deadline after a time. Forever removes it from the job.
func deadline(given *jobopts.Options, name string, d time.Duration) *jobopts.Deadline {
	if d == Forever {
		given.Clear(name)
		return nil
	}
	return jobopts.After(d)
}

// span does the same for a duration.
func span(given *jobopts.Options, name string, d time.Duration) *jobopts.Span {
	if d == Forever {
		given.Clear(name)
		return nil
	}
	return (*jobopts.Span)(&d)
}

// At is the time from which a job can be popped, by the server's clock or that of a [ClientConfig].
// A past time means at once. At can't be combined with [Delay]. The zero time, and times after the
// year 9999, are [ErrInvalid].
type At time.Time

func (o At) applyPut(given *jobopts.Options) { given.At = (*time.Time)(&o) }

// longestResend is longer than the time for sending a put again.
const longestResend = time.Minute

// dropPast removes StartBy and TTL if the history has a later put than theirs, by a script that
// does not know them.
func dropPast(o *jobopts.Options, history []HistoryEntry) {
	for _, entry := range slices.Backward(history) {
		if entry.What != "put" {
			continue
		}
		if o.PutAt != 0 && entry.When.Unix() > o.PutAt.Time().Unix() {
			o.StartBy, o.TTL = nil, nil
		}
		return
	}
}

// until returns when the life of a job ends, or the zero time.
func (j *Job) until() time.Time {
	o := &j.Options
	switch {
	case j.State == StateComplete && o.KeepFor != nil:
		return earliest(o.TTL, laterBy(j.ended(), *o.KeepFor))
	case j.State == StateFailed && o.KeepFailedFor != nil && j.Failure != nil:
		return laterBy(j.Failure.When, *o.KeepFailedFor)
	case j.State == StateRunning || j.State == StateComplete || j.State == StateFailed:
		return o.TTL
	}
	return earliest(o.TTL, o.StartBy)
}

// laterBy returns the time d after t, or the zero time if t is zero or d is [Forever].
func laterBy(t time.Time, d time.Duration) time.Time {
	if t.IsZero() || d == Forever {
		return time.Time{}
	}
	return t.Add(d)
}

// earliest returns the earlier of two nonzero times.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// ended returns when the job was last complete, or the zero time if the history was not read.
func (j *Job) ended() time.Time {
	for _, entry := range slices.Backward(j.History) {
		if entry.What == "done" {
			return entry.When
		}
	}
	return time.Time{}
}

// LockTime is the duration of each lock on a job, from 1 ms to 24 h. The default is the heartbeat
// time of the queue ([Queue.SetHeartbeat]), or the job's present value. A [Worker] renews locks
// after a third of this time. Such a lock has no grace period: when it ends, the next worker can
// get the job at once.
type LockTime time.Duration

func (o LockTime) applyPut(given *jobopts.Options) { given.LockTime = (*jobopts.Span)(&o) }

// An OnLost is an option of a put: the place in the queue of a job whose lock was lost. The default
// is [OnLostFirst], or the job's present value. Jobs taken from their workers always come first.
type OnLost string

const (
	// OnLostFirst makes the job the first of the queue.
	OnLostFirst OnLost = "first"

	// OnLostLast makes the job the last of its priority, as if put now.
	OnLostLast OnLost = "last"

	// OnLostInPlace puts the job back among the jobs of its priority by when it was put or fell due.
	// The jobs of one [Queue.PutMany] may change their order.
	OnLostInPlace OnLost = "place"
)

func (o OnLost) applyPut(given *jobopts.Options) { given.SetOnLost(string(o)) }
