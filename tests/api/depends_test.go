package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/shards"
	"github.com/qless/qless-go/tests/scripts"
)

// manyDependencies is the number of dependencies of the job of dependOnMany: more than two steps of
// a thousand.
const manyDependencies = 2500

// dependOnMany puts a job with many dependencies, of which only the first exists.
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

// requireDependsOn requires that a job has that many dependencies, and that they list it as a
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

func TestADependencyNamedLikeAListOfAJobIsRefused(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("x"), qless.DependsOn{e.Put("q", qless.JID("parent"), qless.Priority(1))})
	e.Put("q", qless.JID("running"), qless.Priority(2))
	running := e.Pop("q")
	require.Equal(t, "running", running.JID)
	ctx, q, sharded := t.Context(), e.Queue("q"), e.sharded(shards.ByJID, 2).Queue("q")
	for _, suffix := range []string{"-history", "-dependents", "-dependencies"} {
		name, jid := "x"+suffix, qless.JID("j")
		depends := qless.DependsOn{"parent", name}
		many := []qless.JobSpec{{Klass: "K"}, spec(jid, depends)}
		e.Unchanged(func() {
			for what, c := range map[string]struct {
				jid string
				err error
			}{
				"Put":                      {"j", errOf(q.Put(ctx, "K", nil, jid, depends))},
				"Put of a job that exists": {"x", errOf(q.Put(ctx, "K", nil, qless.JID("x"), depends))},
				"PutMany":                  {"j", errOf(q.PutMany(ctx, many))},
				"Put into shards":          {"j", errOf(sharded.Put(ctx, "K", nil, jid, depends))},
				"PutMany into shards":      {"j", errOf(sharded.PutMany(ctx, many))},
				"Complete":                 {"running", running.Next(ctx, "q2", depends)},
				"Move":                     {"x", e.Read("x").Move(ctx, "q2", depends)},
				"Depend":                   {"x", e.Read("x").Depend(ctx, "parent", name)},
			} {
				failure := requireCode(t, qless.ErrInvalid, c.err)
				require.Equal(t, c.jid, failure.JID, "%s: %s", what, name)
				require.Contains(t, failure.Message, name, what)
			}
		})
	}
	require.NoError(t, e.Read("x").Undepend(ctx, "x-history"), "it has none, and nothing is written")
	require.Equal(t, qless.StateDepends, e.Read("x").State)
}

// The methods of dependencyOnEach are tests on a real server, and on miniredis.
type dependencyOnEach struct{}

func TestDependenciesOnEachServer(t *testing.T) { runEach(t, dependencyOnEach{}) }

func (dependencyOnEach) DependenciesThatMustExist(t *testing.T, e *env) {
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

	for _, delay := range []time.Duration{time.Hour, 0} { // the later put has no delay
		e.Put("q", qless.JID("second"), qless.DependsOn{"first"}, qless.Delay(delay))
	}
	require.Zero(t, e.Read("second").Due)
}

// The model has the circles closed by other calls.
func (dependencyOnEach) ACircleThroughTwoBatchesIsRefused(t *testing.T, e *env) {
	one, two := e.batch().ID, e.batch().ID
	after := e.Put("q", qless.JID("after"), qless.DependsOn{one})
	running := e.start("q")
	waits := e.Put("q", qless.DependsOn{running.JID})
	e.Unchanged(func() {
		_, err := e.Do(t.Context(), "put.many", "w1", "",
			"q", "new", "K", "{}", 0, 4, "batch", one, "depends", `["`+two+`"]`,
			"q", after, "K", "{}", 0, 4, "batch", two, "depends", `["`+one+`"]`)
		require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, "would wait for")
		err = running.Next(t.Context(), "q", qless.DependsOn{waits})
		require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, "would wait for")
	})
}

// A classic client may close a circle, and any put may open it.
func (dependencyOnEach) ACircleOfAnotherClientCanBeOpened(t *testing.T, e *env) {
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
}

// A call follows no more than 1,000 dependencies.
func TestTheSearchForACircleIsBounded(t *testing.T) {
	e := newEnv(t)
	chain := e.putChain(1200)
	e.requireShort(1100, func() { e.Put("q", qless.JID(chain[0]), qless.DependsOn{chain[1199]}) })
	require.Equal(t, []string{chain[1199]}, e.Read(chain[0]).Dependencies)
}

func (dependencyOnEach) AJobOfTheSameCallIsWaitedForWithItsOptions(t *testing.T, e *env) {
	e.puts("q",
		spec(qless.JID("bad"), qless.Headers{"a": "1"}),
		spec(qless.JID("j"), qless.DependsOn{"bad"}, qless.OnFailureRun),
	)
	requireStored(t, `dh|{"h":{"a":"1"}}`, e.stored("bad"))
	bad := e.Pop("q")
	require.Equal(t, qless.Headers{"a": "1"}, bad.Headers)
	require.NoError(t, bad.Fail(t.Context(), "g", "m"))
	require.Equal(t, "j", e.Pop("q").JID)
}

// A worker sends the outcomes of its jobs together. A job that moves on and waits for another of
// these jobs marks that job, and that job's own options change in the same call.
func (dependencyOnEach) AJobThatMovesOnWaitsForOneOfTheSameCall(t *testing.T, e *env) {
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
}

// batch creates a batch whose callback is in the queue callbacks.
func (e *env) batch(options ...qless.PutOption) *qless.Batch {
	e.T.Helper()
	b, err := e.NewBatch(e.T.Context(), "callbacks", qless.JobSpec{Klass: "Done", Options: options})
	require.NoError(e.T, err)
	return b
}

// adds adds count members in the queue q.
func (e *env) adds(b *qless.Batch, count int, options ...qless.PutOption) []string {
	e.T.Helper()
	jids := must(b.Add(e.T.Context(), "q", specs(count, options...)))(e.T)
	require.Len(e.T, jids, count)
	return jids
}

func (e *env) status(b *qless.Batch) qless.BatchStatus {
	e.T.Helper()
	return must(b.Status(e.T.Context()))(e.T)
}

func (e *env) commits(b *qless.Batch) {
	e.T.Helper()
	require.NoError(e.T, b.Commit(e.T.Context()))
}

// completes completes count jobs of the queue q.
func (e *env) completes(count int) {
	e.T.Helper()
	for range count {
		require.NoError(e.T, e.Pop("q").Complete(e.T.Context()))
	}
}

func (dependencyOnEach) InvalidBatches(t *testing.T, e *env) {
	ctx := t.Context()
	b := e.batch(qless.JID("b"))
	plain := e.Put("q")
	e.Unchanged(func() {
		for _, err := range []error{
			errOf(e.NewBatch(ctx, "", qless.JobSpec{Klass: "K"})),
			errOf(e.NewBatch(ctx, "q", qless.NewKlass[any]("K").Spec(nil, qless.DependsOn{"j"}))),
			errOf(e.NewBatch(ctx, "q", qless.NewKlass[any]("K").Spec(nil, qless.OnFailure("else")))),
			errOf(e.Batch("").Add(ctx, "q", specs(1))), e.Batch("").Commit(ctx), errOf(e.Batch("").Status(ctx)),
			e.Batch("\xff").Cancel(ctx), e.Batch("x:open").Commit(ctx),
			errOf(b.Add(ctx, "", specs(1))), errOf(b.Add(ctx, "q", specs(1, qless.Delay(-1)))),
			errOf(b.Add(ctx, "q", specs(1, qless.JID("b")))),
			errOf(b.Add(ctx, "q", specs(1, qless.DependsOn{"b"}))),
			errOf(pending(ctx, e.Batch(""))),
			e.Batch(plain).Commit(ctx), errOf(e.Batch(plain).Status(ctx)), e.Batch(plain).Cancel(ctx),
			errOf(e.Queue("q").Put(ctx, "K", nil, qless.JID("x:open"))),
			errOf(e.Queue("q").Put(ctx, "K", nil, qless.DependsOn{"x:open"})),
		} {
			requireCode(t, qless.ErrInvalid, err)
		}
		requireCode(t, qless.ErrNotFound, errOf(pending(ctx, e.Batch("unknown"))))
		requireCode(t, qless.ErrNotDepending, errOf(e.Batch(plain).Add(ctx, "q", specs(1))))
		require.Equal(t, "the job does not exist",
			requireCode(t, qless.ErrNotFound, errOf(e.Batch("unknown").Add(ctx, "q", specs(1)))).Message)
		requireCode(t, qless.ErrExists, errOf(e.NewBatch(ctx, "q", qless.NewKlass[any]("K").Spec(nil, qless.JID("b"), qless.IfAbsent))))
	})
	waits := e.Put("q", qless.DependsOn{plain})
	e.Unchanged(func() { requireCode(t, qless.ErrInvalid, errOf(e.Batch(waits).Add(ctx, "q", specs(1)))) })
	require.Empty(t, must(b.Add(ctx, "q", nil))(t))
}

// If a connection breaks before the reply to an Add, members are neither lost nor duplicated, even
// if they have ended before the Add is repeated.
func TestMembersAreAddedOnceWhenTheConnectionBreaks(t *testing.T) {
	for where, c := range cuts {
		t.Run(where, func(t *testing.T) {
			e, proxy, client := proxied(t)
			b := e.batch(qless.OnFailureRun)
			c.cut(proxy, scripts.Sent("put.many"))
			require.Len(t, must(client.Batch(b.ID).Add(t.Context(), "q", specs(3)))(t), 3)
			require.Equal(t, 2, seen(proxy, "put.many"))
			require.Equal(t, qless.BatchStatus{State: qless.StateDepends, Open: true, Pending: 3, Total: 3}, e.status(b))
			require.Equal(t, 3, e.Counts("q").Waiting)

			c.cut(proxy, scripts.Sent("put.many"))
			_, err := client.Batch(b.ID).Add(t.Context(), "q", specs(1, qless.JID("named")))
			requireCode(t, qless.ErrUnavailable, err)
			_, err = client.Batch(b.ID).Add(t.Context(), "q", specs(1, qless.JID("named"), qless.IfAbsent))
			require.Equal(t, c.ran, errors.Is(err, qless.ErrExists))
			require.Equal(t, 4, e.status(b).Total)
		})
	}
}

// The second of two equal calls finds the jobs put by the first, regardless of later changes.
func TestAnAddThatIsSentTwiceLeavesWhatItFinds(t *testing.T) {
	for name, between := range map[string]func(e *env, b *qless.Batch){
		"pending":  func(*env, *qless.Batch) {},
		"done":     func(e *env, _ *qless.Batch) { e.completes(2) },
		"released": func(e *env, b *qless.Batch) { e.commits(b); e.completes(2) },
		"over": func(e *env, b *qless.Batch) {
			e.commits(b)
			e.completes(2)
			require.NoError(e.T, e.Pop("callbacks").Complete(e.T.Context()))
		},
	} {
		runOnEach(t, name, func(t *testing.T, e *env) {
			b := e.batch()
			args := []any{"w1", "new", "q", "m1", "K", "{}", "0", "2", "batch", b.ID,
				"q", "m2", "K", "{}", "0", "2", "batch", b.ID}
			e.run("put.many", args...)
			between(e, b)
			e.Unchanged(func() { e.run("put.many", args...) })
			require.Equal(t, 2, e.status(b).Total)
		})
	}
}

func TestMembersOfABatchOfShardsAreInItsShard(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	sharded := e.sharded(shards.ByJID, 4)
	for i := range 8 {
		id := fmt.Sprint("batch-", i)
		b := must(sharded.NewBatch(ctx, "callbacks", qless.NewKlass[any]("Done").Spec(nil, qless.JID(id))))(t)
		for _, jid := range must(sharded.Batch("callbacks", id).Add(ctx, "q", specs(5)))(t) {
			require.Same(t, sharded.Client("q", id), sharded.Client("q", jid))
		}
		require.NoError(t, errOf(b.Add(ctx, "q", specs(1, qless.JID("{"+id+"}-7")))))
		brief := specs(1, qless.KeepFor(0)) // a put of it is not sent again
		require.NoError(t, errOf(b.Add(ctx, "q", brief)))
		require.Equal(t, 7, e.status(b.Batch).Total)
		require.NoError(t, b.Commit(ctx))
		require.NoError(t, b.Cancel(ctx))
	}
	b := must(sharded.NewBatch(ctx, "callbacks", qless.JobSpec{Klass: "Done"}))(t)
	wrong := 0
	for i := range 20 {
		if _, err := b.Add(ctx, "q", specs(1, qless.JID(fmt.Sprint("else-", i)))); err != nil {
			requireCode(t, shards.ErrWrongShard, err)
			wrong++
		}
	}
	require.Positive(t, wrong)
	require.Equal(t, 20-wrong, e.status(b.Batch).Total)
	requireCode(t, qless.ErrInvalid, errOf(sharded.NewBatch(ctx, "q", qless.NewKlass[any]("K").Spec(nil, qless.Unique("k")))))

	byQueue := e.sharded(shards.ByQueue, 2)
	b = must(byQueue.NewBatch(ctx, "callbacks", qless.JobSpec{Klass: "Done"}))(t)
	for i := range 20 {
		queue := fmt.Sprint("q", i)
		_, err := b.Add(ctx, queue, specs(1))
		if byQueue.Client(queue, "") == byQueue.Client("callbacks", "") {
			require.NoError(t, err)
		} else {
			requireCode(t, shards.ErrWrongShard, err)
		}
	}
}

func (dependencyOnEach) WaitAllReadsJobsThatHaveEnded(t *testing.T, e *env) {
	var all []string
	for i := range 3 {
		all = append(all, e.Put("q", qless.JID(fmt.Sprint("j", i))))
	}
	for i := range 2 {
		require.NoError(t, e.popWith(i).Complete(t.Context()))
	}
	results, err := e.WaitAll(t.Context(), all[1], all[0])
	require.NoError(t, err)
	require.Equal(t, "1", string(results[0].Data))
	require.Equal(t, "0", string(results[1].Data))
	results, err = e.WaitAll(t.Context(), "unknown", "as unknown", all[1])
	require.Equal(t, "unknown", requireCode(t, qless.ErrNotFound, err).JID)
	require.Len(t, results, 3)
	require.Zero(t, results[1])
	require.Equal(t, "1", string(results[2].Data))
	require.Empty(t, must(e.WaitAll(t.Context()))(t))
	if e.Server != nil {
		require.NoError(t, e.Redis.ConfigResetStat(t.Context()).Err())
		require.NoError(t, errOf(e.WaitAll(t.Context(), all[:2]...)))
		require.NotContains(t, e.Redis.Info(t.Context(), "commandstats").Val(), "subscribe", "nothing is waited for")
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	requireCode(t, qless.ErrUnavailable, errOf(e.WaitAll(canceled, all...)))
	results = must(e.WaitAll(t.Context(), slices.Repeat(all[:1], 1200)...))(t)
	require.Len(t, results, 1200)
	require.Equal(t, "0", string(results[1199].Data))
}

func TestWhatABatchCosts(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("first"))
	plain := e.cost(func() { e.Put("q", qless.JID("plain")) })
	e.batch(qless.JID("old"))
	require.Equal(t, plain+4, e.cost(func() { e.batch(qless.JID("new")) }))
	many := func(count int, options ...qless.PutOption) int {
		return e.cost(func() { e.puts("q", specs(count, options...)...) })
	}
	members := func(b *qless.Batch, count int) int { return e.cost(func() { e.adds(b, count) }) }
	each := (many(100) - many(50)) / 50
	b := e.batch()
	require.Equal(t, each+2, (members(b, 100)-members(b, 50))/50)
	watched := e.batch(qless.OnFailureRun)
	require.Equal(t, each+4, (members(watched, 100)-members(watched, 50))/50)
	require.Equal(t, 6, e.cost(func() { e.commits(b) }))
	require.Equal(t, 3, e.cost(func() { require.NoError(t, errOf(b.Status(t.Context()))) }))
}

// A put that replaces the callback changes the data; the job remains the callback.
func (dependencyOnEach) ACallbackThatIsReplaced(t *testing.T, e *env) {
	b := e.batch(qless.Unique("k"))
	member := e.adds(b, 1)[0]
	require.Equal(t, b.ID, e.Put("callbacks", again(), qless.Tags{"new"}))
	jids := e.puts("callbacks", specs(2, again(), qless.Tags{"new"})...)
	require.Equal(t, []string{b.ID, b.ID}, jids)
	e.adds(b, 1)
	require.Equal(t, qless.BatchStatus{State: qless.StateDepends, Open: true, Pending: 2, Total: 2}, e.status(b))
	e.completes(2)
	e.commits(b)
	callback := e.Pop("callbacks")
	require.Equal(t, qless.Tags{"new"}, callback.Tags)
	require.Equal(t, 2, *callback.BatchSize)
	require.Equal(t, qless.StateComplete, e.Read(member).State)
}

// A member that replaced a job waiting for the batch would wait for itself.
func (dependencyOnEach) AMemberThatWaitsForItsBatch(t *testing.T, e *env) {
	b := e.batch()
	near := e.Put("q", qless.JID("near"), qless.DependsOn{b.ID}, qless.Unique("near"))
	e.Put("q", qless.JID("far"), qless.DependsOn{near}, qless.Unique("far"))
	e.Put("q", qless.JID("beside"), qless.Unique("beside"))
	for _, option := range []qless.PutOption{
		qless.Unique("near").Replace(), qless.Unique("far").Replace(), qless.JID("far"), qless.DependsOn{"far"},
	} {
		e.Unchanged(func() {
			_, err := b.Add(t.Context(), "q", specs(1, option))
			require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, "would wait for its own batch")
		})
	}
	jids := must(b.Add(t.Context(), "q", specs(1, qless.Unique("beside").Replace())))(t)
	require.Equal(t, []string{"beside"}, jids)
}
