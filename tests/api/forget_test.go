package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

func TestAForgottenJobLeavesNothing(t *testing.T) {
	for name, end := range map[string]func(e *env) error{
		"complete": func(e *env) error { return e.popWith(7).Complete(e.T.Context()) },
		"failed":   func(e *env) error { return e.popWith(7).Fail(e.T.Context(), "g", "m") },
		"ended":    func(e *env) error { return errOf(e.End(e.T.Context(), "j", qless.End{TryAgain: 1})) },
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				e.Set("jobs-failed-history", 3600)
				e.Put("q", qless.JID("j"), qless.Tags{"a"}, qless.TTL(time.Hour), qless.KeepFailedFor(time.Minute),
					qless.Headers{"k": "v"})
				require.NoError(t, e.Read("j").Track(t.Context()))
				require.NoError(t, end(e))
				require.NoError(t, e.Forget(t.Context(), "j"))
				requireCode(t, qless.ErrNotFound, errOf(e.Job(t.Context(), "j")))
				requireCode(t, qless.ErrNotFound, e.Forget(t.Context(), "j"))
				keys, err := e.Redis.Keys(t.Context(), "*").Result()
				require.NoError(t, err)
				for _, key := range keys {
					require.NotRegexp(t, `^ql:(j:|completed|f:|failures|tracked|t:|tags|x:until|failed-jobs-list)`, key)
				}
				groups, err := inspect.New(e.Client).FailureGroups(t.Context())
				require.NoError(t, err)
				require.Empty(t, groups)
			})
		})
	}
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
				e.Unchanged(func() { requireCode(t, want, e.Forget(t.Context(), "j")) })
			})
		})
	}
}

func TestAFailedJobThatOthersDependOnIsNotForgotten(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("j"))
		require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
		e.Put("q", qless.JID("child"), qless.DependsOn{"j"})
		e.Unchanged(func() { requireCode(t, qless.ErrHasDependents, e.Forget(t.Context(), "j")) })
		require.NoError(t, e.Cancel(t.Context(), "child"))
		require.NoError(t, e.Forget(t.Context(), "j"))
	})
}
