// Package leases keeps locks that end unless they are renewed, without knowing what they lock: a
// [Keeper] renews each [Lease] after a third of its time, by a function, and calls another function
// when one is lost.
//
//	Track --> kept --> Take, TakeAll --> leaving --> Left
//	           |
//	           +-----> lost: it has ended, or the server did not renew it
package leases

import (
	"sync/atomic"
	"time"
)

// A Lease is a lock with a holder. It is used for one run of the holder.
type Lease[T any] struct {
	ID     string
	Holder T

	Ending atomic.Int32 // the number of calls of the holder under way that may end the lease
	Ended  atomic.Bool  // the holder has ended the lease: it is not renewed
	Lost   atomic.Bool  // the keeper has dropped the lease

	// The keeper's mutex guards these while it keeps the lease. Then they do not change.
	Until   time.Time // when it ends, by this process's clock
	Cause   error     // why the keeper dropped it
	Problem error     // why the server did not renew it, if it did not
	Expired bool      // it ended before it could be renewed

	renewAt time.Time   // when to renew it
	expiry  *time.Timer // fires when it ends
	suspect error       // why it may be lost, according to an event
	doubted time.Time   // when such an event last came, or may have been missed
}

// Extend sets the lease to end some time after the time at which it was requested.
func (l *Lease[T]) Extend(asked time.Time, lasts time.Duration) {
	l.Until = asked.Add(lasts)
	l.renewAt = asked.Add(lasts / 3)
}

// doubt makes the lease due at once: an event reports its loss, or may have been missed.
func (l *Lease[T]) doubt() {
	l.doubted, l.renewAt = time.Now(), time.Time{}
}

// renewed extends the lease by the server's answer to a renewal that was requested at the time
// asked. An event that has come since may be about a loss after the renewal.
func (l *Lease[T]) renewed(asked time.Time, lasts time.Duration) {
	l.Extend(asked, lasts)
	if asked.After(l.doubted) {
		l.suspect = nil
	} else {
		l.renewAt = time.Time{}
	}
	l.expiry.Reset(time.Until(l.Until))
}

// postpone delays the renewal by a tenth of the remaining time: the server refuses it, but the
// holder may have ended the lease without having the server's answer yet.
func (l *Lease[T]) postpone() {
	now := time.Now()
	l.renewAt = now.Add(l.Until.Sub(now) / 10)
}
