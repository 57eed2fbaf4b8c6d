package qless

import (
	"math/rand/v2"
	"time"
)

// A Backoff returns how long a job waits before it is retried. The attempt is 1 after the first
// failure. A negative duration counts as 0.
type Backoff func(job *Job, attempt int, err error) time.Duration

// ExponentialBackoff doubles the wait with each attempt, from first up to longest. Each wait varies
// by up to a quarter, so that jobs that failed together are not retried together.
func ExponentialBackoff(first, longest time.Duration) Backoff {
	return func(_ *Job, attempt int, _ error) time.Duration {
		wait := longest
		if shift := attempt - 1; shift < 32 && first<<shift>>shift == first {
			wait = min(first<<shift, longest)
		}
		return time.Duration(float64(wait) * (0.75 + rand.Float64()/2))
	}
}

// DefaultBackoff waits about 1 s, 2 s, 4 s and so on, up to about 10 minutes.
func DefaultBackoff(job *Job, attempt int, err error) time.Duration {
	return defaultBackoff(job, attempt, err)
}

var defaultBackoff = ExponentialBackoff(time.Second, 10*time.Minute)
