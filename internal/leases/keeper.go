package leases

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// A Keeper keeps leases, by ID.
type Keeper[T any] struct {
	config Config[T]
	due    chan struct{} // has room for one: a lease may be due earlier than the keeper knows

	mu      sync.Mutex
	leases  map[string]*Lease[T]
	leaving map[*Lease[T]]bool // taken, but not reported yet
	closed  bool               // no more leases are accepted
	next    time.Time          // when the keeper checks again unless notified
}

// NewKeeper returns a keeper without leases.
func NewKeeper[T any](config Config[T]) *Keeper[T] {
	return &Keeper[T]{
		config: config, due: make(chan struct{}, 1),
		leases: map[string]*Lease[T]{}, leaving: map[*Lease[T]]bool{},
	}
}

// A Config configures a keeper. All fields are required.
type Config[T any] struct {
	// Renew renews leases. It returns an answer for each, in order.
	Renew func(ctx context.Context, ids []string) ([]Renewal, error)

	// IsOfOne reports whether a single one of several leases may have caused an error of Renew. They
	// are then renewed one by one.
	IsOfOne func(err error) bool

	// Failed is called with the number of leases that could not be renewed.
	Failed func(leases int, err error)

	// Backoff returns how long to wait after a number of consecutive failures.
	Backoff func(failures int) time.Duration

	// Cause returns the cause of a lost lease from the problem of its renewal, which is nil for an
	// ended lease.
	Cause func(problem error) error

	// Lost is called with the holder of each lost lease, except for leases lost by TakeAll and Track,
	// which return the holders. The keeper's mutex is not held.
	Lost func(holder T)
}

// A Renewal is the server's answer for one lease.
type Renewal struct {
	Lasts   time.Duration // counted from the request
	Problem error         // why the lease was not renewed; nil if it was
}

// renewBatch is the maximum number of leases to renew together.
const renewBatch = 500

// notify makes the keeper check for due leases.
func (k *Keeper[T]) notify() {
	select {
	case k.due <- struct{}{}:
	default:
	}
}

// Track begins to keep a lease. If an earlier lease with the same ID is still tracked, Track
// returns its holder: the server would not grant a new lease before the end of the earlier one. ok
// is false if the keeper accepts no more leases.
func (k *Keeper[T]) Track(l *Lease[T]) (replaced T, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return replaced, false
	}
	if old := k.leases[l.ID]; old != nil {
		k.drop(old, k.config.Cause(nil))
		replaced = old.Holder
	}
	l.expiry = time.AfterFunc(time.Until(l.Until), func() { k.expire(l) })
	k.leases[l.ID] = l
	if l.renewAt.Before(k.next) {
		k.notify()
	}
	return replaced, true
}

// drop stops keeping a lease. The mutex is held.
func (k *Keeper[T]) drop(l *Lease[T], cause error) {
	delete(k.leases, l.ID)
	l.Cause = cause
	l.Lost.Store(true)
	l.expiry.Stop()
}

// Take removes a lease when its holder is done, and reports whether the lease is still held. If so,
// the lease counts as leaving until Left is called.
func (k *Keeper[T]) Take(l *Lease[T]) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	l.expiry.Stop()
	if k.leases[l.ID] != l {
		return false
	}
	delete(k.leases, l.ID)
	k.leaving[l] = true
	return true
}

// Left records that the end of a taken lease was reported.
func (k *Keeper[T]) Left(l *Lease[T]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.leaving, l)
}

// TakeAll removes all leases as lost, and accepts no more. They count as leaving.
func (k *Keeper[T]) TakeAll(cause error) []T {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	all := k.holders()
	for _, l := range k.leases {
		k.drop(l, cause)
		k.leaving[l] = true
	}
	return all
}

// IsEmpty reports whether no lease is held or leaving.
func (k *Keeper[T]) IsEmpty() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.leases)+len(k.leaving) == 0
}

// Holders returns the holders of the leases.
func (k *Keeper[T]) Holders() []T {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.holders()
}

// holders returns the holders of the leases. The mutex is held.
func (k *Keeper[T]) holders() []T {
	all := make([]T, 0, len(k.leases))
	for _, l := range k.leases {
		all = append(all, l.Holder)
	}
	return all
}

// Holds reports whether a lease is held or leaving.
func (k *Keeper[T]) Holds(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for l := range k.leaving {
		if l.ID == id {
			return true
		}
	}
	return k.leases[id] != nil
}

// Suspect renews a lease at once, because an event reports its loss. The event may be about an
// earlier lease with the same ID, so the server must decide.
func (k *Keeper[T]) Suspect(id string, cause error) {
	k.mu.Lock()
	if l, ok := k.leases[id]; ok {
		l.suspect = cause
		l.doubt()
	}
	k.mu.Unlock()
	k.notify()
}

// SuspectAll renews all leases at once, to learn which are still held.
func (k *Keeper[T]) SuspectAll() {
	k.mu.Lock()
	for _, l := range k.leases {
		l.doubt()
	}
	k.mu.Unlock()
	k.notify()
}

// Run renews leases until the context ends.
func (k *Keeper[T]) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	failures := 0
	for {
		select {
		case <-k.due:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		due, next := k.dueLeases()
		if len(due) > 0 {
			if k.renew(ctx, due) {
				failures = 0
				if due, next = k.dueLeases(); len(due) > 0 {
					next = 0 // the answer was slow
				}
			} else {
				failures++
				next = k.config.Backoff(failures)
			}
		}
		timer.Reset(next)
	}
}

// dueLeases returns the leases due for renewal now or soon, and the time until the next one.
func (k *Keeper[T]) dueLeases() ([]*Lease[T], time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	next := time.Hour
	var due []*Lease[T]
	for _, l := range k.leases {
		left := l.renewAt.Sub(now)
		switch {
		case l.Ended.Load():
		case left <= l.Until.Sub(l.renewAt)/20:
			due = append(due, l)
		default:
			next = min(next, left)
		}
	}
	k.next = now.Add(next)
	return due, next
}

// renew renews leases, and reports whether all calls succeeded.
func (k *Keeper[T]) renew(ctx context.Context, due []*Lease[T]) bool {
	for batch := range slices.Chunk(due, renewBatch) {
		err := k.renewTogether(ctx, batch)
		if err != nil && len(batch) > 1 && k.config.IsOfOne(err) {
			err = k.renewEach(ctx, batch)
		}
		if err != nil {
			k.config.Failed(len(batch), err)
			return false
		}
	}
	return true
}

// renewTogether renews leases with one call.
func (k *Keeper[T]) renewTogether(ctx context.Context, batch []*Lease[T]) error {
	ids := make([]string, len(batch))
	for i, l := range batch {
		ids[i] = l.ID
	}
	asked := time.Now()
	renewals, err := k.config.Renew(ctx, ids)
	if err == nil {
		k.renewed(batch, renewals, asked)
	}
	return err
}

// renewEach renews leases one by one, and returns the last error.
func (k *Keeper[T]) renewEach(ctx context.Context, batch []*Lease[T]) (failed error) {
	for _, l := range batch {
		if err := k.renewTogether(ctx, []*Lease[T]{l}); err != nil {
			failed = err
		}
	}
	return failed
}

// renewed handles the server's answers to renewals requested at the time asked.
func (k *Keeper[T]) renewed(batch []*Lease[T], renewals []Renewal, asked time.Time) {
	var lost []*Lease[T]
	k.mu.Lock()
	for i, l := range batch {
		renewal := renewals[i]
		switch {
		case k.leases[l.ID] != l:
		case renewal.Problem == nil:
			l.renewed(asked, renewal.Lasts)
		case l.Ending.Load() > 0:
			l.postpone()
		case !l.Ended.Load():
			l.Problem = renewal.Problem
			k.drop(l, cmp.Or(l.suspect, k.config.Cause(l.Problem)))
			lost = append(lost, l)
		}
	}
	k.mu.Unlock()
	for _, l := range lost {
		k.config.Lost(l.Holder)
	}
}

// expire drops a lease that has ended because renewal failed.
func (k *Keeper[T]) expire(l *Lease[T]) {
	k.mu.Lock()
	expired := k.leases[l.ID] == l && !l.Ended.Load() && !time.Now().Before(l.Until)
	if expired {
		l.Expired = true
		k.drop(l, k.config.Cause(nil))
	}
	k.mu.Unlock()
	if expired {
		k.config.Lost(l.Holder)
	}
}
