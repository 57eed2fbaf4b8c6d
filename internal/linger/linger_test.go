package linger

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A course is a series of exchanges of 200 microseconds each, by its own clock.
type course struct {
	rule Rule
	now  time.Time
}

func newCourse(pause time.Duration) *course {
	return &course{rule: New(pause), now: time.Unix(1_700_000_000, 0)}
}

// exchange makes an exchange some time after the previous one. It brings some jobs or, with none,
// only reports outcomes. exchange returns how long it waited.
func (c *course) exchange(after time.Duration, jobs int) time.Duration {
	return c.exchanges(1, after, jobs, false)
}

// exchanges makes several exchanges, and returns how long the last one waited.
func (c *course) exchanges(
	times int, after time.Duration, jobs int, backlog bool,
) (waited time.Duration) {
	for range times {
		c.now = c.now.Add(after)
		waited = c.rule.Wait(c.now, jobs > 0)
		c.now = c.now.Add(waited)
		c.rule.Began(c.now)
		c.now = c.now.Add(200 * time.Microsecond)
		c.rule.Ended(c.now, jobs, backlog)
	}
	return waited
}

const soon = 100 * time.Microsecond

func TestAPauseBeginsWhenExchangesFollowEachOther(t *testing.T) {
	c := newCourse(Usual)
	require.Zero(t, c.exchanges(closely+1, soon, 10, false), "the first ones")
	require.Equal(t, Usual-soon, c.exchange(soon, 10))
	require.Equal(t, Usual-soon, c.exchanges(100, soon, 3, false))
	require.Equal(t, patience*Usual-soon, c.exchange(soon, 0), "no job waits for outcomes")
}

// Two thousand jobs a second come one by one, and a pause would hardly cover two. Their outcomes
// wait for the next request.
func TestAJobDoesNotWaitForFewOthers(t *testing.T) {
	c := newCourse(Usual)
	for range 100 {
		require.Zero(t, c.exchange(300*time.Microsecond, 1))
	}
	require.Equal(t, patience*Usual-soon, c.exchange(soon, 0))
	c.exchanges(2*smoothing, soon, 8, false)
	require.Positive(t, c.exchange(soon, 8), "now there are more")
	c.exchanges(2*smoothing, 300*time.Microsecond, 1, false)
	require.Zero(t, c.exchange(soon, 1), "now there are few again")
}

func TestTheFirstJobAfterAnIdleMomentDoesNotWait(t *testing.T) {
	c := newCourse(Usual)
	c.exchanges(100, 0, 10, false)
	require.Zero(t, c.exchange(patience*Usual, 10))
	require.Zero(t, c.exchanges(closely, 0, 10, false), "nor do those after it")
	require.Positive(t, c.exchange(0, 10))
}

func TestJobsTenMillisecondsApartNeverWait(t *testing.T) {
	c := newCourse(Usual)
	for range 100 {
		require.Zero(t, c.exchange(10*time.Millisecond, 1))
		require.Zero(t, c.exchange(0, 0), "nor do their outcomes")
	}
}

func TestABacklogEndsThePause(t *testing.T) {
	c := newCourse(Usual)
	c.exchanges(100, 0, 10, false)
	c.exchanges(1, 0, 10, true)
	require.Zero(t, c.exchanges(100, 0, 10, true))
}

func TestThePauseCanBeLongerOrNone(t *testing.T) {
	require.Equal(t, 5*time.Millisecond, newCourse(5*time.Millisecond).exchanges(100, 0, 3, false),
		"with a longer one, fewer jobs are worth it")
	for _, pause := range []time.Duration{0, -1} {
		require.Zero(t, newCourse(pause).exchanges(100, 0, 10, false))
	}
}
