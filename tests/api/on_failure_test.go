package api

import (
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

func TestAJobOfTheSameCallIsWaitedForWithItsOptions(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.puts("q",
			spec(qless.JID("bad"), qless.Headers{"a": "1"}),
			spec(qless.JID("j"), qless.DependsOn{"bad"}, qless.OnFailureRun),
		)
		requireStored(t, `dh|{"h":{"a":"1"}}`, e.stored("bad"))
		bad := e.Pop("q")
		require.Equal(t, qless.Headers{"a": "1"}, bad.Headers)
		require.NoError(t, bad.Fail(t.Context(), "g", "m"))
		require.Equal(t, "j", e.Pop("q").JID)
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
