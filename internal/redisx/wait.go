package redisx

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Sleep waits for a time, and reports whether it did: false when the context ended first.
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

// A Backoff says how long to wait after a number of failures in a row: First after the first, twice
// as long after each further one, up to Longest. Each wait is varied by a quarter up or down, so
// that those who failed together do not come back together.
type Backoff struct{ First, Longest time.Duration }

// WhileAway is the Backoff for a server that is away. It is short enough for a server that is back
// to be noticed within about a second.
var WhileAway = Backoff{First: 16 * time.Millisecond, Longest: time.Second}

// After returns how long to wait after a number of failures, the first of which is 1.
func (b Backoff) After(failures int) time.Duration {
	wait := b.Longest
	if shift := max(failures-1, 0); shift < 32 && b.First<<shift>>shift == b.First {
		wait = min(b.First<<shift, b.Longest)
	}
	return time.Duration(float64(wait) * (0.75 + rand.Float64()/2))
}

// Wait waits as long as After says, and reports whether it did: false when the context ended first.
func (b Backoff) Wait(ctx context.Context, failures int) bool {
	return Sleep(ctx, b.After(failures))
}

// Outlive returns a context with the values of another one, that goes on for a time after the other
// has ended, and then ends with a cause. It is for what must still be done by something that was
// stopped. The function that is returned ends it earlier, and must be called.
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

// ErrGoexit is the error of a handler that ended its goroutine, by runtime.Goexit, instead of
// returning.
var ErrGoexit = errors.New("the handler ended its goroutine")
