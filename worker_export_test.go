package qless

import "time"

// Internals that the tests of the worker need.

// Due returns the times in (last, now] at which a schedule puts jobs, the next time after now, and
// how many times get no job.
func (s Schedule) Due(last, now time.Time) ([]time.Time, time.Time, int) {
	checked, err := newSchedule(s)
	if err != nil {
		panic(err)
	}
	return checked.due(last, now)
}

// ResolveQueues returns the known queues that patterns match. The ready queues have jobs.
func ResolveQueues(patterns, known []string, ready ...string) []string {
	r := reservation{patterns: patterns}
	r.resolve(known)
	if len(r.queues) > maxReserve {
		r.limit(ready)
	}
	return r.queues
}

// SetPrefetchWindow sets how long a job may wait for a worker that has taken it ahead.
func (w *Worker) SetPrefetchWindow(d time.Duration) { w.ahead.window = d }
