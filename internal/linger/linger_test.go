package linger

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A course is exchanges that take 200 microseconds each, by a clock of its own.
type course struct {
	rule Rule
	now  time.Time
}

func newCourse(pause time.Duration) *course {
	return &course{rule: New(pause), now: time.Unix(1_700_000_000, 0)}
}

// exchange makes exchanges, each some time after the one before, and returns how long the last one
// waited.
func (c *course) exchange(times int, after time.Duration, asks, full bool) (waited time.Duration) {
	for range times {
		c.now = c.now.Add(after)
		waited = c.rule.Wait(c.now, asks)
		c.now = c.now.Add(waited)
		c.rule.Began(c.now)
		c.now = c.now.Add(200 * time.Microsecond)
		c.rule.Ended(c.now, full)
	}
	return waited
}

func TestAPauseBeginsWhenExchangesFollowEachOther(t *testing.T) {
	c := newCourse(Usual)
	require.Zero(t, c.exchange(closely+1, 100*time.Microsecond, true, false), "the first ones")
	require.Equal(t, 900*time.Microsecond, c.exchange(1, 100*time.Microsecond, true, false))
	require.Equal(t, 900*time.Microsecond, c.exchange(100, 100*time.Microsecond, true, false))
	require.Equal(t, 2900*time.Microsecond, c.exchange(1, 100*time.Microsecond, false, false),
		"no job waits for outcomes")
}

func TestTheFirstJobAfterAnIdleMomentDoesNotWait(t *testing.T) {
	c := newCourse(Usual)
	c.exchange(100, 0, true, false)
	require.Zero(t, c.exchange(1, 3*time.Millisecond, true, false))
	require.Zero(t, c.exchange(closely, 0, true, false), "nor do those after it")
	require.Positive(t, c.exchange(1, 0, true, false))
}

func TestJobsTenMillisecondsApartNeverWait(t *testing.T) {
	c := newCourse(Usual)
	for range 100 {
		require.Zero(t, c.exchange(1, 10*time.Millisecond, true, false))
		require.Zero(t, c.exchange(1, 0, false, false), "nor do their outcomes")
	}
}

func TestABacklogEndsThePause(t *testing.T) {
	c := newCourse(Usual)
	c.exchange(100, 0, true, false)
	c.exchange(1, 0, true, true)
	require.Zero(t, c.exchange(1, 0, true, true))
	require.Zero(t, c.exchange(100, 0, true, true))
}

func TestThePauseCanBeLongerOrNone(t *testing.T) {
	require.Equal(t, 5*time.Millisecond, newCourse(5*time.Millisecond).exchange(100, 0, true, false))
	for _, pause := range []time.Duration{0, -1} {
		require.Zero(t, newCourse(pause).exchange(100, 0, true, false))
	}
}
