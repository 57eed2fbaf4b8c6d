package qlesstest

import (
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// A Clock stands still until moved. Only each reading is one microsecond later than the last, as on
// a server, to keep jobs in the order in which they were put.
type Clock struct {
	server *miniredis.Miniredis

	mu  sync.Mutex
	now time.Time
}

// newClock returns a clock at an arbitrary noon.
func newClock() *Clock {
	return &Clock{now: time.Date(2024, time.January, 2, 12, 0, 0, 0, time.UTC)}
}

// Now returns the time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Microsecond)
	return c.now
}

// Advance moves the clock, and lets keys on the server expire accordingly. It wakes idle workers,
// which then check for due jobs and schedules, but does not wait for them: [Drain] does.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	c.mu.Unlock()
	c.server.FastForward(d)
	for _, channel := range c.server.PubSubChannels("*x:wake:*") {
		c.server.Publish(channel, "clock")
	}
}
