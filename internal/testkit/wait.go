package testkit

import (
	"testing"
	"time"
)

// Patience limits how long a test waits for an event. Any event takes far less time, and jobs are
// locked for longer by default, a minute: the limit turns a hang into a failure.
const Patience = 40 * time.Second

// Soon returns a value from a channel, or fails the test if no value arrives.
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

// Until waits for a condition without an event. It polls every millisecond.
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
