package api

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit/repairs"
)

func TestADependentWaitsForAll(t *testing.T) {
	e := newEnv(t)
	e.put("q", qless.JID("a"))
	e.put("q", qless.JID("b"))
	e.put("q", qless.JID("c"), qless.DependsOn{"a"}, qless.DependsOn{"b"})

	job := e.job("c")
	require.Equal(t, qless.StateDepends, job.State)
	require.ElementsMatch(t, []string{"a", "b"}, job.Dependencies)
	require.Equal(t, []string{"c"}, e.job("a").Dependents)
	require.Equal(t, 1, e.counts("q").Depends)
	depends, err := inspect.New(e.Client).Queue("q", inspect.Depends).JIDs(t.Context(), inspect.Range{})
	require.NoError(t, err)
	require.Equal(t, []string{"c"}, depends.Items)

	first := e.pops("q", 5)
	require.Equal(t, []string{"a", "b"}, jids(first))
	require.NoError(t, first[0].Complete(t.Context()))
	require.Equal(t, []string{"b"}, e.job("c").Dependencies)
	require.Empty(t, e.pops("q", 5))
	require.NoError(t, first[1].Complete(t.Context()))
	require.Equal(t, "c", e.pop("q").JID)
	require.Empty(t, e.job("a").Dependents)
}

func TestDependenciesThatCanNotBeWaitedForAreIgnored(t *testing.T) {
	e := newEnv(t)
	e.put("q", qless.JID("done"))
	require.NoError(t, e.pop("q").Complete(t.Context()))
	e.put("q", qless.JID("j"), qless.DependsOn{"done", "unknown"})
	require.Equal(t, "j", e.pop("q").JID)
	require.Empty(t, e.job("j").Dependencies)
}

func TestDependentsWaitForTheEndOfAChain(t *testing.T) {
	e := newEnv(t)
	e.put("q", qless.JID("a"))
	e.put("q", qless.JID("c"), qless.DependsOn{"a"})
	require.NoError(t, e.pop("q").Next(t.Context(), "next"))
	require.Empty(t, e.pops("q", 1), "a goes on, it is not complete")
	require.NoError(t, e.pop("next").Fail(t.Context(), "g", "m"))
	require.Empty(t, e.pops("q", 1), "a has failed")
	moved, err := repairs.UnfailInto(t.Context(), e.Client, "next", "g", 1)
	require.NoError(t, err)
	require.Equal(t, 1, moved)
	require.NoError(t, e.pop("next").Complete(t.Context()))
	require.Equal(t, "c", e.pop("q").JID)
}

func TestAReleasedDependentKeepsItsDelay(t *testing.T) {
	e := newEnv(t)
	e.put("q", qless.JID("a"))
	e.put("q", qless.JID("c"), qless.DependsOn{"a"}, qless.Delay(time.Minute))
	require.Equal(t, qless.StateDepends, e.job("c").State)
	require.NoError(t, e.pop("q").Complete(t.Context()))
	require.Equal(t, qless.StateScheduled, e.job("c").State)
	require.Empty(t, e.pops("q", 1))
	e.clock.Advance(time.Minute)
	require.Equal(t, "c", e.pop("q").JID)
}

func TestDependAddsDependencies(t *testing.T) {
	e := newEnv(t)
	for _, jid := range []string{"a", "b"} {
		e.put("others", qless.JID(jid))
	}
	e.put("q", qless.JID("c"), qless.DependsOn{"a"})
	job := e.job("c")
	require.NoError(t, job.Depend(t.Context(), "b", "unknown"))
	require.ElementsMatch(t, []string{"a", "b"}, e.job("c").Dependencies)
	require.Equal(t, []string{"c"}, e.job("b").Dependents)
}

func TestUndependEndsDependencies(t *testing.T) {
	e := newEnv(t)
	for _, jid := range []string{"a", "b", "c"} {
		e.put("others", qless.JID(jid))
	}
	e.put("q", qless.JID("j"), qless.DependsOn{"a", "b", "c"})
	job := e.job("j")
	require.NoError(t, job.Undepend(t.Context(), "a", "unknown"))
	require.ElementsMatch(t, []string{"b", "c"}, e.job("j").Dependencies)
	require.Empty(t, e.pops("q", 1))
	require.NoError(t, job.Undepend(t.Context(), "b", "c"))
	require.Empty(t, e.job("c").Dependents)
	require.Equal(t, "j", e.pop("q").JID)
}

func TestUndependAllFreesAJob(t *testing.T) {
	e := newEnv(t)
	for _, jid := range []string{"a", "b"} {
		e.put("others", qless.JID(jid))
	}
	e.put("q", qless.JID("j"), qless.DependsOn{"a", "b"}, qless.Delay(time.Hour))
	require.NoError(t, e.job("j").UndependAll(t.Context()))
	require.Equal(t, "j", e.pop("q").JID, "at once, without its delay")
	require.Empty(t, e.job("a").Dependents)
}

// manyDependencies is how many jobs dependOnMany has a job wait for: of a thousand in a step, more
// than one step ends.
const manyDependencies = 2500

// dependOnMany puts a job that waits for many others, of which only the first is there.
func (e *env) dependOnMany() *qless.Job {
	e.t.Helper()
	jid := e.put("q", qless.DependsOn{e.put("others", qless.JID("other-0"))})
	e.pipe(manyDependencies, func(p redis.Pipeliner, i int) {
		other := fmt.Sprint("other-", i)
		p.SAdd(e.t.Context(), "ql:j:"+jid+"-dependencies", other)
		p.SAdd(e.t.Context(), "ql:j:"+other+"-dependents", jid)
	})
	return e.job(jid)
}

// requireDependsOn requires that a job waits for some number of those, and that these know.
func (e *env) requireDependsOn(count int, jid string) {
	e.t.Helper()
	job := e.job(jid)
	require.Equal(e.t, qless.StateDepends, job.State)
	require.Len(e.t, job.Dependencies, count)
	require.Len(e.t, e.rdb.Keys(e.t.Context(), "ql:j:other-*-dependents").Val(), count)
	require.Empty(e.t, e.pops("q", 1))
}

func TestUndependAllOfManyGoesInSteps(t *testing.T) {
	e := newEnv(t)
	job := e.dependOnMany()
	for _, script := range e.scriptsOf(func() { require.NoError(t, job.UndependAll(t.Context())) }) {
		require.LessOrEqual(t, len(script), 1000*2+20)
		require.LessOrEqual(t, membersRead(t, script, manyDependencies), 1000)
	}
	require.Empty(t, e.rdb.Keys(t.Context(), "ql:j:*-depend*").Val())
	require.Equal(t, job.JID, e.pop("q").JID)
}

// The job waits for fewer others, and is released as usual.
func TestAnUndependAllThatBreaksIsCalledAgain(t *testing.T) {
	e := newEnv(t)
	job := e.dependOnMany()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client := e.client(e.rdb, qless.ClientConfig{Observer: func(_ context.Context, call qless.Call) {
		if call.Command == "depends" {
			cancel()
		}
	}})
	broken, err := client.Job(ctx, job.JID)
	require.NoError(t, err)
	requireCode(t, qless.ErrUnavailable, broken.UndependAll(ctx))
	e.requireDependsOn(manyDependencies-1000, job.JID)

	// The last ones are ended only if the job can be moved.
	work := "ql:q:q-work"
	require.NoError(t, e.rdb.Set(t.Context(), work, "damaged", 0).Err())
	requireCode(t, qless.ErrServer, job.UndependAll(t.Context()))
	require.NoError(t, e.rdb.Del(t.Context(), work).Err())
	e.requireDependsOn(manyDependencies-2000, job.JID)

	require.NoError(t, job.UndependAll(t.Context()))
	require.Equal(t, job.JID, e.pop("q").JID)
}

func TestAJobCalledAllIsADependencyLikeAnother(t *testing.T) {
	for name, ended := range map[string][]string{"alone": {"all"}, "first": {"all", "unknown"}, "last": {"unknown", "all"}} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.put("others", qless.JID("all"))
			e.put("others", qless.JID("b"))
			e.put("q", qless.JID("j"), qless.DependsOn{"all", "b"})
			require.NoError(t, e.job("j").Undepend(t.Context(), ended...))
			require.Equal(t, []string{"b"}, e.job("j").Dependencies)
			require.Equal(t, qless.StateDepends, e.job("j").State)
		})
	}
}

func TestDependenciesOfAJobThatDoesNotWaitCanNotBeChanged(t *testing.T) {
	e := newEnv(t)
	e.put("q", qless.JID("a"))
	e.put("q", qless.JID("j"))
	job := e.job("j")
	e.unchanged(func() {
		for _, err := range []error{
			job.Depend(t.Context(), "a"), job.Undepend(t.Context(), "a"), job.UndependAll(t.Context()),
		} {
			require.Equal(t, "j", requireCode(t, qless.ErrNotDepending, err).JID)
		}
	})
	require.NoError(t, job.Cancel(t.Context()))
	requireCode(t, qless.ErrNotFound, job.Depend(t.Context(), "a"))
	requireCode(t, qless.ErrNotFound, job.UndependAll(t.Context()))
}

func TestADependencyIsCanceledOnlyTogetherWithItsDependents(t *testing.T) {
	e := newEnv(t)
	e.put("q", qless.JID("a"))
	e.put("q", qless.JID("b"), qless.DependsOn{"a"})
	e.put("q", qless.JID("c"), qless.DependsOn{"b"})
	e.unchanged(func() {
		err := e.Cancel(t.Context(), "a")
		require.Equal(t, "a", requireCode(t, qless.ErrHasDependents, err).JID)
		requireCode(t, qless.ErrHasDependents, e.Cancel(t.Context(), "a", "b"))
		requireCode(t, qless.ErrHasDependents, e.job("b").Cancel(t.Context()))
	})
	require.NoError(t, e.Cancel(t.Context(), "a", "b", "c"))
	require.Equal(t, qless.QueueCounts{Name: "q"}, e.counts("q"))
}

func TestACanceledDependentIsNotWaitedOn(t *testing.T) {
	e := newEnv(t)
	e.put("q", qless.JID("a"))
	e.put("q", qless.JID("b"), qless.DependsOn{"a"})
	require.NoError(t, e.Cancel(t.Context(), "b"))
	require.Empty(t, e.job("a").Dependents)
	require.NoError(t, e.pop("q").Complete(t.Context()))
	require.Empty(t, e.pops("q", 1))
}

func TestPutReplacesDependenciesWhenItNamesAny(t *testing.T) {
	e := newEnv(t)
	for _, jid := range []string{"a", "b"} {
		e.put("others", qless.JID(jid))
	}
	e.put("q", qless.JID("j"), qless.DependsOn{"a"})
	e.put("q", qless.JID("j"))
	require.Equal(t, []string{"a"}, e.job("j").Dependencies, "none are named")
	require.Equal(t, qless.StateDepends, e.job("j").State)
	e.put("q2", qless.JID("j"), qless.DependsOn{"b"})
	require.Equal(t, []string{"b"}, e.job("j").Dependencies)
	require.Empty(t, e.job("a").Dependents)
	requireCode(t, qless.ErrHasDependents, e.Cancel(t.Context(), "b"))
}

// listSuffixes end the keys of the lists that each job has.
var listSuffixes = []string{"-history", "-dependents", "-dependencies"}

func TestADependencyNamedLikeAListOfAJobIsRefused(t *testing.T) {
	e := newEnv(t)
	e.put("q", qless.JID("x"), qless.DependsOn{e.put("q", qless.JID("parent"), qless.Priority(1))})
	e.put("q", qless.JID("running"), qless.Priority(2))
	running := e.pop("q")
	require.Equal(t, "running", running.JID)
	shards := e.shards(qless.ShardByJID, 2)
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
					{Klass: "K"}, {Klass: "K", Options: []qless.PutOption{qless.JID("j"), depends}},
				})
				return "j", err
			},
			"Put into shards": func() (string, error) {
				_, err := shards.Queue("q").Put(ctx, "K", nil, qless.JID("j"), depends)
				return "j", err
			},
			"PutMany into shards": func() (string, error) {
				_, err := shards.Queue("q").PutMany(ctx, []qless.JobSpec{
					{Klass: "K"}, {Klass: "K", Options: []qless.PutOption{qless.JID("j"), depends}},
				})
				return "j", err
			},
			"Complete": func() (string, error) {
				return "running", running.Next(ctx, "q2", depends)
			},
			"Move":   func() (string, error) { return "x", e.job("x").Move(ctx, "q2", depends) },
			"Depend": func() (string, error) { return "x", e.job("x").Depend(ctx, "parent", name) },
		} {
			e.unchanged(func() {
				jid, err := call()
				failure := requireCode(t, qless.ErrInvalid, err)
				require.Equal(t, jid, failure.JID, "%s: %s", what, name)
				require.Contains(t, failure.Message, name, what)
			})
		}
	}
	require.NoError(t, e.job("x").Undepend(ctx, "x-history"), "there is none, and nothing is written")
	require.Equal(t, qless.StateDepends, e.job("x").State)
}
