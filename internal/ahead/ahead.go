// Package ahead holds a worker's prefetched jobs, and limits their number. It treats jobs as mere
// values.
package ahead

import (
	"slices"
	"time"
)

// Usual is the default maximum number of prefetched jobs. More would not make a job cheaper, but
// leave more jobs waiting for lock expiry when a worker dies.
const Usual = 16

// window is how long a prefetched job may wait for the worker. A worker prefetches as many jobs as
// it can run in half that time.
const window = 20 * time.Millisecond

// enough is the number of handlers to time before prefetching.
const enough = 8

// respite is the number of handlers to run after a refusal before jobs are wanted again.
const respite = 32

// A Queue holds prefetched jobs, first in, first out. It is not safe for concurrent use.
type Queue[J comparable] struct {
	Window time.Duration // how long a job may wait; set by New

	limit   int
	overdue func()
	jobs    []held[J]
	armed   bool // overdue is due to be called
	timed   int  // the number of handlers timed, up to enough
	mean    time.Duration
	respite int // the number of handlers to run before more jobs are wanted
}

type held[J any] struct {
	job   J
	since time.Time
}

// New returns a queue of at most limit jobs. overdue is called, in a goroutine of its own, when the
// first job may have waited for too long.
func New[J comparable](limit int, overdue func()) *Queue[J] {
	return &Queue[J]{Window: window, limit: limit, overdue: overdue}
}

// Ran records how long a handler ran.
func (q *Queue[J]) Ran(d time.Duration) {
	q.timed = min(q.timed+1, enough)
	q.mean += (d - q.mean) / time.Duration(q.timed)
	q.respite = max(0, q.respite-1)
}

// Refused records that the server has jobs, but none to prefetch, perhaps because of limits.
func (q *Queue[J]) Refused() { q.respite = respite }

// Long returns how long a handler runs before it may keep its slot busy.
func (q *Queue[J]) Long() time.Duration { return q.Window / 2 }

// Wanted returns the number of jobs to prefetch, given the number of slots, except for slots with
// handlers that have run for longer than Long. More jobs are wanted once half are used up.
func (q *Queue[J]) Wanted(slots int) int {
	long := q.Long()
	if q.limit == 0 || q.timed < enough || q.respite > 0 || q.mean > long {
		return 0
	}
	n := min(q.limit, int(long*time.Duration(max(0, slots))/max(q.mean, 1)))
	if len(q.jobs) > n/2 {
		return 0
	}
	return n - len(q.jobs)
}

// Len returns the number of prefetched jobs.
func (q *Queue[J]) Len() int { return len(q.jobs) }

// Push adds a job.
func (q *Queue[J]) Push(job J) {
	q.jobs = append(q.jobs, held[J]{job, time.Now()})
	q.arm()
}

// arm arranges a call of overdue when the first job has waited for the whole window.
func (q *Queue[J]) arm() {
	if !q.armed && len(q.jobs) > 0 {
		q.armed = true
		time.AfterFunc(time.Until(q.jobs[0].since.Add(q.Window)), q.overdue)
	}
}

// Pop removes and returns the first job, if any.
func (q *Queue[J]) Pop() (job J, ok bool) {
	if len(q.jobs) == 0 {
		return job, false
	}
	job = q.jobs[0].job
	q.jobs = q.jobs[1:]
	return job, true
}

// Remove removes a job.
func (q *Queue[J]) Remove(job J) {
	q.jobs = slices.DeleteFunc(q.jobs, func(h held[J]) bool { return h.job == job })
}

// TakeAll removes and returns all jobs.
func (q *Queue[J]) TakeAll() []J {
	all := make([]J, len(q.jobs))
	for i, h := range q.jobs {
		all[i] = h.job
	}
	q.jobs = nil
	return all
}

// TakeOverdue removes and returns all jobs if the first is overdue. Then no more jobs are wanted
// until some handlers have been timed.
func (q *Queue[J]) TakeOverdue() []J {
	q.armed = false
	if len(q.jobs) == 0 || time.Since(q.jobs[0].since) < q.Window {
		q.arm()
		return nil
	}
	q.timed, q.mean = 0, 0
	return q.TakeAll()
}
