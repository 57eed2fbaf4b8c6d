package qless

import (
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// LockTime is how long each lock on a job lasts, from 1 ms to 24 h. The default is the heartbeat
// time of the queue ([Queue.SetHeartbeat]), or what the job had. [Job.Heartbeat] and the renewals
// of a [Worker] renew the lock for as long again.
//
// Such a lock has no grace period: when it ends, the job can be given to the next worker at once.
// Only then is the old worker notified.
//
// As an option of [Queue.Pop], it is how long the locks last that this call takes, whatever the
// jobs and the queue say. It may be 0 there, and holds until a heartbeat renews the lock.
//
// A worker renews the locks of its jobs after a third of their time. If a lock lasts for less than
// a second, a slow network or a pause of the process is enough to lose it.
type LockTime time.Duration

func (o LockTime) applyPut(c *callOptions) { c.lockTime = (*time.Duration)(&o) }
func (o LockTime) applyPop(c *callOptions) { c.lockTime = (*time.Duration)(&o) }

// The limits of [LockTime].
const (
	minLockTime = time.Millisecond
	maxLockTime = 24 * time.Hour
)

// A Place is where a job goes when its worker has lost its lock: see [OnLost].
type Place string

// The places of lost jobs.
const (
	// First hands out the job before all others of its queue. It is the default.
	First Place = "first"

	// Last makes the job the last of its priority, as if it had been put now. Lost together, jobs
	// keep the order in which their locks ended. One with a [Delay] comes by when it fell due.
	Last Place = "last"

	// InPlace puts the job back among those of its priority by when it was put or, with a delay or
	// an [At], fell due. Such a job also has that place before it is lost: a job with an At in the
	// past precedes those that were put since then. Jobs that were put by one [Queue.PutMany] may
	// change their order.
	InPlace Place = "place"
)

// OnLost is where a job goes when its worker has lost its lock, as in OnLost([Last]). The default
// is [First], or what the job had. It says nothing of jobs that are timed out ([Job.Timeout]),
// which are always the first. A lost job that waits because of [ConfigBackoffInitialDelay] is put
// back as other scheduled jobs are.
type OnLost Place

func (o OnLost) applyPut(c *callOptions) { c.onLost = (*Place)(&o) }

// checkLock returns an error if the options about locks can't be stored.
func (c *callOptions) checkLock(op string) error {
	if d := c.lockTime; d != nil && (*d < minLockTime || *d > maxLockTime) {
		return invalid(op, c.jid, "the lock time %v is not from %v to %v", *d, minLockTime, maxLockTime)
	}
	if p := c.onLost; p != nil && *p != First && *p != Last && *p != InPlace {
		return invalid(op, c.jid, "OnLost(%q) is not First, Last or InPlace", string(*p))
	}
	return nil
}

// storeLock sets the options about locks.
func (c *callOptions) storeLock(o *jobOptions) {
	if c.lockTime != nil {
		o.LockTime = wire.Number(c.lockTime.Seconds())
	}
	if c.onLost != nil && *c.onLost != First {
		o.OnLost = *c.onLost
	}
}

// popOptions checks the options of a pop, and returns the arguments for them.
func popOptions(options []PopOption) ([]any, error) {
	var c callOptions
	if err := applyOptions("pop", &c, options, PopOption.applyPop); err != nil {
		return nil, err
	}
	if c.lockTime == nil {
		return nil, nil
	}
	if *c.lockTime != 0 {
		if err := c.checkLock("pop"); err != nil {
			return nil, err
		}
	}
	return []any{wire.FormatSeconds(*c.lockTime)}, nil
}
