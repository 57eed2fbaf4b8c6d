package testkit

import (
	"sync"
	"time"
)

// A Clock stands still until a test moves it, except for a microsecond per reading, which keeps
// jobs in the order of their puts.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// Noon is the time when tests' clocks start.
var Noon = time.Date(2024, time.January, 2, 12, 0, 0, 0, time.UTC)

// NewClock returns a clock that starts at Noon.
func NewClock() *Clock { return &Clock{now: Noon} }

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Microsecond)
	return c.now
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
