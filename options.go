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
	// [Job.Move] or [Schedule]. The package comment lists them. A job that is put again keeps the
	// options that the new put does not give, unless an option's comment says otherwise.
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

	// A WaitOption is an option for [Client.Wait] and [Shards.Wait]: [OnProgress].
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
// -history, -dependents or -dependencies, which are names of a job's lists.
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

func (o JID) applyPut(given *jobopts.Options) { given.SetJID(string(o)) }
func (o JID) applyRecur(given *recurOptions)  { given.JID = string(o) }

// Priority is the priority of a job. Jobs with a higher priority are popped first. The default is
// 0, or the job's present priority.
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
// Negative priorities behave the same, except for -1, with 2.2 µs.
type Priority int

func (o Priority) applyPut(given *jobopts.Options)  { given.Priority = (*int)(&o) }
func (o Priority) applyNext(given *jobopts.Options) { given.Priority = (*int)(&o) }
func (o Priority) applyRecur(given *recurOptions)   { given.Priority = (*int)(&o) }

// Retries is the number of times that a job may be retried, or lost by its worker, before it fails.
// The default is 5, or the job's present number; 0 means none.
type Retries int

func (o Retries) applyPut(given *jobopts.Options)    { given.Retries = (*int)(&o) }
func (o Retries) applyNext(given *jobopts.Options)   { given.Retries = (*int)(&o) }
func (o Retries) applyUnfail(given *jobopts.Options) { given.Retries = (*int)(&o) }
func (o Retries) applyRecur(given *recurOptions)     { given.Retries = (*int)(&o) }

// Tags are the tags of a job. They replace the tags that it had; an empty list removes them. The
// default is none, or the job's present ones.
type Tags []string

func (o Tags) applyPut(given *jobopts.Options)  { given.Tags = append([]string{}, o...) }
func (o Tags) applyNext(given *jobopts.Options) { given.Tags = append([]string{}, o...) }
func (o Tags) applyRecur(given *recurOptions)   { given.Tags = append([]string{}, o...) }

// Delay is the time until a job can be popped. The default is 0; a negative delay is [ErrInvalid].
//
// A job that is also put with [DependsOn] waits for both the other jobs and the delay. When a job
// moves to another queue ([Next], [Job.Next]), the delay is ignored if there are dependencies and
// all of them are already complete: the job can be popped at once, as with clients in other
// languages.
type Delay time.Duration

func (o Delay) applyPut(given *jobopts.Options)  { given.Delay = (*time.Duration)(&o) }
func (o Delay) applyNext(given *jobopts.Options) { given.Delay = (*time.Duration)(&o) }

// DependsOn makes a job wait until other jobs are complete. If it is used twice, the lists are
// joined. Jobs that do not exist ([DependsOn.MustExist]) or are already complete are not waited
// for. If one of them fails, the job keeps waiting until that one is unfailed and completed, or
// both are canceled together, unless [OnFailure] says otherwise. A jid that no job can have ([JID])
// is [ErrInvalid], as is a circle, in which a job would wait for itself: each call follows up to
// 1000 dependencies to find one.
type DependsOn []string

func (o DependsOn) applyPut(given *jobopts.Options) {
	given.DependsOn = append(given.DependsOn, o...)
}

func (o DependsOn) applyNext(given *jobopts.Options) { o.applyPut(given) }

// MustExist refuses the put with [ErrNotFound] if one of the jobs does not exist, for instance
// because its jid is misspelled. A complete job whose record is no longer kept (see [KeepFor]) does
// not exist. In a [Queue.PutMany], each script puts all its jobs or none, and a job may depend on
// an earlier one.
func (o DependsOn) MustExist() PutOption { return mustExist(o) }

type mustExist DependsOn

func (o mustExist) applyPut(given *jobopts.Options) {
	DependsOn(o).applyPut(given)
	given.MustExist = true
}

// Backlog limits the number of missed jobs that a recurring job puts after its queue was not popped
// for a while. The default, 0, puts all of them.
type Backlog int

func (o Backlog) applyRecur(given *recurOptions) { given.backlog = int(o) }

// Offset is the delay of the first job of a recurring job. With the default, 0, it is due at once.
type Offset time.Duration

func (o Offset) applyRecur(given *recurOptions) { given.offset = time.Duration(o) }

// checkNumber returns an error unless a number is in the range that replies preserve exactly.
func checkNumber(op, jid, what string, n, least int) error {
	return asInvalid(op, jid, jobopts.CheckNumber(what, n, least))
}

// Headers are strings that travel with a job through retries, failures and other queues, such as
// the context of a trace. Handlers find them in the Headers of [Job]. If the option is used several
// times, the maps are merged.
//
// The default is none, or the job's present ones. Headers that a put or [Next] gives to an existing
// job replace all that it had. An empty map removes the headers of an existing job, and those of a
// [ClientConfig] or an earlier option. Keys and values must be UTF-8, no key may be empty, and all
// of them together may have at most 8 KiB; otherwise the error is [ErrInvalid].
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

// addNextHeaders adds the NextHeaders of the config to a job that moves to its next queue.
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

// OnFailure decides what happens to a job when a job that it waits for ([DependsOn]) fails, by
// [Job.Fail] and the like or because it has no retries left, or has already failed when the job is
// put. The default is [OnFailureWait], or the job's present policy.
//
// A put with an OnFailure, even with the default, also records which jobs it waits for: see the
// Parents of [JobOptions].
//
// One call notifies about 200 dependents of a failure. A worker and [Client.End] notify further
// ones at once. After any other call, they are notified by later calls: every call that completes a
// job, each running worker once a minute, and [Client.Sweep].
//
// If a client with another script fails a job, its dependents keep waiting until [Client.Sweep] is
// called.
type OnFailure string

const (
	// OnFailureWait keeps the job waiting until the failed job is unfailed and complete.
	OnFailureWait OnFailure = "wait"

	// OnFailureRun counts a failed job as done. When no others are pending, the job runs, with the
	// failed ones in its FailedDependencies. Unfailing one of these later has no effect on this job.
	OnFailureRun OnFailure = "run"

	// OnFailureFail fails the job too, in the group failed-dependency, and then the jobs that wait for
	// it, according to their own OnFailure. When the job is unfailed, it runs without waiting for
	// anything.
	OnFailureFail OnFailure = "fail"
)

func (o OnFailure) applyPut(given *jobopts.Options) {
	if o != "" {
		given.OnFailure = &jobopts.Policy{Do: string(o)}
	}
}

func (o OnFailure) applyNext(given *jobopts.Options) { o.applyPut(given) }

// A FailedDependency is a job that another one waited for and that has failed.
type FailedDependency struct {
	JID   string `json:"jid"`
	Group string `json:"group"`
}

// failuresOf returns jobs that have failed, with their groups, by jid.
func failuresOf(groups map[string]string) []FailedDependency {
	var failed []FailedDependency
	for jid, group := range groups {
		failed = append(failed, FailedDependency{JID: jid, Group: group})
	}
	slices.SortFunc(failed, func(a, b FailedDependency) int { return strings.Compare(a.JID, b.JID) })
	return failed
}
