package testkit

import (
	"testing"
	"time"
)

// Patience is how long a test waits for what has to happen. It is far more than that takes, and
// less than the minute for which jobs are locked by default: it turns a hang into a failure.
const Patience = 40 * time.Second

// Soon returns what a channel gives, or fails the test when it gives nothing.
func Soon[T any](t testing.TB, what string, channel <-chan T) T {
	t.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case got := <-channel:
		return got
	case <-timer.C:
		t.Fatalf("nothing came within %s: %s", Patience, what)
		panic("unreachable")
	}
}

// Until returns when a condition holds that no event announces. It asks again and again, every
// millisecond.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(Patience); !condition(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", Patience, what)
		}
	}
}
