package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// fails puts jobs and fails them in a group, one by one.
func (e *env) fails(group string, jids ...string) {
	e.T.Helper()
	for _, jid := range jids {
		e.Put("q", qless.JID(jid), qless.Priority(9))
		require.NoError(e.T, e.Pop("q").Fail(e.T.Context(), group, "m"))
	}
}

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
			e.Put("q", qless.JID(jid), qless.Tags{"red"})
			e.Pop("q")
			e.foreignFail(jid, "q", "g")
			e.Clock.Advance(time.Minute)
		}
		e.Clock.Advance(time.Hour - time.Minute)
		e.fails("other", "x")
		require.Equal(t, []string{"b", "a"}, e.failed("g"))
		e.fails("g", "y")
		require.Equal(t, []string{"y", "b"}, e.failed("g"), "the other one is not old enough")
		require.False(t, e.exists("a"))
	})
}

func TestJobsToKeepAreSkipped(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Set("jobs-failed-history-count", 3)
		e.Set("jobs-failed-history", time.Hour)
		e.Put("q", qless.JID("own"), qless.KeepFailedFor(qless.Forever))
		require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
		e.fails("g", "needed")
		e.Put("q2", qless.DependsOn{"needed"})
		e.fails("g", "old", "older", "new")
		require.Equal(t, []string{"new", "needed", "own"}, e.failed("g"))
		e.Clock.Advance(10 * time.Hour)
		e.fails("g", "newest")
		require.Equal(t, []string{"newest", "needed", "own"}, e.failed("g"))
		require.Zero(t, e.sweep())

		e.Set("jobs-failed-history-count", 1)
		e.fails("g", "very last")
		require.Equal(t, []string{"needed", "own"}, e.failed("g"), "they count")
	})
}

func TestJobsLeftBehindInAGroupAreOnlyTakenOut(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.fails("g", "unfailed", "put", "gone", "last")
		require.NoError(t, e.Read("unfailed").Unfail(t.Context()))
		require.NoError(t, e.Read("unfailed").Move(t.Context(), "q2"))
		e.Put("q2", qless.JID("put"))
		require.NoError(t, e.Redis.RPush(t.Context(), "ql:f:g", "unfailed", "nowhere").Err(), "as if left behind")
		e.Set("jobs-failed-history-count", 1)
		e.Clock.Advance(time.Hour)
		e.fails("g", "new")
		require.Equal(t, []string{"new"}, e.failed("g"))
		require.Equal(t, qless.StateWaiting, e.Read("unfailed").State)
		require.Equal(t, qless.StateWaiting, e.Read("put").State)
	})
}

func TestASweepClearsAllGroups(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		for _, group := range []string{"a", "b", "c"} {
			e.fails(group, numbered(group, 60)...)
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
		e.fails("a", numbered("other", 130)...)
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

func TestSweepsReachWhatAFailureLeft(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("bad"))
	specs := make([]qless.JobSpec, 0, 1500)
	for i := range 700 {
		child := fmt.Sprint("child", i)
		specs = append(specs, spec(qless.JID(child), qless.DependsOn{"bad"}, qless.OnFailureFail), spec(qless.JID("grand"+child), qless.DependsOn{child}, qless.OnFailureFail))
	}
	e.puts("next", specs...)
	require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
	require.GreaterOrEqual(t, e.Counts("next").Depends, 1150)
	for range 20 {
		e.sweep()
	}
	require.Zero(t, e.Counts("next").Depends)
	require.Equal(t, 1400, must(e.inspect().FailureGroups(t.Context()))(t)["failed-dependency"])
}
