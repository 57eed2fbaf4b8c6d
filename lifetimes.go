package qless

import (
	"slices"
	"time"

	"github.com/qless/qless-go/internal/jobopts"
)

// Lifetimes are options of a put that limit how long a job is useful. They count from the put,
// including its [Delay], by the server's clock or that of a [ClientConfig]. [Forever] removes one
// from a job that is put again.
type (
	// StartBy is the time after its put within which a job must be popped. After that, no worker gets
	// it. This includes retries: a job that was popped in time is not popped again later. It is at
	// least 1 ms, and longer than the [Delay].
	//
	// An expired job is deleted as by [Job.Cancel], with the same events, and counted in
	// [Stats].Expired. If other jobs depend on it, it fails in the group expired-<queue> instead. It
	// is deleted by the next pop, put with a lifetime or [Client.Sweep] that finds it.
	//
	// The option stays when the job is retried or moves to another queue, and ends when the job is
	// complete or has failed: a job that is unfailed or put again has no StartBy unless the call sets
	// one.
	StartBy time.Duration

	// TTL is the time after its put at which a job is deleted, whatever its state. A worker that runs
	// it is notified, and the context of the handler ends with [ErrCanceled]. For a failed job with a
	// [KeepFailedFor], that applies instead. It is at least 1 ms, and longer than the [Delay]. See
	// [StartBy] for when an expired job is deleted, and when the option ends.
	TTL time.Duration

	// KeepFor is how long the record of a job is kept after it is complete. The default is
	// [ConfigJobsHistory], or the job's present value. That setting and [ConfigJobsHistoryCount] apply
	// in any case. With 0, the call that completes the job deletes it.
	KeepFor time.Duration

	// KeepFailedFor is how long a job is kept after it has failed, or [Forever]. The default is given
	// by the settings [ConfigJobsFailedHistory] and [ConfigJobsFailedHistoryCount], or is the job's
	// present value. The settings do not delete a job with this option, though it counts as one of its
	// group. With 0, the job is deleted as soon as it fails. A job that others depend on is kept.
	KeepFailedFor time.Duration

	// MaxRunTime is the time after which the context of a handler ends, with [ErrMaxRunTime]. As an
	// option of a put, it is at least 1 ms, and only workers of this package apply it. As an option of
	// [Worker.Handle], it applies to one klass: 0, the default, means the worker's, and -1 means
	// never. If the job has one, too, the shorter time applies.
	MaxRunTime time.Duration
)

// Forever is an unlimited time. With [KeepFailedFor], a failed job is kept until it is unfailed or
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
// If it has passed, the job can be popped at once. Like [Delay], with which it can't be combined,
// it also applies to a job that waits for others. The zero time, and times after the year 9999, are
// [ErrInvalid].
type At time.Time

func (o At) applyPut(given *jobopts.Options) { given.At = (*time.Time)(&o) }

// longestResend is longer than the time during which a put may be sent again.
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
		return earliest(o.GoneBy, laterBy(j.ended(), *o.KeepFor))
	case j.State == StateFailed && o.KeepFailedFor != nil && j.Failure != nil:
		return laterBy(j.Failure.When, *o.KeepFailedFor)
	case j.State == StateRunning || j.State == StateComplete || j.State == StateFailed:
		return o.GoneBy
	}
	return earliest(o.GoneBy, o.StartBy)
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

// ended returns when the job was last complete, or the zero time if its history was not read.
func (j *Job) ended() time.Time {
	for _, entry := range slices.Backward(j.History) {
		if entry.What == "done" {
			return entry.When
		}
	}
	return time.Time{}
}

// LockTime is the duration of each lock on a job, from 1 ms to 24 h. The default is the heartbeat
// time of the queue ([Queue.SetHeartbeat]), or the job's present value. [Job.Heartbeat] and the
// renewals of a [Worker] extend the lock by the same duration.
//
// Such a lock has no grace period: when it ends, the next worker can get the job at once, and only
// then is the old worker notified. [ReceiveConfig] has a LockTime for a single call.
//
// A worker renews the locks of its jobs after a third of their time. If a lock lasts for less than
// a second, a slow network or a pause of the process is enough to lose it.
type LockTime time.Duration

func (o LockTime) applyPut(given *jobopts.Options) { given.LockTime = (*jobopts.Span)(&o) }

// An OnLost is the place in its queue to which a job returns when its worker has lost the lock. It
// is an option of a put. The default is [OnLostFirst], or the job's present value. It does not
// apply to jobs that were taken from their workers, which always come first. A lost job that waits
// because of [ConfigBackoffInitialDelay] is put back as other scheduled jobs are.
type OnLost string

const (
	// OnLostFirst makes the job the first of its queue.
	OnLostFirst OnLost = "first"

	// OnLostLast makes the job the last of its priority, as if it had been put now. Jobs that are lost
	// together keep the order in which their locks ended. A job with a [Delay] is ordered by its due
	// time.
	OnLostLast OnLost = "last"

	// OnLostInPlace puts the job back among those of its priority by when it was put or, with a
	// delay or an [At], fell due. Such a job also has that place before it is lost: a job with an
	// At in the past precedes jobs that were put since then. Jobs that were put by one
	// [Queue.PutMany] may change their order.
	OnLostInPlace OnLost = "place"
)

func (o OnLost) applyPut(given *jobopts.Options) { given.SetOnLost(string(o)) }
