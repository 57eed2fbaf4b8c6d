package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/tests/repairs"
)

func TestAForgottenJobLeavesNothing(t *testing.T) {
	for name, end := range map[string]func(e *env) error{
		"complete": func(e *env) error { return e.popWith(7).Complete(e.T.Context()) },
		"failed":   func(e *env) error { return e.popWith(7).Fail(e.T.Context(), "g", "m") },
		"ended": func(e *env) error {
			return errOf(repairs.End(e.T.Context(), e.Client, "j", repairs.Ending{TryAgain: 1}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				e.Set("jobs-failed-history", 3600)
				e.Put("q", qless.JID("j"), qless.Tags{"a"}, qless.TTL(time.Hour), qless.KeepFailedFor(time.Minute),
					qless.Headers{"k": "v"})
				require.NoError(t, e.Read("j").Track(t.Context()))
				require.NoError(t, end(e))
				require.NoError(t, repairs.Forget(t.Context(), e.Client, "j"))
				requireCode(t, qless.ErrNotFound, errOf(e.Job(t.Context(), "j")))
				requireCode(t, qless.ErrNotFound, repairs.Forget(t.Context(), e.Client, "j"))
				for _, key := range must(e.Redis.Keys(t.Context(), "*").Result())(t) {
					require.NotRegexp(t, `^ql:(j:|completed|f:|failures|tracked|t:|tags|x:until|failed-jobs-list)`, key)
				}
				require.Empty(t, must(e.inspect().FailureGroups(t.Context()))(t))
			})
		})
	}
}

func TestForgettingAFailureGroup(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		for _, jid := range []string{"a", "b", "c"} {
			e.Put("q", qless.JID(jid))
			require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
		}
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
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				place.bring(e, qless.JID("j"))
				want := qless.ErrUnfinished
				if place.state == qless.StateRunning {
					want = qless.ErrRunning
				}
				e.Unchanged(func() { requireCode(t, want, repairs.Forget(t.Context(), e.Client, "j")) })
			})
		})
	}
}

func TestAFailedJobThatOthersDependOnIsNotForgotten(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("j"))
		require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
		e.Put("q", qless.JID("child"), qless.DependsOn{"j"})
		e.Unchanged(func() { requireCode(t, qless.ErrHasDependents, repairs.Forget(t.Context(), e.Client, "j")) })
		require.NoError(t, e.Cancel(t.Context(), "child"))
		require.NoError(t, repairs.Forget(t.Context(), e.Client, "j"))
	})
}
