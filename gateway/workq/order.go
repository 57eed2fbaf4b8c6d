package workq

import (
	"sync"
	"time"
)

// An orderKeeper keeps jobs that are scheduled for the same time in the order in which they
// arrived: it schedules each a microsecond after the one before.
type orderKeeper struct {
	mu   sync.Mutex
	last map[string]time.Duration // by queue and time
}

// maxTimes is the maximum number of times that the keeper remembers.
const maxTimes = 100_000

// maxShift is the longest delay that the keeper adds to a job.
const maxShift = 5 * time.Millisecond

func newOrderKeeper() *orderKeeper { return &orderKeeper{last: map[string]time.Duration{}} }

// shift returns the time to add to the due time of the next job in a queue.
func (k *orderKeeper) shift(queue string, at time.Time) time.Duration {
	key := queue + " " + at.Format(time.RFC3339Nano)
	k.mu.Lock()
	defer k.mu.Unlock()
	last, known := k.last[key]
	switch {
	case !known && len(k.last) >= maxTimes:
		clear(k.last)
	case known:
		last = min(last+time.Microsecond, maxShift)
	}
	k.last[key] = last
	return last
}
