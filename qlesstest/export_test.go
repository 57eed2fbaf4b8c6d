package qlesstest

import "time"

// SetNow changes the time used by Drain for waiting, and returns a function that restores it.
func SetNow(f func() time.Time) (restore func()) {
	before := now
	now = f
	return func() { now = before }
}

// SetDrainTimeout changes how long Drain waits, and returns a function that restores it.
func SetDrainTimeout(d time.Duration) (restore func()) {
	before := drainTimeout
	drainTimeout = d
	return func() { drainTimeout = before }
}
