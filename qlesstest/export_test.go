package qlesstest

import "time"

// SetDrainTimeout changes how long Drain waits, and returns a function that restores it.
func SetDrainTimeout(d time.Duration) (restore func()) {
	before := drainTimeout
	drainTimeout = d
	return func() { drainTimeout = before }
}
