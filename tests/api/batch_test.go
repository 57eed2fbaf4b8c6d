package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/shards"
	"github.com/qless/qless-go/tests/scripts"
)

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

func TestACallbackRunsOnceWhenAllMembersAreDone(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		b := e.batch(qless.Priority(7))
		require.Equal(t, qless.StateDepends, e.Read(b.ID).State)
		first := e.adds(b, 2)
		require.Equal(t, qless.BatchStatus{State: qless.StateDepends, Open: true, Pending: 2, Total: 2}, e.status(b))
		e.completes(2)
		require.Empty(t, e.Pops("callbacks", 1), "it is open")
		second := e.adds(e.Batch(b.ID), 3)
		e.commits(b)
		e.commits(b)
		require.Equal(t, qless.BatchStatus{State: qless.StateDepends, Pending: 3, Total: 5}, e.status(b))
		require.ElementsMatch(t, second, must(pending(t.Context(), b))(t))
		e.completes(2)
		require.Empty(t, e.Pops("callbacks", 1))
		e.completes(1)
		callback := e.Pop("callbacks")
		require.Equal(t, b.ID, callback.JID)
		require.Equal(t, 7, callback.Priority)
		require.NoError(t, callback.Complete(t.Context()))
		require.Equal(t, qless.BatchStatus{State: qless.StateComplete, Total: 5}, e.status(b))
		e.Unchanged(func() { e.commits(b) })
		require.Empty(t, e.Pops("callbacks", 1))
		require.Len(t, must(e.WaitAll(t.Context(), append(first, second...)...))(t), 5)
	})
}

func TestABatchOfManyMembers(t *testing.T) {
	e := newEnv(t)
	b := e.batch(qless.OnFailureRun)
	e.adds(b, 2500)
	require.Equal(t, 2500, e.status(b).Pending)
	require.Len(t, slices.Compact(must(pending(t.Context(), b))(t)), 2500)
	for _, err := range b.Pending(t.Context()) {
		require.NoError(t, err)
		break // ends the iteration
	}
	require.NoError(t, b.Cancel(t.Context()))
	require.Zero(t, e.Counts("q").Waiting)
	requireCode(t, qless.ErrNotFound, errOf(b.Status(t.Context())))
	require.Empty(t, e.Redis.Exists(t.Context(), "ql:j:x:open-dependents").Val())
}

func TestWhatIsRefusedDoesNotBecomeAMember(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("there"))
		e.Put("q", qless.JID("holder"), qless.Unique("k"))
		b := e.batch()
		jids, err := b.Add(t.Context(), "q", []qless.JobSpec{
			spec(qless.JID("there"), qless.IfAbsent),
			{Klass: "K"},
			spec(qless.Unique("k")),
		})
		require.Equal(t, []int{0, 2}, requireCode(t, qless.ErrExists, err).Indices)
		require.Equal(t, "there", jids[0])
		require.Equal(t, "holder", jids[2])
		require.Equal(t, jids[1:2], must(pending(t.Context(), b))(t))
		require.Equal(t, 1, e.status(b).Total)
	})
}

func TestInvalidBatches(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
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
		e.Unchanged(func() {
			requireCode(t, qless.ErrInvalid, errOf(e.Batch(waits).Add(ctx, "q", specs(1))))
		})
		require.Empty(t, must(b.Add(ctx, "q", nil))(t))
	})
}

// If a connection breaks before the reply to an Add, members are neither lost nor duplicated, even
// if they have ended by the time the Add is sent again.
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

// The second of two equal calls finds the jobs put by the first, whatever has happened to them
// since.
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

func TestWaitAllReadsJobsThatHaveEnded(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
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
		results = must(e.WaitAll(t.Context(), append(make([]string, 0, 1200), repeated(all[0], 1200)...)...))(t)
		require.Len(t, results, 1200)
		require.Equal(t, "0", string(results[1199].Data))
	})
}

func repeated(text string, count int) []string {
	all := make([]string, count)
	for i := range all {
		all[i] = text
	}
	return all
}

// Many clients complete and add members concurrently. The callback is released once.
func TestABatchUnderLoad(t *testing.T) {
	e := newEnv(t)
	b := e.batch()
	e.adds(b, 20)
	e.commits(b)
	var all sync.WaitGroup
	failures := make(chan error, 100)
	for i := range 4 {
		client := e.As(fmt.Sprint("worker ", i))
		all.Go(func() { failures <- worksBatch(t.Context(), client, b.ID) })
	}
	all.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}
	require.Equal(t, qless.BatchStatus{State: qless.StateWaiting, Total: 40}, e.status(b))
	require.Len(t, e.Pops("callbacks", 2), 1)
}

// worksBatch completes jobs until there are none. Each job of klass K adds one of klass Last.
func worksBatch(ctx context.Context, client *qless.Client, id string) error {
	for {
		jobs, err := client.Queue("q").Pop(ctx, 1)
		if err != nil || len(jobs) == 0 {
			return err
		}
		if jobs[0].Klass == "K" {
			if _, err := client.Batch(id).Add(ctx, "q", []qless.JobSpec{{Klass: "Last"}}); err != nil {
				return err
			}
		}
		if err := jobs[0].Complete(ctx); err != nil {
			return err
		}
	}
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

// A put that replaces the callback changes its data, but it stays the callback.
func TestACallbackThatIsReplaced(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
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
	})
}

// A member that replaced a job that waits for the batch would wait for itself.
func TestAMemberThatWaitsForItsBatch(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
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
	})
}
