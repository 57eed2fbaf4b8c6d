package redisx

import (
	"context"
	"math/rand/v2"
	"time"
)

// Sleep waits for d. It returns false if the context ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// A Backoff returns the time to wait after a number of failures in a row: First after the first
// failure, twice as long after each further one, up to Longest. Each wait varies by up to a
// quarter, so clients that failed together do not all return at once.
type Backoff struct{ First, Longest time.Duration }

// WhileAway is the Backoff while a server is unavailable. It is short enough to notice within about
// a second that the server is back.
var WhileAway = Backoff{First: 16 * time.Millisecond, Longest: time.Second}

// After returns how long to wait after a number of failures, at least 1.
func (b Backoff) After(failures int) time.Duration {
	wait := b.Longest
	if shift := max(failures-1, 0); shift < 32 && b.First<<shift>>shift == b.First {
		wait = min(b.First<<shift, b.Longest)
	}
	return time.Duration(float64(wait) * (0.75 + rand.Float64()/2))
}

// Wait waits as long as After returns. It returns false if the context ends first.
func (b Backoff) Wait(ctx context.Context, failures int) bool {
	return Sleep(ctx, b.After(failures))
}

// Outlive returns a context with the values of another that ends some time after the other has
// ended, with a cause. It is for work that remains after a stop. The returned function ends the
// context earlier, and must be called.
func Outlive(
	ctx context.Context, d time.Duration, cause error,
) (context.Context, context.CancelCauseFunc) {
	later, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(d, func() { cancel(cause) })
		context.AfterFunc(later, func() { timer.Stop() })
	})
	return later, func(earlier error) {
		stop()
		cancel(earlier)
	}
}
