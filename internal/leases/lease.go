// Package leases keeps expiring locks of any kind: a [Keeper] calls a function to renew each
// [Lease] after a third of its time, and another function when a lease is lost.
//
//	Track --> kept --> Take, TakeAll --> leaving --> Left
//	           |
//	           +-----> lost: it has ended, or the server did not renew it
package leases

import (
	"sync/atomic"
	"time"
)

// A Lease is a lock with a holder, for one run of the holder.
type Lease[T any] struct {
	ID     string
	Holder T

	Ending atomic.Int32 // the holder's calls under way that may end the lease
	Ended  atomic.Bool  // the holder has ended the lease: no renewal
	Lost   atomic.Bool  // the keeper has dropped the lease

	// The keeper's mutex guards these fields while the lease is kept. Afterwards they do not change.
	Until   time.Time // the expiry by this process's clock
	Cause   error     // why the keeper dropped the lease
	Problem error     // why the server refused a renewal, if so
	Expired bool      // the lease ended before a renewal

	renewAt time.Time   // when to renew the lease
	expiry  *time.Timer // fires at the expiry
	suspect error       // why the lease may be lost, according to an event
	doubted time.Time   // when such an event last came, or may have been missed
}

// Extend sets the lease to end some time after the time of the request.
func (l *Lease[T]) Extend(asked time.Time, lasts time.Duration) {
	l.Until = asked.Add(lasts)
	l.renewAt = asked.Add(lasts / 3)
}

// doubt makes the lease due at once: an event reports its loss, or may have been missed.
func (l *Lease[T]) doubt() {
	l.doubted, l.renewAt = time.Now(), time.Time{}
}

// renewed extends the lease by the server's answer to a renewal requested at the time asked. An
// event since then may be about a loss after the renewal.
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
// holder may have ended the lease and may not have the answer yet.
func (l *Lease[T]) postpone() {
	now := time.Now()
	l.renewAt = now.Add(l.Until.Sub(now) / 10)
}
