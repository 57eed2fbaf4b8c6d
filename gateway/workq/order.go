package workq

import (
	"sync"
	"time"
)

// An orderKeeper keeps jobs that are scheduled for the same time in the order in which they came:
// it puts each a microsecond after the one before.
type orderKeeper struct {
	mu   sync.Mutex
	last map[string]time.Duration // by queue and time
}

// maxTimes is how many times the keeper knows.
const maxTimes = 100_000

// maxShift is how much later than asked for a job may be due.
const maxShift = 5 * time.Millisecond

func newOrderKeeper() *orderKeeper { return &orderKeeper{last: map[string]time.Duration{}} }

// shift returns by how much to shift the time of the next job in a queue.
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
