package worker

import (
	"strings"
	"sync"
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

// A held-back report delays nothing else.
func TestARefusedOutcomeDelaysNothingElse(t *testing.T) {
	t.Parallel()
	const jobs = 300
	e, w := workingEnv(t, qless.WorkerConfig{Concurrency: 1}, nothing)
	tries := w.refuseOutcome("refused", damage)
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
	require.LessOrEqual(t, len(tries), 6, "at most once with others and five times alone")
}

func TestARefusedOutcomeMayBeTakenLater(t *testing.T) {
	e, w := workingEnv(t, qless.WorkerConfig{}, nothing)
	w.refuseOutcome("j", damage)
	e.Put("q", qless.JID("j"))
	w.log.await(t, "the server refuses an outcome", 1)
	w.refuseWith(nil)
	require.Equal(t, reported{"complete", "complete"}, w.outcome("j"))
	w.stop()
	require.Zero(t, w.Stats().Lost)
}

func TestRefusedOutcomeIsForgottenIfItsJobIsRetaken(t *testing.T) {
	e, w, running, end := busyEnv(t, qless.WorkerConfig{})
	w.refuseOutcome("j", damage)
	e.begun(running, qless.JID("j"))
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
		e, w := workingEnv(t, qless.WorkerConfig{}, nothing)
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

func TestAWorkerFillsAllItsSlots(t *testing.T) {
	e := newLiveEnv(t)
	for range 12 {
		e.Put("q")
	}
	handler, running, end := hold()
	w := e.worker(qless.WorkerConfig{Concurrency: 7}, handler)
	require.NoError(t, w.Start(t.Context()))
	for range 7 {
		soon(t, "a job", running)
	}
	require.Len(t, w.Stats().Running, 7)
	require.Equal(t, 5, e.Counts("q").Waiting)
	end <- nil
	soon(t, "the next job", running)
	require.Equal(t, 4, e.Counts("q").Waiting)
}

func TestAnOutcomeAndTheNextReservationGoTogether(t *testing.T) {
	t.Parallel()
	e := newLiveEnv(t)
	e.Put("q")
	e.Put("q")
	w := e.working(qless.WorkerConfig{Concurrency: 1}, nothing)
	for n := range 2 {
		require.Equal(t, "finish reserve", w.await(t, "an outcome", n+1, of("finish")).trip)
	}
}

func TestAJobIsDoneOnlyWhenTheServerSaidSo(t *testing.T) {
	e, w := workingEnv(t, qless.WorkerConfig{}, nothing)
	asked, answer := w.gate("finish", true)
	jid := e.Put("q")
	soon(t, "an outcome", asked)
	require.Equal(t, qless.StateComplete, e.Read(jid).State)
	require.Zero(t, w.Stats().Completed)
	answer()
	until(t, "it is counted", func() bool { return w.Stats().Completed == 1 })
}

// While one outcome is being sent, others arise. They are sent together, each independently.
func TestOneBadOutcomeDoesNotSpoilABatch(t *testing.T) {
	const deep = "with data that is deeper than the server reads"
	for name, c := range map[string]struct {
		spoil func(e *env, w *testWorker) // before it is sent
		check func(e *env, w *testWorker) // when all others are complete
	}{
		"of a canceled job": {func(e *env, _ *testWorker) {
			require.NoError(t, e.Cancel(t.Context(), "bad"))
		}, func(_ *env, w *testWorker) {
			require.Contains(t, w.outcome("bad").answer, "does not exist")
			w.stop()
			require.Equal(t, 3, w.count(of("finish")), "of one, two and five")
			require.Equal(t, []int{7, 1, 0}, []int{w.Stats().Completed, w.Stats().Canceled, w.Stats().Lost})
		}},
		"of a job that the server can't read": {func(e *env, _ *testWorker) {
			require.NoError(t, e.Redis.Set(t.Context(), "ql:j:bad", "no hash", 0).Err())
		}, func(e *env, w *testWorker) {
			require.Contains(t, w.outcome("bad").answer, "WRONGTYPE")
			require.NoError(t, e.Redis.Del(t.Context(), "ql:j:bad").Err())
			until(t, "it is sent again, and the job is gone by then", func() bool { return w.Stats().Canceled == 1 })
		}},
		deep: {func(*env, *testWorker) {}, func(e *env, w *testWorker) {
			want := map[string]qless.State{"complete": qless.StateComplete, "fail": qless.StateFailed}
			require.Equal(t, want[w.outcome("bad").action], e.Read("bad").State, "it depends on the server")
		}},
		"that is refused": {func(_ *env, w *testWorker) {
			w.refuseOutcome("bad", damage)
		}, func(_ *env, w *testWorker) {
			w.refuseWith(nil)
			require.Equal(t, reported{"complete", "complete"}, w.outcome("bad"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			e, w, running, end := busyEnv(t, qless.WorkerConfig{})
			jobs := map[string]*qless.Job{}
			for _, jid := range strings.Fields("first a bad b c d e f") {
				e.Put("q", qless.JID(jid))
				jobs[jid] = soon(t, "a job", running)
			}
			w.Pause() // it would take a lost job again
			asked, proceed := make(chan bool, 100), make(chan bool)
			open := sync.OnceFunc(func() { close(proceed) })
			t.Cleanup(open)
			w.instead("finish", func(send func() error) error { asked <- true; <-proceed; return send() })
			ends := func(jobs, left int) {
				for range jobs {
					end <- nil
				}
				until(t, "they have ended", func() bool { return len(w.Stats().Running) == left })
			}
			ends(1, 7)
			soon(t, "the first outcome", asked)
			if name == deep {
				jobs["bad"].Data = raw(strings.Repeat("[", 5000) + strings.Repeat("]", 5000))
			}
			ends(2, 5)
			c.spoil(e, w)
			proceed <- true
			soon(t, "the next two, one of which is bad", asked)
			ends(5, 0)
			open()
			for jid := range jobs {
				if jid != "bad" {
					require.Equal(t, reported{"complete", "complete"}, w.outcome(jid))
					require.Equal(t, qless.StateComplete, e.Read(jid).State)
				}
			}
			c.check(e, w)
		})
	}
}

func TestFinishEndsEachJobInItsOwnWay(t *testing.T) {
	e := newEnv(t)
	for _, jid := range []string{"done", "on", "bad", "again", "back", "theirs", "twice"} {
		e.Put("q", qless.JID(jid))
	}
	require.Len(t, e.Pops("q", 7), 7)
	require.NoError(t, repairs.TimeOut(t.Context(), e.Client, "theirs"))
	must(e.As("w2").Queue("q").Pop(t.Context(), 1))(t)
	reply, err := e.Run(t.Context(), "finish", "", "w1",
		"complete", "done", "q", `"saved"`, "0",
		"complete", "theirs", "q", `"not saved"`, "0",
		"complete", "on", "q", "", "4", "next", "b", "delay", "5",
		"fail", "bad", "q", "", "4", "group", "g", "message", "m",
		"retry", "again", "q", `"saved"`, "4", "group", "g", "message", "m",
		"release", "back", "q", "", "2", "delay", "60",
		"complete", "twice", "q", "", "0",
		"complete", "twice", "q", "", "0",
		"complete", "nobody", "q", "", "0")
	require.NoError(t, err)
	answers := reply.([]any)
	require.Equal(t, "complete", answers[0])
	require.Contains(t, answers[1], "!lock_lost 6 41 theirs has been handed out to another worker: w2")
	require.Equal(t, []any{"scheduled", "5", "4", "5", "complete"}, answers[2:7])
	require.Contains(t, answers[7], "!not_running 5 34 twice is not currently running")
	require.Contains(t, answers[8], "!not_found 6 14 nobody does not exist")
	require.Equal(t, `"saved"`, string(e.Read("done").Data))
	require.Equal(t, "{}", string(e.Read("theirs").Data))
	require.Equal(t, "b", e.Read("on").Queue)
	require.Equal(t, qless.StateFailed, e.Read("bad").State)
	require.Equal(t, `"saved"`, string(e.Read("again").Data))
	require.Equal(t, qless.StateScheduled, e.Read("back").State)
	require.Equal(t, 5, e.Read("back").Remaining)
}
