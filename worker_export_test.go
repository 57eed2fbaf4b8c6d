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

// SetPrefetchWindow sets how long a job may wait for a worker that has taken it ahead.
func (w *Worker) SetPrefetchWindow(d time.Duration) { w.ahead.window = d }

// OverrunPrefetch does what happens when the jobs that were taken ahead have waited for too long.
func (w *Worker) OverrunPrefetch() {
	w.mu.Lock()
	for _, a := range w.ahead.jobs {
		a.held = time.Time{}
	}
	w.mu.Unlock()
	w.releaseOverdue()
}
