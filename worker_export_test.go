package qless

import "time"

// What the tests of the worker need from its inside.

// Due returns the times at which a schedule puts jobs, after last and not after now, and the
// next time after now.
func (s Schedule) Due(last, now time.Time) ([]time.Time, time.Time) {
	checked, err := newSchedule(s)
	if err != nil {
		panic(err)
	}
	return checked.due(last, now)
}

// ResolveQueues returns what patterns match among the known queues, of which some have jobs.
func ResolveQueues(patterns, known []string, ready ...string) []string {
	r := reservation{patterns: patterns}
	r.resolve(known)
	if len(r.queues) > maxReserve {
		r.limit(ready)
	}
	return r.queues
}
