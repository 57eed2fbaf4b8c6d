package api

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// failures are ways in which the only job of the queue q fails.
var failures = map[string]func(t *testing.T, e *env){
	"fail": func(t *testing.T, e *env) { require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m")) },
	"finish": func(_ *testing.T, e *env) {
		e.run("finish", "w1", "fail", e.Pop("q").JID, "q", "", "4", "group", "g", "message", "m")
	},
	"no retries left": func(t *testing.T, e *env) {
		require.NoError(t, errOf(e.Pop("q").Retry(t.Context(), 0, "g", "m")))
	},
	"lost": func(t *testing.T, e *env) {
		e.Set("grace-period", 0)
		e.Pop("q")
		e.Clock.Advance(time.Hour)
		require.Empty(t, e.Pops("q", 1))
	},
}

func TestAJobRunsAlthoughOneItWaitedForHasFailed(t *testing.T) {
	for what, fail := range failures {
		t.Run(what, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				e.Put("q", qless.JID("bad"), qless.Retries(0))
				e.Put("other", qless.JID("good"))
				e.Put("next", qless.JID("j"), qless.DependsOn{"bad", "good"}, qless.OnFailureRun)
				e.Put("next", qless.JID("plain"), qless.DependsOn{"bad"})
				require.Equal(t, []string{"bad", "good"}, e.Read("j").Options.Parents)
				fail(t, e)
				require.Equal(t, []string{"good"}, e.Read("j").Dependencies)
				require.NoError(t, e.Pop("other").Complete(t.Context()))
				group := e.Read("bad").Failure.Group
				job := e.Pop("next")
				require.Equal(t, []qless.FailedDependency{{JID: "bad", Group: group}}, job.FailedDependencies)
				require.Equal(t, []string{"bad", "good"}, job.Options.Parents)
				entry := e.Read("j").History[1]
				require.Equal(t, "dependency-failed", entry.What)
				require.Equal(t, group, entry.Group)
				require.JSONEq(t, `"bad"`, string(entry.Details["jid"]))
				require.Equal(t, qless.StateDepends, e.Read("plain").State, "without a policy")

				require.NoError(t, e.Read("bad").Unfail(t.Context()))
				require.Equal(t, qless.StateRunning, e.Read("j").State)
				require.NoError(t, e.Pop("q").Complete(t.Context()))
				require.Equal(t, "plain", e.Pop("next").JID)
			})
		})
	}
}

func TestAJobFailsWithOneItWaitsFor(t *testing.T) {
	for what, fail := range failures {
		t.Run(what, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				e.Put("q", qless.JID("bad"), qless.Retries(0))
				good := e.Put("other")
				e.Put("next", qless.JID("child"), qless.DependsOn{"bad", good}, qless.OnFailureFail,
					qless.Unique("child"))
				e.Put("next", qless.JID("grandchild"), qless.DependsOn{"child"}, qless.OnFailureFail)
				e.Put("next", qless.JID("after"), qless.DependsOn{"grandchild"}, qless.OnFailureRun)
				e.Put("next", qless.JID("waits"), qless.DependsOn{"grandchild"}, qless.OnFailureWait)
				fail(t, e)
				for jid, parent := range map[string]string{"child": "bad", "grandchild": "child"} {
					job := e.Read(jid)
					require.Equal(t, qless.StateFailed, job.State)
					require.Equal(t, "failed-dependency", job.Failure.Group)
					group := e.Read(parent).Failure.Group
					require.Equal(t, "It depends on "+parent+", which has failed in "+group, job.Failure.Message)
					require.Equal(t, []qless.FailedDependency{{JID: parent, Group: group}}, job.FailedDependencies)
					require.Empty(t, job.Dependencies)
				}
				require.Equal(t, []string{"waits"}, e.Read("grandchild").Dependents)
				require.Equal(t, "after", e.Pop("next").JID)
				require.Equal(t, qless.StateDepends, e.Read("waits").State)
				require.Equal(t, 2, must(e.inspect().FailureGroups(t.Context()))(t)["failed-dependency"])
				require.Empty(t, must(e.Holder(t.Context(), "child"))(t))

				require.NoError(t, e.Pop("other").Complete(t.Context()))
				require.Equal(t, qless.StateFailed, e.Read("child").State, "it waits for nothing")
				require.NoError(t, e.Read("child").Unfail(t.Context()))
				require.Equal(t, "child", e.Pop("next").JID)
			})
		})
	}
}

func TestRetriesAndLostLocksDoNotCountAsFailed(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("parent"))
		e.Put("next", qless.JID("j"), qless.DependsOn{"parent"}, qless.OnFailureFail)
		require.NoError(t, errOf(e.Pop("q").Retry(t.Context(), 0, "", "")))
		e.Pop("q")
		e.Set("grace-period", 0)
		e.Clock.Advance(time.Hour)
		require.NoError(t, e.Pop("q").Complete(t.Context()))
		require.Equal(t, "j", e.Pop("next").JID)
	})
}

// The cases are ways in which a job begins to wait for one that has already failed.
func TestAJobThatHasFailedAlreadyCounts(t *testing.T) {
	ways := map[string]func(ctx context.Context, e *env, option qless.OnFailure) error{
		"put": func(ctx context.Context, e *env, option qless.OnFailure) error {
			return errOf(e.Queue("next").Put(ctx, "K", nil, qless.JID("j"), qless.DependsOn{"bad"}, option))
		},
		"put again": func(ctx context.Context, e *env, option qless.OnFailure) error {
			e.Put("next", qless.JID("j"), qless.DependsOn{"bad"})
			return errOf(e.Queue("next").Put(ctx, "K", nil, qless.JID("j"), option))
		},
		"put of many": func(ctx context.Context, e *env, option qless.OnFailure) error {
			return errOf(e.Queue("next").PutMany(ctx, []qless.JobSpec{
				{Klass: "K", Options: []qless.PutOption{qless.JID("x"), qless.Delay(time.Hour)}},
				{Klass: "K", Options: []qless.PutOption{qless.JID("j"), qless.DependsOn{"bad"}, option}},
			}))
		},
		"move": func(ctx context.Context, e *env, option qless.OnFailure) error {
			e.Put("q", qless.JID("j"))
			return e.Read("j").Move(ctx, "next", qless.DependsOn{"bad"}, option)
		},
		"next": func(ctx context.Context, e *env, option qless.OnFailure) error {
			e.Put("q", qless.JID("j"))
			return e.Pop("q").Next(ctx, "next", qless.DependsOn{"bad"}, option)
		},
		"next of a job with the option": func(ctx context.Context, e *env, option qless.OnFailure) error {
			e.Put("q", qless.JID("j"), option)
			return e.Pop("q").Next(ctx, "next", qless.DependsOn{"bad"})
		},
		"depend": func(ctx context.Context, e *env, option qless.OnFailure) error {
			e.Put("next", qless.JID("j"), qless.DependsOn{e.Put("q")}, option)
			if err := e.Pop("q").Fail(ctx, "g", "m"); err != nil || option == qless.OnFailureWait {
				return err
			}
			other := e.Put("q")
			e.Put("next", qless.JID("j"), qless.DependsOn{other}, option)
			return e.Read("j").Depend(ctx, "bad")
		},
	}
	for what, way := range ways {
		t.Run(what, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				e.Put("q", qless.JID("bad"))
				require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
				require.NoError(t, way(t.Context(), e, qless.OnFailureFail))
				require.Equal(t, qless.StateFailed, e.Read("j").State)
				if what == "depend" {
					return
				}
				require.NoError(t, e.Cancel(t.Context(), "j"))
				require.NoError(t, way(t.Context(), e, qless.OnFailureRun))
				require.Equal(t, qless.StateWaiting, e.Read("j").State)
				require.NoError(t, e.Cancel(t.Context(), "j"))
				require.NoError(t, way(t.Context(), e, qless.OnFailureWait))
				require.Equal(t, qless.StateDepends, e.Read("j").State)
			})
		})
	}
}

func TestAJobOfTheSameCallIsWaitedForWithItsOptions(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		require.NoError(t, errOf(e.Queue("q").PutMany(t.Context(), []qless.JobSpec{
			{Klass: "K", Options: []qless.PutOption{qless.JID("bad"), qless.Headers{"a": "1"}}},
			{Klass: "K", Options: []qless.PutOption{qless.JID("j"), qless.DependsOn{"bad"}, qless.OnFailureRun}},
		})))
		requireStored(t, `dh|{"h":{"a":"1"}}`, e.stored("bad"))
		bad := e.Pop("q")
		require.Equal(t, qless.Headers{"a": "1"}, bad.Headers)
		require.NoError(t, bad.Fail(t.Context(), "g", "m"))
		require.Equal(t, "j", e.Pop("q").JID)
	})
}

// The delay of a job that runs after a failure still holds.
func TestAJobThatRunsAfterAFailureKeepsItsDelay(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("bad"))
		e.Put("next", qless.JID("j"), qless.DependsOn{"bad"}, qless.OnFailureRun, qless.Delay(time.Minute))
		require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
		require.Equal(t, qless.StateScheduled, e.Read("j").State)
		e.Clock.Advance(time.Minute)
		require.Equal(t, "j", e.Pop("next").JID)
	})
}

func TestPoliciesThatAreRefused(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("running"))
	job := e.Pop("q")
	e.Unchanged(func() {
		err := errOf(e.Queue("q").Put(t.Context(), "K", nil, qless.OnFailure("Run")))
		require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, `the OnFailure "Run" is unknown`)
		requireCode(t, qless.ErrInvalid, job.Next(t.Context(), "q", qless.OnFailure("x")))
		require.ErrorIs(t, qless.Next("q", qless.OnFailure("x")), qless.ErrInvalid)
		for _, text := range []string{`f|{}`, `f|{"f":1}`, `f|{"f":{"do":"x"}}`} {
			_, err = e.Run(t.Context(), "put", "j", "w1", "q", "j", "K", "{}", "0", "o", text, "checked", "1")
			requireCode(t, qless.ErrInvalid, err)
			_, err = e.Run(t.Context(), "complete", "running", "running", "w1", "q", "{}", "next", "q", "o", text)
			requireCode(t, qless.ErrInvalid, err)
		}
	})
}

// A worker sends the outcomes of its jobs together. A job that moves on and waits for another of
// them marks that one, whose own options change in the same call.
func TestAJobThatMovesOnWaitsForOneOfTheSameCall(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("a"))
		e.Put("q", qless.JID("b"))
		e.Pops("q", 2)
		e.run("finish", "w1",
			"complete", "a", "q", "", "6", "next", "q2", "depends", `["b"]`, "o", `f|{"f":{"do":"run","of":["b"]}}`,
			"complete", "b", "q", "", "4", "next", "q", "o", `h|{"h":{"k":"v"}}`)
		require.Equal(t, qless.Headers{"k": "v"}, e.Read("b").Headers)
		require.Equal(t, qless.StateDepends, e.Read("a").State)
		require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
		require.Equal(t, "a", e.Pop("q2").JID)
	})
}
