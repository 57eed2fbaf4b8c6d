package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/inside"
	"github.com/qless/qless-go/tests/repairs"
)

// places has a function for each state from which a job can be ended, which brings the job j of the
// queue q into it. The job's worker, if any, is w1.
var places = map[string]struct {
	bring func(e *env, options ...qless.PutOption)
	state qless.State
}{
	"waiting": {func(e *env, options ...qless.PutOption) { e.Put("q", options...) }, qless.StateWaiting},
	"scheduled": {func(e *env, options ...qless.PutOption) {
		e.Put("q", append(options, qless.Delay(time.Hour))...)
	}, qless.StateScheduled},
	"depends": {func(e *env, options ...qless.PutOption) {
		e.Put("p", qless.JID("parent"))
		e.Put("q", append(options, qless.DependsOn{"parent"})...)
	}, qless.StateDepends},
	"running": {func(e *env, options ...qless.PutOption) {
		e.Put("q", options...)
		e.Pop("q")
	}, qless.StateRunning},
	"lost": {func(e *env, options ...qless.PutOption) {
		e.Put("q", options...)
		e.Pop("q")
		e.Clock.Advance(time.Hour)
	}, qless.StateRunning},
	"timed out": {func(e *env, options ...qless.PutOption) {
		e.Put("q", options...)
		e.Pop("q")
		require.NoError(e.T, repairs.TimeOut(e.T.Context(), e.Client, "j"))
	}, qless.StateTimedOut},
}

func TestAJobIsEndedByAnybodyWhereverItIs(t *testing.T) {
	for name, place := range places {
		for _, end := range []repairs.Ending{
			{Result: 7},
			{State: qless.StateFailed, Group: "g", Message: "m", Result: 7},
		} {
			t.Run(fmt.Sprint(name, " ", end.State), func(t *testing.T) {
				onEach(t, func(t *testing.T, e *env) {
					place.bring(e, qless.JID("j"), qless.Unique("k"))
					e.Put("q", qless.JID("child"), qless.DependsOn{"j"}, qless.OnFailure(qless.OnFailureRun))
					require.Equal(t, place.state, e.Read("j").State)
					ended := e.waits(t.Context(), "j")
					state := must(repairs.End(t.Context(), e.As("anybody"), "j", end))(t)
					want := qless.StateComplete
					if end.State != "" {
						want = end.State
					}
					require.Equal(t, want, state)
					job := e.Read("j")
					require.Equal(t, want, job.State)
					require.Empty(t, job.Worker)
					require.Empty(t, job.Dependencies)
					require.Zero(t, inside.Ends(job))
					got := e.soon(ended)
					require.NoError(t, got.err)
					require.Equal(t, "7", string(got.result.Data))
					require.Equal(t, want, got.result.State)
					if want == qless.StateFailed {
						require.Equal(t, "g", job.Failure.Group)
						require.Equal(t, "m", job.Failure.Message)
					}
					require.Equal(t, qless.StateWaiting, e.Read("child").State)
					require.NoError(t, e.Cancel(t.Context(), "child"))
					e.Put("q", qless.JID("next"), qless.Unique("k")) // the key is free
					require.NoError(t, e.Cancel(t.Context(), "next"))
					counts := e.Counts("q")
					counts.Name = ""
					require.Equal(t, qless.QueueCounts{}, counts)
					require.Empty(t, must(repairs.HeldBy(t.Context(), e.Client, "w1"))(t))
					if place.state == qless.StateDepends {
						require.NoError(t, e.Pop("p").Complete(t.Context()))
					}
					require.Equal(t, want, e.Read("j").State, "nothing brings it back")
					require.Empty(t, e.Pops("q", 9))
					for _, again := range []repairs.Ending{end, {}} {
						e.Unchanged(func() {
							requireCode(t, qless.ErrFinished, errOf(repairs.End(t.Context(), e.Client, "j", again)))
						})
					}
				})
			})
		}
	}
}

func TestTheWorkerOfAnEndedJobIsNotified(t *testing.T) {
	for _, end := range []repairs.Ending{{}, {State: qless.StateFailed, Group: "g"}, {TryAgain: 2}} {
		onEach(t, func(t *testing.T, e *env) {
			e.Put("q", qless.JID("j"))
			job := e.Pop("q")
			told := heard(t, e.Redis, "ql:w:w1")
			require.NoError(t, errOf(repairs.End(t.Context(), e.As("anybody"), "j", end)))
			require.JSONEq(t, `{"jid":"j","event":"lock_lost","worker":"w1"}`, told())
			requireCode(t, qless.ErrNotRunning, job.Complete(t.Context()))
		})
	}
}

func TestAJobIsTriedAgainUntilItWasEndedSoOften(t *testing.T) {
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				place.bring(e, qless.JID("j"), qless.Retries(3))
				before := e.Read("j")
				goesOn := qless.StateWaiting
				if place.state == qless.StateScheduled || place.state == qless.StateDepends {
					goesOn = place.state
				}
				for n := 1; n <= 2; n++ {
					state := must(repairs.End(t.Context(), e.Client, "j", repairs.Ending{TryAgain: 3, Result: 1}))(t)
					require.Equal(t, goesOn, state)
					job := e.Read("j")
					require.Equal(t, goesOn, job.State)
					require.Equal(t, n, inside.Ends(job))
					require.Equal(t, before.Remaining, job.Remaining)
					requireCode(t, qless.ErrUnfinished, errOf(e.Result(t.Context(), "j")))
					if goesOn == qless.StateWaiting {
						require.Equal(t, "j", e.Pop("q").JID)
					}
				}
				state := must(repairs.End(t.Context(), e.Client, "j", repairs.Ending{TryAgain: 3, Result: 2}))(t)
				require.Equal(t, qless.StateComplete, state)
				require.Equal(t, 3, inside.Ends(e.Read("j")))
				require.Equal(t, "2", string(must(e.Result(t.Context(), "j"))(t).Data))
				e.Put("q", qless.JID("j"))
				require.Zero(t, inside.Ends(e.Read("j")), "another life begins")
			})
		})
	}
}

func TestAJobThatIsTriedAgainKeepsItsPlace(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		for i := range 4 {
			e.Put("q", qless.JID(fmt.Sprint("j", i)), qless.OnLostInPlace)
			e.Clock.Advance(time.Second)
		}
		e.Pops("q", 3)
		e.Clock.Advance(time.Second)
		for _, jid := range []string{"j2", "j0", "j1"} {
			require.NoError(t, errOf(repairs.End(t.Context(), e.Client, jid, repairs.Ending{TryAgain: 9})))
		}
		require.Equal(t, []string{"j0", "j1", "j2", "j3"}, jids(e.Pops("q", 9)))
	})
}

func TestAnEndCountsItsCallsOnlyIfItMayTryAgain(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("j"))
		require.NoError(t, errOf(repairs.End(t.Context(), e.Client, "j", repairs.Ending{State: qless.StateFailed, Group: "g", TryAgain: 1})))
		require.Equal(t, 1, inside.Ends(e.Read("j")))
		require.NoError(t, e.Read("j").Unfail(t.Context()))
		require.Zero(t, inside.Ends(e.Read("j")))
		require.Empty(t, e.stored("j"))
		e.Put("q", qless.JID("gone"), qless.KeepFor(0))
		state := must(repairs.End(t.Context(), e.Client, "gone", repairs.Ending{TryAgain: 1}))(t)
		require.Equal(t, qless.StateComplete, state)
		requireCode(t, qless.ErrNotFound, errOf(e.Job(t.Context(), "gone")))
	})
}

func TestAnInvalidEnd(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("j"))
		for message, end := range map[string]repairs.Ending{
			"need State":    {Group: "g"},
			"State: State":  {Message: "m"},
			"group is empt": {State: qless.StateFailed},
			"State \"runni": {State: qless.StateRunning},
			"is negative":   {TryAgain: -1},
			"JSON":          {Result: func() {}},
		} {
			e.Unchanged(func() {
				_, err := repairs.End(t.Context(), e.Client, "j", end)
				require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, message)
			})
		}
		for _, bad := range []string{"", "j-history", "\xff"} {
			requireCode(t, qless.ErrInvalid, errOf(repairs.End(t.Context(), e.Client, bad, repairs.Ending{})))
			requireCode(t, qless.ErrInvalid, repairs.Forget(t.Context(), e.Client, bad))
		}
		e.Unchanged(func() {
			requireCode(t, qless.ErrNotFound, errOf(repairs.End(t.Context(), e.Client, "unknown", repairs.Ending{})))
			requireCode(t, qless.ErrNotFound, repairs.Forget(t.Context(), e.Client, "unknown"))
		})
	})
}

func TestAnEndFreesASlotOfTheQueue(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Set("q-max-concurrency", 1)
		e.Put("q", qless.JID("j"))
		e.Put("q", qless.JID("next"))
		e.Pop("q")
		require.Empty(t, e.Pops("q", 1))
		require.NoError(t, errOf(repairs.End(t.Context(), e.Client, "j", repairs.Ending{})))
		require.Equal(t, "next", e.Pop("q").JID)
	})
}
