package worker

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/tests/repairs"
)

const damage = serverError("WRONGTYPE Operation against a key holding the wrong kind of value")

func TestAnOutcomeThatIsAlwaysRefusedIsGivenUp(t *testing.T) {
	t.Parallel()
	e := newLiveEnv(t)
	o := &witness{}
	w := e.working(qless.WorkerConfig{Observer: o.observe}, nothing)
	w.refuseOutcome("refused", damage)
	e.Put("q", qless.JID("refused"))
	require.Equal(t, "complete", w.outcome(e.Put("q")).action)
	w.log.await(t, "the server refuses an outcome", 1)
	require.NoError(t, w.Drain(t.Context()))
	require.ErrorIs(t, o.ends(t, "refused", qless.JobEventStarted).Err, qless.ErrServer)
	require.Equal(t, 1, w.log.count("level=ERROR"))
	require.Equal(t, 1, w.log.count("gave up an outcome"))
	require.Equal(t, 2, w.log.count("jid=refused queue=q outcome=complete error=\"WRONGTYPE Operation"))
	require.Equal(t, 1, w.Stats().Lost)
	require.Equal(t, 1, w.Stats().Completed)
	require.Equal(t, qless.StateRunning, e.Read("refused").State, "its lock ends by itself")
}

// A report that is held back delays nothing else.
func TestARefusedOutcomeDelaysNothingElse(t *testing.T) {
	t.Parallel()
	const jobs = 300
	e := newLiveEnv(t)
	w := e.working(qless.WorkerConfig{Concurrency: 1}, nothing)
	var tries atomic.Int32
	w.refuseWith(func(script string, args []any) error {
		for _, arg := range args {
			if script == "finish" && arg == "refused" {
				tries.Add(1)
				return damage
			}
		}
		return nil
	})
	e.Put("q", qless.JID("refused"))
	w.log.await(t, "the server refuses an outcome", 1)
	for range jobs {
		e.Put("q")
	}
	// If each exchange were followed by a wait, these would take longer than all tries.
	until(t, "all jobs are complete", func() bool { return w.Stats().Completed == jobs })
	require.Zero(t, w.log.count("gave up an outcome"), "its tries are not over")
	require.NoError(t, w.Healthy())
	w.log.await(t, "gave up an outcome", 1)
	require.LessOrEqual(t, tries.Load(), int32(6), "at most once with others and five times alone")
}

func TestARefusedOutcomeMayBeTakenLater(t *testing.T) {
	e := newLiveEnv(t)
	w := e.working(qless.WorkerConfig{}, nothing)
	w.refuseOutcome("j", damage)
	e.Put("q", qless.JID("j"))
	w.log.await(t, "the server refuses an outcome", 1)
	w.refuseWith(nil)
	require.Equal(t, reported{"complete", "complete"}, w.outcome("j"))
	w.stop()
	require.Zero(t, w.Stats().Lost)
}

func TestRefusedOutcomeIsForgottenIfItsJobIsRetaken(t *testing.T) {
	e := newLiveEnv(t)
	w, running, end := e.busyWorker(qless.WorkerConfig{})
	w.refuseOutcome("j", damage)
	e.Put("q", qless.JID("j"))
	soon(t, "the first run", running)
	end <- nil
	w.log.await(t, "the server refuses an outcome", 1)
	w.refuseWith(nil)
	require.NoError(t, repairs.TimeOut(t.Context(), e.Client, "j"))
	soon(t, "the second run", running)
	require.Len(t, w.Stats().Running, 1)
	end <- qless.Snooze(time.Hour)
	require.Equal(t, "release", w.outcome("j").action)
}

// A serverError that concerns the whole server says nothing about the outcome.
func TestAnOutcomeIsKeptWhileTheServerRefusesEverything(t *testing.T) {
	t.Parallel()
	for _, answer := range []serverError{
		"OOM command not allowed when used memory > 'maxmemory'.", "NOAUTH Authentication required.",
		"ERR Error running script (call to f_1): @user_script:1: -MISCONF Redis is configured to save RDB snapshots",
		"LOADING Redis is loading the dataset in memory", "ERR max number of clients reached",
	} {
		e := newLiveEnv(t)
		w := e.working(qless.WorkerConfig{}, nothing)
		refused := make(chan bool, 1000)
		var full atomic.Bool
		w.refuseWith(func(script string, _ []any) error {
			if script == "finish" {
				full.Store(true)
				refused <- true
			}
			if full.Load() {
				return answer
			}
			return nil
		})
		jid := e.Put("q")
		for range 5 {
			soon(t, "a try after "+string(answer), refused)
		}
		require.Zero(t, w.log.count("level=ERROR"))
		w.refuseWith(nil)
		require.Equal(t, reported{"complete", "complete"}, w.outcome(jid), answer)
		w.stop()
		require.Zero(t, w.Stats().Lost)
	}
}

func TestAnOutcomeIsGivenUpWhenItsLockHasEnded(t *testing.T) {
	e := newLiveEnv(t)
	e.Set("heartbeat", "0.6")
	w := e.working(qless.WorkerConfig{}, nothing)
	w.refuseOutcome("j", serverError("NOPERM this user has no permissions"))
	e.Put("q", qless.JID("j"))
	w.await(t, "an outcome", 1, func(c tapped) bool { return c.script == "finish" })
	require.NoError(t, w.Drain(t.Context()))
	require.Equal(t, 1, w.log.count("gave up an outcome"))
	require.Equal(t, 1, w.Stats().Lost)
}
