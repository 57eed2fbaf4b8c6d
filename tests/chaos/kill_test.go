package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Killed processes do not outlive their locks, so no grace period is needed.
func TestKilledWorkers(t *testing.T) {
	const kills = 25
	a := newArena(t, plan{jobs: 20_000, work: 20 * time.Millisecond, concurrency: 10, shutdown: 5 * time.Second})
	a.begin(a.server.Addr())
	a.disturb(kills, func(int) { a.replaceAny(a.kill) })
	cost := a.verify()
	// A killed process holds only jobs that were running, about to run, or just ended.
	assert.LessOrEqual(t, cost.timedOut, kills*3*a.concurrency, "locks that ended")
	assert.Positive(t, cost.timedOut, "locks that ended")
}

// The same holds for processes that receive their jobs and renew the locks themselves.
func TestKilledReceivers(t *testing.T) {
	const kills = 10
	a := newArena(t, plan{jobs: 4_000, work: 20 * time.Millisecond, concurrency: 10, shutdown: 5 * time.Second, receive: true})
	a.begin(a.server.Addr())
	a.disturb(kills, func(int) { a.replaceAny(a.kill) })
	cost := a.verify()
	assert.LessOrEqual(t, cost.timedOut, kills*3*a.concurrency, "locks that ended")
}

// Stopped processes finish or release their running jobs, and nothing is lost.
func TestTerminatedWorkers(t *testing.T) {
	a := newArena(t, plan{jobs: 5_000, work: 60 * time.Millisecond, concurrency: 10, shutdown: 200 * time.Millisecond})
	require.NoError(t, a.client.Config().Set(a.ctx, "heartbeat", time.Minute))
	a.begin(a.server.Addr())
	a.disturb(25, func(int) { a.replaceAny(a.terminate) })
	cost := a.verify()
	assert.Zero(t, cost.timedOut, "locks that ended")
	assert.Greater(t, cost.popped, a.jobs, "long jobs are given back and popped again")
}

// A process halted for longer than its locks last can't know of their loss. Its later reports about
// the jobs have no effect.
func TestHaltedWorkers(t *testing.T) {
	a := newArena(t, plan{jobs: 3_000, work: 60 * time.Millisecond, concurrency: 10, grace: time.Second, shutdown: 5 * time.Second})
	a.begin(a.server.Addr())
	a.disturb(6, func(i int) {
		a.halt(a.processes[a.random.IntN(processes)], func() { a.elapse(a.lapse(i)) })
	})
	a.verify()
}
