package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// whileAway calls do, which takes the server away and brings it back.
func (a *arena) whileAway(do func()) {
	a.away.Lock()
	defer a.away.Unlock()
	do()
}

// elapse waits for a time, even if the test ends.
func (a *arena) elapse(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.ctx.Done():
	}
}

// lapse returns the duration of a disturbance. Odd ones outlast locks, the grace period, and
// go-redis's timeouts for a silent server; even ones do not.
func (a *arena) lapse(i int) time.Duration {
	if i%2 == 1 {
		return lockTime + a.grace + time.Duration(a.random.Int64N(int64(lockTime/2)))
	}
	return time.Duration(a.random.Int64N(int64(lockTime)))
}

func TestRestartedServer(t *testing.T) {
	a := newArena(t, plan{
		jobs: 3_000, work: 60 * time.Millisecond, concurrency: 10, grace: time.Second, shutdown: 5 * time.Second,
		redis: []string{"--appendonly", "yes", "--appendfsync", "always"},
	})
	a.begin(a.server.Addr())
	a.disturb(8, func(i int) {
		a.whileAway(func() {
			if i%2 == 0 {
				a.server.Kill()
			}
			if i%4 == 2 {
				a.elapse(a.lapse(1))
			}
			a.server.Restart()
		})
	})
	a.verify()
}

func TestSuspendedServer(t *testing.T) {
	a := newArena(t, plan{jobs: 3_000, work: 60 * time.Millisecond, concurrency: 10, grace: time.Second, shutdown: 5 * time.Second})
	a.begin(a.server.Addr())
	a.disturb(6, func(i int) {
		a.server.Suspend()
		a.elapse(a.lapse(i))
		a.server.Resume()
	})
	a.verify()
}

func TestPausedServer(t *testing.T) {
	a := newArena(t, plan{jobs: 3_000, work: 60 * time.Millisecond, concurrency: 10, grace: time.Second, shutdown: 5 * time.Second})
	a.begin(a.server.Addr())
	a.disturb(6, func(i int) {
		lapse := a.lapse(i)
		require.NoError(t, a.rdb.Do(a.ctx, "client", "pause", lapse.Milliseconds()).Err())
		a.elapse(lapse)
	})
	a.verify()
}
