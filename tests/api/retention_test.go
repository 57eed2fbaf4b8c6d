package api

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/tests/repairs"
)

// foreignFail fails a running job like another client's script, which knows no settings and sends
// no notifications.
func (e *env) foreignFail(jid, queue, group string) {
	e.T.Helper()
	ctx, at := e.T.Context(), e.Clock.Now().Unix()
	for _, part := range []string{"work", "locks", "scheduled", "depends"} {
		require.NoError(e.T, e.Redis.ZRem(ctx, "ql:q:"+queue+"-"+part, jid).Err())
	}
	require.NoError(e.T, e.Redis.ZRem(ctx, "ql:w:w1:jobs", jid).Err())
	require.NoError(e.T, e.Redis.HSet(ctx, "ql:j:"+jid, "state", "failed", "worker", "", "expires", "", "failure",
		fmt.Sprintf(`{"group":"%s","message":"m","when":%d,"worker":"w"}`, group, at)).Err())
	require.NoError(e.T, e.Redis.LPush(ctx, "ql:f:"+group, jid).Err())
	require.NoError(e.T, e.Redis.SAdd(ctx, "ql:failures", group).Err())
}

// failed returns the jids of a failure group, newest first.
func (e *env) failed(group string) []string {
	e.T.Helper()
	return must(e.inspect().Failed(group).JIDs(e.T.Context(), inspect.Range{Limit: -1}))(e.T).Items
}

func numbered(prefix string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprint(prefix, i))
	}
	return all
}

func TestFailureClearsJobsThatOtherScriptsFailed(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Set("jobs-failed-history", time.Hour)
		for _, jid := range []string{"a", "b"} {
			e.start("q", qless.JID(jid), qless.Tags{"red"})
			e.foreignFail(jid, "q", "g")
			e.Clock.Advance(time.Minute)
		}
		e.Clock.Advance(time.Hour - time.Minute)
		e.fails("q", "other", "x")
		require.Equal(t, []string{"b", "a"}, e.failed("g"))
		e.fails("q", "g", "y")
		require.Equal(t, []string{"y", "b"}, e.failed("g"), "the other one is not old enough")
		require.False(t, e.exists("a"))
	})
}

// The model has the other jobs that are kept.
func TestJobsToKeepAreSkipped(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Set("jobs-failed-history", time.Hour)
		e.fail("q", "g", qless.JID("own"), qless.KeepFailedFor(qless.Forever))
		e.fails("q", "g", "needed")
		e.Put("q2", qless.DependsOn{"needed"})
		e.Set("jobs-failed-history-count", 1)
		e.Clock.Advance(10 * time.Hour)
		e.fails("q", "g", "last")
		require.Equal(t, []string{"needed", "own"}, e.failed("g"), "they count")
		require.Zero(t, e.sweep())
	})
}

func TestJobsLeftBehindInAGroupAreOnlyTakenOut(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.fails("q", "g", "unfailed", "put", "gone", "last")
		require.NoError(t, e.Read("unfailed").Unfail(t.Context()))
		require.NoError(t, e.Read("unfailed").Move(t.Context(), "q2"))
		e.Put("q2", qless.JID("put"))
		require.NoError(t, e.Redis.RPush(t.Context(), "ql:f:g", "unfailed", "nowhere").Err(), "as if left behind")
		e.Set("jobs-failed-history-count", 1)
		e.Clock.Advance(time.Hour)
		e.fails("q", "g", "new")
		require.Equal(t, []string{"new"}, e.failed("g"))
		require.Equal(t, qless.StateWaiting, e.Read("unfailed").State)
		require.Equal(t, qless.StateWaiting, e.Read("put").State)
	})
}

func TestASweepClearsAllGroups(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		for _, group := range []string{"a", "b", "c"} {
			e.fails("q", group, numbered(group, 60)...)
		}
		e.Set("jobs-failed-history-count", 5)
		left := 180
		for left > 15 {
			n := e.sweep()
			require.Positive(t, n)
			require.LessOrEqual(t, n, 100)
			left -= n
		}
		for _, group := range []string{"a", "b", "c"} {
			require.Len(t, e.failed(group), 5)
		}
		require.Equal(t, 15, e.stats("q", noon).Failed)
		e.Set("jobs-failed-history", time.Hour)
		e.Clock.Advance(2 * time.Hour)
		require.Equal(t, 15, e.sweep())
		require.Empty(t, must(e.inspect().FailureGroups(t.Context()))(t))
		require.Zero(t, e.sweep())
	})
}

func TestASweepAnnouncesFailuresByOtherScripts(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.fails("q", "a", numbered("other", 130)...)
		e.Put("q", qless.JID("bad"))
		e.Put("next", qless.JID("runs"), qless.DependsOn{"bad"}, qless.OnFailureRun)
		e.Put("next", qless.JID("fails"), qless.DependsOn{"bad"}, qless.OnFailureFail)
		e.Put("next", qless.JID("deep"), qless.DependsOn{"fails"}, qless.OnFailureRun)
		e.Put("next", qless.JID("waits"), qless.DependsOn{"bad"})
		e.Pop("q")
		e.foreignFail("bad", "q", "g")
		require.Equal(t, qless.StateDepends, e.Read("runs").State)
		require.Zero(t, e.sweep(), "it looks at a hundred")
		require.Equal(t, 3, e.sweep())
		require.Equal(t, []string{"deep", "runs"}, sorted(jids(e.Pops("next", 5))))
		require.Equal(t, "failed-dependency", e.Read("fails").Failure.Group)
		require.Equal(t, qless.StateDepends, e.Read("waits").State)
		for range 4 {
			require.Zero(t, e.sweep(), "they know")
		}
	})
}

func TestFailuresByKlass(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		fails := func(klass, jid, message string) {
			require.NoError(t, errOf(e.Queue("q").Put(t.Context(), klass, nil, qless.JID(jid))))
			require.NoError(t, e.Pop("q").Fail(t.Context(), "g", message))
			e.Clock.Advance(time.Minute)
		}
		sum := func(limit int) inspect.FailureSummary {
			t.Helper()
			var got inspect.FailureSummary
			e.Unchanged(func() { got = must(e.inspect().Failures(t.Context(), "g", limit))(t) })
			for i := range got.Klasses {
				k := &got.Klasses[i]
				k.First, k.Last = k.First.UTC(), k.Last.UTC()
			}
			return got
		}
		require.Equal(t, inspect.FailureSummary{Klasses: []inspect.KlassFailures{}}, sum(0))
		fails("Mail", "a", "first")
		fails("Call", "b", "ring")
		fails("Mail", "c", "last")
		mail := inspect.KlassFailures{
			Klass: "Mail", Count: 2, First: noon, Last: noon.Add(2 * time.Minute), Message: "last", Sample: "c",
		}
		call := inspect.KlassFailures{
			Klass: "Call", Count: 1, First: noon.Add(time.Minute), Last: noon.Add(time.Minute), Message: "ring", Sample: "b",
		}
		all := inspect.FailureSummary{Klasses: []inspect.KlassFailures{mail, call}, Examined: 3, Total: 3}
		for _, limit := range []int{0, -1, 3, 5000} {
			require.Equal(t, all, sum(limit))
		}
		mail.Count, mail.First = 1, mail.Last
		require.Equal(t, inspect.FailureSummary{Klasses: []inspect.KlassFailures{mail}, Examined: 1, Total: 3}, sum(1))
		requireCode(t, qless.ErrInvalid, errOf(e.inspect().Failures(t.Context(), "", 0)))
		requireCode(t, qless.ErrInvalid, errOf(e.inspect().Failures(t.Context(), "g", -2)))
	})
}

func TestManyFailuresAreCountedInSteps(t *testing.T) {
	e := newEnv(t)
	for i := range 2345 {
		jid := fmt.Sprint("j", i)
		require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:"+jid, "klass", fmt.Sprint("K", i%2), "failure",
			fmt.Sprintf(`{"group":"g","message":"m%d","when":%d}`, i, i+1)).Err())
		require.NoError(t, e.Redis.LPush(t.Context(), "ql:f:g", jid).Err())
	}
	got := must(e.inspect().Failures(t.Context(), "g", -1))(t)
	require.Equal(t, 2345, got.Examined)
	require.Len(t, got.Klasses, 2)
	require.Equal(t, inspect.KlassFailures{
		Klass: "K0", Count: 1173, First: time.Unix(1, 0), Last: time.Unix(2345, 0), Message: "m2344", Sample: "j2344",
	}, got.Klasses[0])
}

func TestForgettingAFailureGroup(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.fails("q", "g", "a", "b", "c")
		e.Put("q", qless.JID("child"), qless.DependsOn{"b"})
		done := must(e.inspect().Failed("g").Forget(t.Context()))(t)
		require.Equal(t, 2, done.Changed)
		require.Equal(t, 1, done.Unchanged)
		requireCode(t, qless.ErrHasDependents, done.Reasons["b"])
		done = must(e.inspect().Failed("g").Where(inspect.Filter{JID: "a"}).Forget(t.Context()))(t)
		require.Zero(t, done)
	})
}

func TestAJobThatHasNotEndedIsNotForgotten(t *testing.T) {
	for _, place := range places {
		runOnEach(t, string(place), func(t *testing.T, e *env) {
			bring[place](e, qless.JID("j"))
			want := qless.ErrUnfinished
			if place == qless.StateRunning || place == lost {
				want = qless.ErrRunning
			}
			e.Unchanged(func() { requireCode(t, want, repairs.Forget(t.Context(), e.Client, "j")) })
		})
	}
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
			e.start("q", qless.JID("j"))
		}, time.Minute, 1, qless.StateRunning, 5},
		"a lost lock": {func(e *env) {
			e.Set("grace-period", 0)
			e.start("q", qless.JID("j"))
		}, time.Minute, 1, qless.StateWaiting, 4},
		"a lost lock of a job that goes last": {func(e *env) {
			e.start("q", qless.JID("j"), qless.LockTime(time.Second), qless.OnLostLast)
		}, time.Second, 1, qless.StateWaiting, 4},
		"a lost lock of a job that stays in its place": {func(e *env) {
			e.start("q", qless.JID("j"), qless.LockTime(time.Second), qless.OnLostInPlace)
		}, time.Second, 1, qless.StateWaiting, 4},
		"a lost lock without retries": {func(e *env) {
			e.start("q", qless.JID("j"), qless.LockTime(time.Second), qless.Retries(0))
		}, time.Second, 1, qless.StateFailed, -1},
		"a lock that holds": {func(e *env) {
			e.start("q", qless.JID("j"))
		}, time.Second, 0, qless.StateRunning, 5},
	} {
		runOnEach(t, name, func(t *testing.T, e *env) {
			c.set(e)
			e.Put("other")
			e.Clock.Advance(c.after)
			require.Zero(t, e.sweep(), "only named queues")
			require.Zero(t, e.sweep("other", "unknown"))
			require.Equal(t, c.moves, e.sweep("other", "q"))
			require.Zero(t, e.sweep("q", "q"), "all is done")
			job := e.Read("j")
			require.Equal(t, c.state, job.State)
			require.Equal(t, c.left, job.Remaining)
			require.Equal(t, c.state == qless.StateRunning, job.Worker == "w1")
		})
	}
}

func TestALostJobThatWasSweptComesFirst(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Set("grace-period", 0)
		held := e.start("q", qless.JID("j"))
		e.Put("q", qless.JID("urgent"), qless.Priority(9))
		e.Clock.Advance(time.Minute)
		require.Equal(t, 1, e.sweep("q"))
		require.Equal(t, qless.QueueCounts{Name: "q", Waiting: 2}, e.Counts("q"))
		requireCode(t, qless.ErrNotRunning, held.Complete(t.Context()))
		require.Equal(t, []string{"j", "urgent"}, jids(e.Pops("q", 9)))
		require.NoError(t, e.Complete(t.Context(), "j"))
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
		require.Equal(t, 100, e.sweep("q0", "q1"))
		require.Equal(t, 32, e.sweep("q0", "q1"))
		var moved []int
		for range 4 {
			moved = append(moved, e.sweep("*"))
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
