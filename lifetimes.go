package qless

import (
	"slices"
	"time"

	"github.com/qless/qless-go/internal/jobopts"
)

// Lifetimes: options of a put that limit how long a job is useful. They count from the put, its
// [Delay] included, by the server's clock, or that of a [ClientConfig]. [Forever] takes one away
// from a job that is put again.
type (
	// StartBy is how long after its put a job may be given to a worker. One that has not been given
	// to any by then never is. That holds for retries as well: a job that was popped in time is not
	// popped again later. It is at least 1 ms, and longer than the [Delay].
	//
	// A job whose time is over is deleted as by [Job.Cancel], with the same events, and counted in
	// [Stats].Expired. If other jobs depend on it, it fails in the group expired-<queue> instead.
	// It is deleted by the next pop, put with a lifetime or [Client.Sweep] that finds it.
	//
	// It stays when the job is retried, or moves to another queue, and ends when the job is
	// complete or has failed: a job that is unfailed or put again has no StartBy unless the call
	// sets one.
	StartBy time.Duration

	// TTL is how long after its put a job is gone, whatever its state. A worker that runs it is
	// notified, and the context of the handler ends with [ErrCanceled]. A job that has failed and
	// has a [KeepFailedFor] lives by that instead. It is at least 1 ms, and longer than the
	// [Delay]. See [StartBy] for when such a job is deleted, and when the option ends.
	TTL time.Duration

	// KeepFor is the time for which the record of a job is kept after it is complete. The default
	// is [ConfigJobsHistory], or what the job had; that and [ConfigJobsHistoryCount] hold in any
	// case. With 0, the call that completes the job deletes it.
	KeepFor time.Duration

	// KeepFailedFor is for how long a job is kept after it has failed, or [Forever]. The default is
	// [ConfigJobsFailedHistory] and [ConfigJobsFailedHistoryCount], or what the job had. These do not
	// delete a job with this option, though it counts as one of its group. With 0, the job is deleted
	// as soon as it fails. A job that others depend on is kept.
	KeepFailedFor time.Duration

	// MaxRunTime is the time after which the context of a handler ends, with [ErrMaxRunTime]. As an
	// option of a put, it is at least 1 ms, and only workers of this package look at it. As an
	// option of [Worker.Handle], it is for one klass: 0, the default, means that of the worker, and
	// -1 means never. The smallest of those of the job, and the klass or the worker, holds.
	MaxRunTime time.Duration
)

// Forever is a time without end: with [KeepFailedFor], a failed job is kept until it is unfailed or
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

// deadline returns the deadline after a time. Forever takes it from the job.
func deadline(given *jobopts.Options, name string, d time.Duration) *jobopts.Deadline {
	if d == Forever {
		given.Clear(name)
		return nil
	}
	return jobopts.After(d)
}

// span does the same for an option that is a time.
func span(given *jobopts.Options, name string, d time.Duration) *jobopts.Span {
	if d == Forever {
		given.Clear(name)
		return nil
	}
	return (*jobopts.Span)(&d)
}

// At is when a job can be popped, by the server's clock, or that of a [ClientConfig]. If that time
// has passed, it can be popped at once. Like [Delay], with which it can't be used together, it also
// holds for a job that waits for others. The zero time, and times after the year 9999, are
// [ErrInvalid].
type At time.Time

func (o At) applyPut(given *jobopts.Options) { given.At = (*time.Time)(&o) }

// longestResend is longer than it takes until a put is no longer sent again.
const longestResend = time.Minute

// dropPast forgets StartBy and TTL if the history shows a later put than theirs: that of a script
// that knows nothing of them.
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

// laterBy returns a time some time after another one, or the zero time if that is unknown, or the
// time after it is [Forever].
func laterBy(t time.Time, d time.Duration) time.Time {
	if t.IsZero() || d == Forever {
		return time.Time{}
	}
	return t.Add(d)
}

// earliest returns the earlier of two times that are not zero.
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

// LockTime is how long each lock on a job lasts, from 1 ms to 24 h. The default is the heartbeat
// time of the queue ([Queue.SetHeartbeat]), or what the job had. [Job.Heartbeat] and the renewals
// of a [Worker] renew the lock for as long again.
//
// Such a lock has no grace period: when it ends, the job can be given to the next worker at once.
// Only then is the old worker notified. [ReceiveConfig] has a LockTime of a call.
//
// A worker renews the locks of its jobs after a third of their time. If a lock lasts for less than
// a second, a slow network or a pause of the process is enough to lose it.
type LockTime time.Duration

func (o LockTime) applyPut(given *jobopts.Options) { given.LockTime = (*jobopts.Span)(&o) }

// An OnLost is the place to which a job goes when its worker has lost its lock. It is an option of
// a put. The default is [OnLostFirst], or what the job had. It does not apply to jobs that were
// taken from their workers, which are always the first. A lost job that waits because of
// [ConfigBackoffInitialDelay] is put back as other scheduled jobs are.
type OnLost string

const (
	// OnLostFirst hands out the job before all others of its queue.
	OnLostFirst OnLost = "first"

	// OnLostLast makes the job the last of its priority, as if it had been put now. Lost together,
	// jobs keep the order in which their locks ended. A job with a [Delay] is ordered by its due
	// time.
	OnLostLast OnLost = "last"

	// OnLostInPlace puts the job back among those of its priority by when it was put or, with a
	// delay or an [At], fell due. Such a job also has that place before it is lost: a job with an
	// At in the past precedes jobs that were put since then. Jobs that were put by one
	// [Queue.PutMany] may change their order.
	OnLostInPlace OnLost = "place"
)

func (o OnLost) applyPut(given *jobopts.Options) { given.SetOnLost(string(o)) }
