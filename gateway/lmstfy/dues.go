package lmstfy

import (
	"sync"
	"time"
)

// dues are the queues with pending ends of delays or times to run. Sweeping these queues in time
// makes jobs ready in the order of their due times.
type dues struct {
	mu     sync.Mutex
	queues map[string]span
}

// The intervals between sweeps of queues with something due, and of some of all known queues.
const (
	sweepInterval    = 250 * time.Millisecond
	sweepAllInterval = time.Second
)

// maxSwept is the maximum number of queues in a sweep.
const maxSwept = 1000

// A span holds the first and the last due time.
type span struct{ next, last time.Time }

func newDues() *dues { return &dues{queues: map[string]span{}} }

// add notes that something is due in a queue.
func (d *dues) add(queue string, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, known := d.queues[queue]
	if !known || at.Before(s.next) {
		s.next = at
	}
	if at.After(s.last) {
		s.last = at
	}
	d.queues[queue] = s
}

// take returns at most maxSwept queues with something due. It forgets queues without later due
// times.
func (d *dues) take(now time.Time) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var due []string
	for queue, s := range d.queues {
		if s.next.After(now) || len(due) == maxSwept {
			continue
		}
		due = append(due, queue)
		if s.last.Before(now.Add(-time.Second)) {
			delete(d.queues, queue)
			continue
		}
		s.next = now.Add(sweepInterval)
		d.queues[queue] = s
	}
	return due
}
