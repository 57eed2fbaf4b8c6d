package qless

import (
	"slices"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// Lifetimes: options of a put that say how long a job is worth something. They count from the put,
// its [Delay] included, by the server's clock, or that of [WithClock]. [Forever] takes one away
// from a job that is put again.
type (
	// StartBy is how long after its put a job may be given to a worker. One that has not been given
	// to any by then never is. That holds for retries as well: a job that was popped in time is not
	// popped again later. It is at least 1 ms, and longer than the [Delay].
	//
	// A job whose time is over is deleted as by [Job.Cancel], with the same events, and counted in
	// [Stats].Expired. If other jobs depend on it, it fails in the group expired-<queue> instead. It
	// is deleted when somebody comes across it: a pop, another put with a lifetime, or
	// [Client.Sweep].
	//
	// It stays when the job is retried, or goes on to another queue, and ends when the job is complete
	// or has failed: a job that is unfailed or put again has no StartBy unless the call says so.
	StartBy time.Duration

	// TTL is how long after its put a job is gone, whatever its state. A worker that runs it is
	// notified, and the context of the handler ends with [ErrCanceled]. A job that has failed and has
	// a [KeepFailedFor] lives by that instead. It is at least 1 ms, and longer than the [Delay].
	// [StartBy] says how such a job is deleted, and when the option ends.
	TTL time.Duration

	// KeepFor is for how long the record of a job is kept after it is complete for good. The default
	// is [ConfigJobsHistory], or what the job had; that and [ConfigJobsHistoryCount] hold in any case.
	// With 0, the call that completes the job deletes it.
	KeepFor time.Duration

	// KeepFailedFor is for how long a job is kept after it has failed, or [Forever]. The default is
	// [ConfigJobsFailedHistory] and [ConfigJobsFailedHistoryCount], or what the job had. These do not
	// delete a job with this option, though it counts as one of its group. With 0, the job is deleted
	// as soon as it fails. A job that others depend on is kept.
	KeepFailedFor time.Duration

	// RunFor is how long the handler of a job may run, like MaxRunTime of [WorkerConfig]: then its
	// context ends with [ErrMaxRunTime]. The smaller of this and what the worker says counts. It is
	// at least 1 ms. Only workers of this package look at it.
	RunFor time.Duration
)

// Forever is a time without end: with [KeepFailedFor], a failed job is kept until somebody deals
// with it. With [StartBy], [TTL], [KeepFor] and [RunFor], a job that is put again loses the
// option.
const Forever = -1

func (o StartBy) applyPut(c *callOptions)       { c.startBy = (*time.Duration)(&o) }
func (o TTL) applyPut(c *callOptions)           { c.ttl = (*time.Duration)(&o) }
func (o KeepFor) applyPut(c *callOptions)       { c.keepFor = (*time.Duration)(&o) }
func (o KeepFailedFor) applyPut(c *callOptions) { c.keepFailedFor = (*time.Duration)(&o) }
func (o RunFor) applyPut(c *callOptions)        { c.runFor = (*time.Duration)(&o) }

// At is when a job can be popped, by the server's clock, or that of [WithClock]. If that time has
// passed, it can be popped at once. Like [Delay], with which it can't be used together, it also
// holds for a job that waits for others. The zero time, and times after the year 9999, are
// [ErrInvalid].
type At time.Time

func (o At) applyPut(c *callOptions) { c.at = (*time.Time)(&o) }

// minLifetime is the shortest lifetime of a job that has to be run in it.
const minLifetime = time.Millisecond

// A lifetime is an option that is a lifetime.
type lifetime struct {
	name   string
	letter string
	value  *time.Duration
	least  time.Duration
}

func (c *callOptions) lifetimes() []lifetime {
	return []lifetime{
		{"StartBy", "s", c.startBy, minLifetime},
		{"TTL", "t", c.ttl, minLifetime},
		{"KeepFor", "k", c.keepFor, 0},
		{"KeepFailedFor", "K", c.keepFailedFor, 0},
		{"RunFor", "e", c.runFor, minLifetime},
	}
}

// isSet reports whether a lifetime is given, and not taken away.
func isSet(d *time.Duration) bool { return d != nil && *d != Forever }

// checkLifetimes returns an error if a lifetime can't be used.
func (c *callOptions) checkLifetimes(op string) error {
	for _, l := range c.lifetimes() {
		if isSet(l.value) && *l.value < l.least {
			return invalid(op, c.jid, "%s(%v) is less than %v", l.name, *l.value, l.least)
		}
	}
	if c.at != nil && (c.at.IsZero() || c.at.Year() > 9999) {
		return invalid(op, c.jid, "At(%v) is no time", *c.at)
	}
	if c.delay == nil {
		return nil
	}
	if c.at != nil {
		return invalid(op, c.jid, "Delay and At can't be used together")
	}
	for _, l := range c.lifetimes()[:2] {
		if *c.delay > 0 && isSet(l.value) && *l.value <= *c.delay {
			return invalid(op, c.jid, "%s(%v) is over before the Delay of %v",
				l.name, *l.value, *c.delay)
		}
	}
	return nil
}

// storeLifetimes sets the options that are lifetimes.
func (c *callOptions) storeLifetimes(o *jobOptions) {
	seconds := func(d *time.Duration) *wire.Number {
		if !isSet(d) {
			return nil
		}
		n := wire.Number(d.Seconds())
		return &n
	}
	o.StartBy, o.TTL = seconds(c.startBy), seconds(c.ttl)
	o.KeepFor, o.KeepFailedFor = seconds(c.keepFor), seconds(c.keepFailedFor)
	o.RunFor = seconds(c.runFor)
	c.lifeEnds.store(o)
	if c.keepFailedFor != nil && *c.keepFailedFor == Forever {
		forever := wire.Number(Forever)
		o.KeepFailedFor = &forever
	}
}

// dropPast forgets StartBy and TTL if the history shows a later put than theirs: that of a script which
// knows nothing of them.
func (o *jobOptions) dropPast(history []HistoryEntry) {
	for _, entry := range slices.Backward(history) {
		if entry.What != "put" {
			continue
		}
		if o.PutAt != nil && entry.When.Unix() > o.PutAt.Time().Unix() {
			o.StartBy, o.TTL = nil, nil
		}
		return
	}
}

// applyLifetimes sets the fields of a job that show its lifetimes.
func (o *jobOptions) applyLifetimes(j *Job) {
	j.StartBy, j.GoneBy = timeOf(o.StartBy), timeOf(o.TTL)
	keep := func(n *wire.Number) *time.Duration {
		if n == nil {
			return nil
		}
		d := Forever * time.Nanosecond
		if *n >= 0 {
			d = durationOf(float64(*n))
		}
		return &d
	}
	j.KeepFor, j.KeepFailedFor = keep(o.KeepFor), keep(o.KeepFailedFor)
	if o.RunFor != nil {
		j.RunFor = max(o.RunFor.Duration(), 0)
	}
}

// droppedLifetimes returns the letters of the lifetimes that the call takes away.
func (c *callOptions) droppedLifetimes() string {
	drop := ""
	for _, l := range c.lifetimes() {
		if l.value != nil && *l.value == Forever && l.value != c.keepFailedFor {
			drop += l.letter
		}
	}
	return drop
}

// longestResend is longer than it takes until a put is no longer sent again.
const longestResend = time.Minute

// isRemembered reports whether the record of a new job certainly exists while its put may be sent
// again.
func (c *callOptions) isRemembered() bool {
	return !slices.ContainsFunc(
		[]*time.Duration{c.ttl, c.keepFor, c.keepFailedFor},
		func(d *time.Duration) bool { return isSet(d) && *d < longestResend },
	)
}

// until returns when the life of a job ends, or the zero time.
func (o *jobOptions) until(j *Job) time.Time {
	gone := timeOf(o.TTL)
	switch {
	case j.State == StateComplete && o.KeepFor != nil:
		return earliest(gone, after(j.ended(), *o.KeepFor))
	case j.State == StateFailed && o.KeepFailedFor != nil && j.Failure != nil:
		return after(j.Failure.When, *o.KeepFailedFor)
	case j.State == StateRunning || j.State == StateComplete || j.State == StateFailed:
		return gone
	}
	return earliest(gone, timeOf(o.StartBy))
}

// timeOf returns a time that is stored, or the zero time.
func timeOf(n *wire.Number) time.Time {
	if n == nil {
		return time.Time{}
	}
	return n.Time()
}

// after returns a time some seconds after another one, or the zero time if that is unknown, or the
// seconds are for ever.
func after(t time.Time, seconds wire.Number) time.Time {
	if t.IsZero() || seconds < 0 {
		return time.Time{}
	}
	return t.Add(seconds.Duration())
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
