package api

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// swept sweeps, and returns the number of jobs that it changed.
func (e *env) swept(queues ...string) int {
	e.T.Helper()
	return must(e.Sweep(e.T.Context(), queues...))(e.T)
}

func TestASweepMovesWhatIsDueInQueues(t *testing.T) {
	for name, c := range map[string]struct {
		set   func(e *env)
		after time.Duration
		moves int
		state qless.State
		left  int // retries left
	}{
		"scheduled": {func(e *env) { e.Put("q", qless.JID("j"), qless.Delay(time.Minute)) }, time.Minute, 1, qless.StateWaiting, 5},
		"not due":   {func(e *env) { e.Put("q", qless.JID("j"), qless.Delay(time.Hour)) }, time.Minute, 0, qless.StateScheduled, 5},
		"a lost lock with a grace period": {func(e *env) {
			e.Put("q", qless.JID("j"))
			e.Pop("q")
		}, time.Minute, 1, qless.StateRunning, 5},
		"a lost lock": {func(e *env) {
			e.Set("grace-period", 0)
			e.Put("q", qless.JID("j"))
			e.Pop("q")
		}, time.Minute, 1, qless.StateWaiting, 4},
		"a lost lock of a job that goes last": {func(e *env) {
			e.Put("q", qless.JID("j"), qless.LockTime(time.Second), qless.OnLostLast)
			e.Pop("q")
		}, time.Second, 1, qless.StateWaiting, 4},
		"a lost lock without retries": {func(e *env) {
			e.Put("q", qless.JID("j"), qless.LockTime(time.Second), qless.Retries(0))
			e.Pop("q")
		}, time.Second, 1, qless.StateFailed, -1},
		"a lock that holds": {func(e *env) {
			e.Put("q", qless.JID("j"))
			e.Pop("q")
		}, time.Second, 0, qless.StateRunning, 5},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				c.set(e)
				e.Put("other")
				e.Clock.Advance(c.after)
				require.Zero(t, e.swept(), "only named queues")
				require.Zero(t, e.swept("other", "unknown"))
				require.Equal(t, c.moves, e.swept("other", "q"))
				require.Zero(t, e.swept("q", "q"), "all is done")
				job := e.Read("j")
				require.Equal(t, c.state, job.State)
				require.Equal(t, c.left, job.Remaining)
				require.Equal(t, c.state == qless.StateRunning, job.Worker == "w1")
			})
		})
	}
}

func TestALostJobThatWasSweptComesFirst(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Set("grace-period", 0)
		e.Put("q", qless.JID("j"))
		held := e.Pop("q")
		e.Put("q", qless.JID("urgent"), qless.Priority(9))
		e.Clock.Advance(time.Minute)
		require.Equal(t, 1, e.swept("q"))
		require.Equal(t, qless.QueueCounts{Name: "q", Waiting: 2}, e.Counts("q"))
		requireCode(t, qless.ErrNotRunning, held.Complete(t.Context()))
		require.Equal(t, []string{"j", "urgent"}, jids(e.Pops("q", 9)))
		require.NoError(t, e.Complete(t.Context(), "j"))
	})
}

func TestASweepFreesTheSlotOfALostJob(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Set("grace-period", 0)
		e.slots("api", 1)
		e.putLimited("q", "lost", "api")
		e.Pop("q")
		e.putLimited("q2", "parked", "api")
		require.Empty(t, e.Pops("q2", 1))
		e.Clock.Advance(61 * time.Second)
		require.Equal(t, 1, e.swept("q"))
		require.Equal(t, []string{"parked"}, jids(e.Pops("q2", 1)))
		require.Empty(t, e.Pops("q", 1), "the slot is taken")
	})
}

// Complete completes a job that the worker has.
func (e *env) Complete(ctx context.Context, jid string) error { return e.Read(jid).Complete(ctx) }

func TestASweepIsBounded(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		for i := range 250 {
			e.Put(fmt.Sprint("q", i), qless.Delay(time.Second))
		}
		for range 130 {
			e.Put("q0", qless.Delay(time.Second))
		}
		e.Clock.Advance(time.Second)
		require.Equal(t, 100, e.swept("q0", "q1"))
		require.Equal(t, 32, e.swept("q0", "q1"))
		var moved []int
		for range 4 {
			moved = append(moved, e.swept("*"))
		}
		require.Equal(t, []int{98, 100, 50, 0}, moved, "100 queues a call")
		require.Empty(t, e.Redis.HGetAll(t.Context(), "ql:x:sweep").Val()["groups"])
	})
}

func TestAnInvalidSweep(t *testing.T) {
	client := offline(t)
	for _, queues := range [][]string{{""}, {"\xff"}, {"q", "*"}, make([]string, 1001)} {
		requireCode(t, qless.ErrInvalid, errOf(inspect.New(client).Sweep(t.Context(), queues...)))
	}
}
