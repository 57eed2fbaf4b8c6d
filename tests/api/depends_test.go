package api

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/shards"
	"github.com/qless/qless-go/tests/scripts"
)

// manyDependencies is the number of jobs that the job of dependOnMany waits for: more than two
// steps of a thousand.
const manyDependencies = 2500

// dependOnMany puts a job that waits for many others, of which only the first exists.
func (e *env) dependOnMany() *qless.Job {
	e.T.Helper()
	jid := e.Put("q", qless.DependsOn{e.Put("others", qless.JID("other-0"))})
	e.pipe(manyDependencies, func(p redis.Pipeliner, i int) {
		other := fmt.Sprint("other-", i)
		p.SAdd(e.T.Context(), "ql:j:"+jid+"-dependencies", other)
		p.SAdd(e.T.Context(), "ql:j:"+other+"-dependents", jid)
	})
	return e.Read(jid)
}

// requireDependsOn requires that a job waits for that many of them, and that they list it as a
// dependent.
func (e *env) requireDependsOn(count int, jid string) {
	e.T.Helper()
	job := e.Read(jid)
	require.Equal(e.T, qless.StateDepends, job.State)
	require.Len(e.T, job.Dependencies, count)
	require.Len(e.T, e.Redis.Keys(e.T.Context(), "ql:j:other-*-dependents").Val(), count)
	require.Empty(e.T, e.Pops("q", 1))
}

func TestUndependAllOfManyGoesInSteps(t *testing.T) {
	e := newEnv(t)
	job := e.dependOnMany()
	for _, script := range e.scriptsOf(func() { require.NoError(t, job.UndependAll(t.Context())) }) {
		require.LessOrEqual(t, len(script), 1000*2+20)
		require.LessOrEqual(t, membersRead(t, script, manyDependencies), 1000)
	}
	require.Empty(t, e.Redis.Keys(t.Context(), "ql:j:*-depend*").Val())
	require.Equal(t, job.JID, e.Pop("q").JID)
}

// The job then waits for fewer others, and is released as usual.
func TestAnUndependAllThatBreaksIsCalledAgain(t *testing.T) {
	e := newEnv(t)
	job := e.dependOnMany()
	ctx, client := e.cutAfter("depends")
	requireCode(t, qless.ErrUnavailable, must(client.Job(ctx, job.JID))(t).UndependAll(ctx))
	e.requireDependsOn(manyDependencies-1000, job.JID)

	// The last dependencies are removed only if the job can be moved.
	work := "ql:q:q-work"
	require.NoError(t, e.Redis.Set(t.Context(), work, "damaged", 0).Err())
	requireCode(t, qless.ErrServer, job.UndependAll(t.Context()))
	require.NoError(t, e.Redis.Del(t.Context(), work).Err())
	e.requireDependsOn(manyDependencies-2000, job.JID)

	require.NoError(t, job.UndependAll(t.Context()))
	require.Equal(t, job.JID, e.Pop("q").JID)
}

func TestAJobCalledAllIsADependencyLikeAnother(t *testing.T) {
	for name, ended := range map[string][]string{"alone": {"all"}, "first": {"all", "unknown"}, "last": {"unknown", "all"}} {
		runEnv(t, name, func(t *testing.T, e *env) {
			e.Put("others", qless.JID("all"))
			e.Put("others", qless.JID("b"))
			e.Put("q", qless.JID("j"), qless.DependsOn{"all", "b"})
			require.NoError(t, e.Read("j").Undepend(t.Context(), ended...))
			require.Equal(t, []string{"b"}, e.Read("j").Dependencies)
			require.Equal(t, qless.StateDepends, e.Read("j").State)
		})
	}
}

// listSuffixes are the suffixes of the keys of each job's lists.
var listSuffixes = []string{"-history", "-dependents", "-dependencies"}

func TestADependencyNamedLikeAListOfAJobIsRefused(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("x"), qless.DependsOn{e.Put("q", qless.JID("parent"), qless.Priority(1))})
	e.Put("q", qless.JID("running"), qless.Priority(2))
	running := e.Pop("q")
	require.Equal(t, "running", running.JID)
	sharded := e.sharded(shards.ByJID, 2)
	ctx := t.Context()
	for _, suffix := range listSuffixes {
		name := "x" + suffix
		depends := qless.DependsOn{"parent", name}
		for what, call := range map[string]func() (string, error){
			"Put": func() (string, error) {
				_, err := e.Queue("q").Put(ctx, "K", nil, qless.JID("j"), depends)
				return "j", err
			},
			"Put of a job that exists": func() (string, error) {
				_, err := e.Queue("q").Put(ctx, "K", nil, qless.JID("x"), depends)
				return "x", err
			},
			"PutMany": func() (string, error) {
				_, err := e.Queue("q").PutMany(ctx, []qless.JobSpec{
					{Klass: "K"}, spec(qless.JID("j"), depends),
				})
				return "j", err
			},
			"Put into shards": func() (string, error) {
				_, err := sharded.Queue("q").Put(ctx, "K", nil, qless.JID("j"), depends)
				return "j", err
			},
			"PutMany into shards": func() (string, error) {
				_, err := sharded.Queue("q").PutMany(ctx, []qless.JobSpec{
					{Klass: "K"}, spec(qless.JID("j"), depends),
				})
				return "j", err
			},
			"Complete": func() (string, error) { return "running", running.Next(ctx, "q2", depends) },
			"Move":     func() (string, error) { return "x", e.Read("x").Move(ctx, "q2", depends) },
			"Depend":   func() (string, error) { return "x", e.Read("x").Depend(ctx, "parent", name) },
		} {
			e.Unchanged(func() {
				jid, err := call()
				failure := requireCode(t, qless.ErrInvalid, err)
				require.Equal(t, jid, failure.JID, "%s: %s", what, name)
				require.Contains(t, failure.Message, name, what)
			})
		}
	}
	require.NoError(t, e.Read("x").Undepend(ctx, "x-history"), "it has none, and nothing is written")
	require.Equal(t, qless.StateDepends, e.Read("x").State)
}

func TestDependenciesThatMustExist(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		q := e.Queue("q")
		before := e.Put("q", qless.JID("before"))
		done := e.Put("done")
		require.NoError(t, e.Pop("done").Complete(t.Context()))
		put := func(on ...string) error {
			return errOf(q.Put(t.Context(), "K", nil, qless.JID("last"), qless.DependsOn(on).MustExist()))
		}
		err := requireCode(t, qless.ErrNotFound, put(before, "nowhere"))
		require.Contains(t, err.Error(), "nowhere")
		_, readErr := e.Client.Job(t.Context(), "last")
		requireCode(t, qless.ErrNotFound, readErr)
		require.NoError(t, put(before, done))
		require.Equal(t, qless.StateDepends, e.Read("last").State)
		requireCode(t, qless.ErrNotFound, put("nowhere"))
		require.Equal(t, []string{before}, e.Read("last").Dependencies, "it is as it was")

		specs := []qless.JobSpec{
			spec(qless.JID("first")),
			spec(qless.JID("second"), qless.DependsOn{"first"}.MustExist()),
			spec(qless.JID("third"), qless.DependsOn{"thrid"}.MustExist()),
		}
		_, err2 := q.PutMany(t.Context(), specs)
		requireCode(t, qless.ErrNotFound, err2)
		_, readErr = e.Client.Job(t.Context(), "first")
		requireCode(t, qless.ErrNotFound, readErr)
		_, err2 = q.PutMany(t.Context(), specs[:2])
		require.NoError(t, err2)
		require.Equal(t, []string{"first"}, e.Read("second").Dependencies)
	})
}

// Puts of several goroutines share a call. If one is refused, the others are not.
func TestAMissingDependencyRefusesNoOtherPut(t *testing.T) {
	e := newEnv(t)
	errs := make(chan error)
	for i := range 40 {
		go func() {
			var options []qless.PutOption
			if i == 20 {
				options = append(options, qless.DependsOn{"unknown"}.MustExist())
			}
			_, err := e.Client.Queue("q").Put(context.WithoutCancel(t.Context()), "K", nil, options...)
			errs <- err
		}()
	}
	refused := 0
	for range 40 {
		if err := <-errs; err != nil {
			require.ErrorIs(t, err, qless.ErrNotFound)
			refused++
		}
	}
	require.Equal(t, 1, refused)
	require.Equal(t, 39, e.Counts("q").Waiting)
}

// The model has the circles that other calls would close.
func TestACircleThroughTwoBatchesIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		one, two := e.batch().ID, e.batch().ID
		after := e.Put("q", qless.JID("after"), qless.DependsOn{one})
		e.Unchanged(func() {
			_, err := e.Do(t.Context(), "put.many", "w1", "",
				"q", "new", "K", "{}", 0, 4, "batch", one, "depends", `["`+two+`"]`,
				"q", after, "K", "{}", 0, 4, "batch", two, "depends", `["`+one+`"]`)
			require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, "would wait for")
		})
	})
}

// waiter is a job that depends on others.
func waiter(jid string, on ...string) qless.JobSpec {
	return spec(qless.JID(jid), qless.DependsOn(on))
}

// A client in another language may close a circle, and any put may open it.
func TestACircleOfAnotherClientCanBeOpened(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("a"))
		e.Put("q", qless.JID("b"), qless.DependsOn{"a"})
		_, err := scripts.RunDropIn(t.Context(), e.Redis, "put", scripts.Time(e.Clock.Now()),
			"ruby", "q", "a", "K", "{}", 0,
			"depends", `["b"]`)
		require.NoError(t, err)
		require.Equal(t, []string{"b"}, e.Read("a").Dependencies)
		e.Put("q", qless.JID("c"))
		e.Put("q", qless.JID("a"), qless.DependsOn{"c"})
		require.Equal(t, []string{"c"}, e.Read("a").Dependencies)
		require.Empty(t, e.Read("b").Dependents)
	})
}

// A call follows no more than 1,000 dependencies.
func TestTheSearchForACircleIsBounded(t *testing.T) {
	e := newEnv(t)
	chain := e.putChain(1200)
	e.requireShort(1100, func() { e.Put("q", qless.JID(chain[0]), qless.DependsOn{chain[1199]}) })
	require.Equal(t, []string{chain[1199]}, e.Read(chain[0]).Dependencies)
}

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
		runOnEach(t, what, func(t *testing.T, e *env) {
			e.Put("q", qless.JID("bad"), qless.Retries(0))
			e.Put("other", qless.JID("good"))
			e.Put("next", qless.JID("j"), qless.DependsOn{"bad", "good"}, qless.OnFailureRun)
			e.Put("next", qless.JID("plain"), qless.DependsOn{"bad"})
			require.Equal(t, []string{"bad", "good"}, e.Read("j").Options.Parents)
			fail(t, e)
			require.Equal(t, []string{"good"}, e.Read("j").Dependencies)
			e.Put("moves", qless.JID("moved"))
			require.Equal(t, "waiting", e.run("complete", e.Pop("moves").JID, "w1", "moves", "{}", "next", "moves",
				"depends", `["bad"]`, "o", `f|{"f":{"do":"run","of":["bad"]}}`))
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
