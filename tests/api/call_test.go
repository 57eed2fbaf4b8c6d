package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/lease"
	"github.com/qless/qless-go/shards"
)

// calls begins to call a job in the queue q, and returns when the job has been put.
func (e *env) calls(ctx context.Context, options ...qless.PutOption) (jid string, ended chan ending) {
	e.T.Helper()
	e.T.Cleanup(func() { _ = e.Close() })
	before := e.unfinished("q")
	ended = begin(func() (qless.Result, error) { return e.Queue("q").Call(ctx, "K", nil, options...) })
	testkit.Until(e.T, "the job is put", func() bool {
		for _, found := range e.unfinished("q") {
			if !slices.Contains(before, found) {
				jid = found
			}
		}
		return jid != "" || len(ended) > 0
	})
	return jid, ended
}

// unfinished returns the jids of all jobs of a queue that have not ended.
func (e *env) unfinished(queue string) []string {
	e.T.Helper()
	var all []string
	for _, list := range []inspect.List{
		inspect.Waiting, inspect.Scheduled, inspect.Depends, inspect.Running, inspect.Stalled,
	} {
		page := must(e.inspect().Queue(queue, list).JIDs(e.T.Context(), inspect.Range{Limit: -1}))(e.T)
		all = append(all, page.Items...)
	}
	return all
}

// popSoon pops the next job of a queue when there is one.
func (e *env) popSoon(queue string) *qless.Job {
	e.T.Helper()
	var jobs []*qless.Job
	testkit.Until(e.T, "a job", func() bool { jobs = e.Pops(queue, 1); return len(jobs) > 0 })
	return jobs[0]
}

// withdrawn requires that an error reports whether a job was withdrawn because the call's context
// ended.
func withdrawn(t *testing.T, want bool, cause, err error) *qless.Error {
	t.Helper()
	own := requireCode(t, qless.ErrUnavailable, err)
	require.ErrorIs(t, err, cause)
	require.Equal(t, want, own.Withdrawn, own.Message)
	return own
}

// The client subscribes before the put, so it does not need to query the job.
func TestACallSendsOnlyItsPut(t *testing.T) {
	e := newEnv(t)
	var mu sync.Mutex
	var commands []string
	client := e.observing(func(call qless.Command) {
		mu.Lock()
		defer mu.Unlock()
		commands = append(commands, call.Name)
	})
	defer client.Close()
	for i := range 3 {
		ended := begin(func() (qless.Result, error) { return client.Queue("q").Call(t.Context(), "K", nil) })
		require.NoError(t, e.popSoon("q").Complete(t.Context()))
		require.NoError(t, e.soon(ended).err)
		mu.Lock()
		require.Len(t, commands, i+1)
		require.Equal(t, "put", commands[i])
		mu.Unlock()
	}
}

func TestEndedCallWithdrawsAJobThatIsNotRunning(t *testing.T) {
	for state, c := range map[string]struct {
		options   []qless.PutOption
		bring     func(t *testing.T, e *env)
		continues bool
		words     string
	}{
		"waiting":   {nil, nil, false, "withdrawn"},
		"scheduled": {[]qless.PutOption{qless.Delay(time.Hour)}, nil, false, "withdrawn"},
		"depends":   {[]qless.PutOption{qless.DependsOn{"parent"}, qless.Unique("k")}, nil, false, "withdrawn"},
		"retried":   {nil, func(t *testing.T, e *env) { require.NoError(t, errOf(e.Pop("q").Retry(t.Context(), 0, "", ""))) }, false, "withdrawn"},
		"running":   {nil, func(_ *testing.T, e *env) { e.Pop("q") }, true, "the job continues"},
		"needed by another": {[]qless.PutOption{qless.JID("j")}, func(_ *testing.T, e *env) { e.Put("q", qless.DependsOn{"j"}) },
			true, "the job continues"},
	} {
		runOnEach(t, state, func(t *testing.T, e *env) {
			e.Put("parents", qless.JID("parent"))
			ctx, cancel := context.WithCancel(t.Context())
			jid, ended := e.calls(ctx, c.options...)
			if c.bring != nil {
				c.bring(t, e)
			}
			cancel()
			err := withdrawn(t, !c.continues, context.Canceled, e.soon(ended).err)
			require.Contains(t, err.Message, c.words)
			require.Equal(t, jid, err.JID)
			require.Equal(t, "call", err.Op)
			if c.continues {
				require.NotEmpty(t, e.Read(jid).State)
				return
			}
			require.Empty(t, e.unfinished("q"))
			requireCode(t, qless.ErrNotFound, errOf(e.Job(t.Context(), jid)))
			e.holder("")
		})
	}
}

func TestACallWithAnEndedContextPutsNothing(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		defer e.Close()
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		e.Unchanged(func() {
			_, err := e.Queue("q").Call(ctx, "K", nil)
			require.Contains(t, withdrawn(t, true, context.DeadlineExceeded, err).Message, "was not put")
		})
	})
}

func TestACallThatCannotWithdrawItsJobSaysSo(t *testing.T) {
	e := newEnv(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, ended := e.calls(ctx)
	e.Server.Kill()
	cancel()
	err := withdrawn(t, false, context.Canceled, e.soon(ended).err)
	require.Contains(t, err.Message, "could not be withdrawn")
}

// The put may have taken effect. A call that reports its job as withdrawn has withdrawn it.
func TestACallWhosePutIsNotAnswered(t *testing.T) {
	e := newEnv(t)
	defer e.Close()
	e.Server.Suspend()
	ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond) // one second is for subscribing
	defer cancel()
	ended := begin(func() (qless.Result, error) { return e.Queue("q").Call(ctx, "K", nil) })
	<-ctx.Done()
	e.Server.Resume()
	err := e.soon(ended).err
	require.ErrorIs(t, err, context.DeadlineExceeded)
	if requireCode(t, qless.ErrUnavailable, err).Withdrawn {
		require.Empty(t, e.unfinished("q"))
	}
}

func TestResultAsReturnsTheResultOfACall(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		defer e.Close()
		call := func(end func(job *qless.Job) error) (int, error) {
			t.Helper()
			done := begin(func() (int, error) { return qless.ResultAs[int](e.Queue("q").Call(t.Context(), "K", nil)) })
			require.NoError(t, end(e.popSoon("q")))
			got := testkit.Soon(t, "the end of the call", done)
			return got.value, got.err
		}
		with := func(result any) func(job *qless.Job) error {
			return func(job *qless.Job) error {
				require.NoError(t, job.SetResult(result))
				return job.Complete(t.Context())
			}
		}
		require.Equal(t, 7, must(call(with(7)))(t))
		requireCode(t, qless.ErrInvalid, errOf(call(with("seven"))))
		_, err := call(func(job *qless.Job) error { return job.Complete(t.Context()) })
		requireCode(t, qless.ErrInvalid, err)
		_, err = call(func(job *qless.Job) error { return job.Fail(t.Context(), "g", "too hot") })
		require.Contains(t, requireCode(t, qless.ErrFailed, err).Message, "the job has failed in g: too hot")
	})
}

func TestResultAsOfJobsThatWerePutBefore(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		defer e.Close()
		ctx := t.Context()
		jid, failed := e.Put("q"), e.Put("r")
		requireCode(t, qless.ErrUnfinished, errOf(qless.ResultAs[int](e.Result(ctx, jid))))
		require.NoError(t, e.popWith(7).Complete(ctx))
		for _, result := range []func() (qless.Result, error){
			func() (qless.Result, error) { return e.Result(ctx, jid) },
			func() (qless.Result, error) { return e.Wait(ctx, jid) },
		} {
			require.Equal(t, 7, must(qless.ResultAs[int](result()))(t))
		}
		require.NoError(t, e.Pop("r").Fail(ctx, "g", "too hot"))
		_, err := qless.ResultAs[int](e.Wait(ctx, failed))
		require.Equal(t, failed, requireCode(t, qless.ErrFailed, err).JID)
		requireCode(t, qless.ErrNotFound, errOf(qless.ResultAs[int](e.Wait(ctx, "unknown"))))
	})
}

func TestCallsThatAreRefused(t *testing.T) {
	e := newEnv(t)
	defer e.Close()
	jid := e.Put("q", qless.Unique("k"))
	call := func(options ...qless.PutOption) error {
		return errOf(e.Queue("q").Call(t.Context(), "K", nil, options...))
	}
	e.Unchanged(func() {
		require.Equal(t, jid, requireCode(t, qless.ErrExists, call(qless.Unique("k"))).JID)
		requireCode(t, qless.ErrExists, call(qless.JID(jid), qless.IfAbsent))
		err := requireCode(t, qless.ErrInvalid, call(qless.Unique("k").Replace()))
		require.Contains(t, err.Message, "Unique.Replace can't be used with Call")
		requireCode(t, qless.ErrInvalid, call(qless.Delay(-1)))
		_, err2 := qless.ResultAs[int](e.Queue("").Call(t.Context(), "K", nil))
		requireCode(t, qless.ErrInvalid, err2)
	})
}

// A message about an earlier end of a job with the same jid does not end the call.
func TestACallWithAJIDWaitsForTheEndOfItsOwnJob(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("others", qless.JID("j"))
		_, ended := e.calls(t.Context(), qless.JID("j"))
		for range 3 {
			require.NoError(t, e.Redis.Publish(t.Context(), "ql:x:done:j", `{"state":"failed"}`).Err())
		}
		require.NoError(t, e.popWith(7).Complete(t.Context()))
		got := e.soon(ended)
		require.NoError(t, got.err)
		require.Equal(t, "7", string(got.value.Data))

		e.Set("jobs-history", 0)
		_, ended = e.calls(t.Context(), qless.JID("j"))
		require.NoError(t, e.popWith(7).Complete(t.Context()))
		require.ErrorContains(t, requireCode(t, qless.ErrNotFound, e.soon(ended).err), "complete")
	})
}

func TestACallEndsWhenTheClientIsClosed(t *testing.T) {
	e := newEnv(t)
	_, ended := e.calls(t.Context())
	require.NoError(t, e.Close())
	require.False(t, requireCode(t, qless.ErrUnavailable, e.soon(ended).err).Withdrawn)
	_, err := e.Queue("q").Call(t.Context(), "K", nil)
	require.True(t, requireCode(t, qless.ErrUnavailable, err).Withdrawn)
}

func TestManyCallsAtOnce(t *testing.T) {
	e := newEnv(t)
	defer e.Close()
	echoed(t, 100, e.Queue("q"))
}

// A callable is a queue, or one of shards.
type callable interface {
	Call(ctx context.Context, klass string, data any, options ...qless.PutOption) (qless.Result, error)
	Pop(ctx context.Context, count int) ([]*qless.Job, error)
}

// echoed makes n calls at once, each of which gets its own data back.
func echoed(t *testing.T, n int, queue callable) {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			value, err := qless.ResultAs[int](queue.Call(t.Context(), "K", i))
			assert.NoError(t, err)
			assert.Equal(t, i, value)
		})
	}
	for done := 0; done < n; {
		for _, job := range must(queue.Pop(t.Context(), 10))(t) {
			require.NoError(t, job.SetResult(job.Data))
			require.NoError(t, job.Complete(t.Context()))
			done++
		}
	}
	all.Wait()
}

func TestWithdrawingAJob(t *testing.T) {
	for state, refused := range map[qless.State]error{
		qless.StateWaiting: nil, qless.StateScheduled: nil, qless.StateDepends: nil, qless.StateTimedOut: nil,
		qless.StateRunning: qless.ErrRunning, lost: qless.ErrRunning, "needed": qless.ErrHasDependents,
		qless.StateComplete: qless.ErrFinished, qless.StateFailed: qless.ErrFinished, "unknown": qless.ErrNotFound,
	} {
		runOnEach(t, string(state), func(t *testing.T, e *env) {
			if put := bring[state]; put != nil {
				put(e, qless.JID("j"), qless.Tags{"t"})
			}
			if state == "needed" {
				e.Put("q", qless.DependsOn{e.Put("q", qless.JID("j"))})
			}
			if refused != nil {
				e.Unchanged(func() {
					require.Equal(t, "j", requireCode(t, refused, lease.New(e.Client).Withdraw(t.Context(), "j")).JID)
				})
				return
			}
			require.NoError(t, lease.New(e.Client).Withdraw(t.Context(), "j"))
			requireCode(t, qless.ErrNotFound, errOf(e.Job(t.Context(), "j")))
			require.Empty(t, e.unfinished("q"))
			for _, key := range e.Redis.Keys(t.Context(), "*").Val() {
				require.False(t, strings.Contains(key, "ql:j:j"), key)
			}
		})
	}
}

func TestResultsAndWaitsOfShards(t *testing.T) {
	e := newEnv(t)
	sharded := e.sharded(shards.ByJID, 3)
	for _, c := range sharded.Clients() {
		defer c.Close()
	}
	queue, ctx := sharded.Queue("q"), t.Context()
	var all []string
	for i := range 12 {
		jid := must(queue.Put(ctx, "K", nil, qless.JID(fmt.Sprint("j", i))))(t)
		all = append(all, jid)
		requireCode(t, qless.ErrUnfinished, errOf(sharded.Result(ctx, jid)))
	}
	waited := begin(func() ([]qless.Result, error) { return sharded.WaitAll(ctx, all...) })
	for done := 0; done < len(all); {
		for _, job := range must(queue.Pop(ctx, 5))(t) {
			require.NoError(t, job.SetResult(job.JID))
			require.NoError(t, job.Complete(ctx))
			done++
		}
	}
	results := testkit.Soon(t, "the results", waited)
	require.NoError(t, results.err)
	for i, result := range results.value {
		require.Equal(t, `"`+all[i]+`"`, string(result.Data))
		require.Equal(t, result.Data, must(sharded.Result(ctx, all[i]))(t).Data)
		require.Equal(t, result.Data, must(sharded.Wait(ctx, all[i]))(t).Data)
	}
	requireCode(t, qless.ErrNotFound, errOf(sharded.Result(ctx, "unknown")))
	requireCode(t, qless.ErrNotFound, errOf(sharded.Wait(ctx, "unknown")))
	requireCode(t, qless.ErrNotFound, errOf(sharded.WaitAll(ctx, all[0], "unknown")))
	require.Empty(t, must(sharded.WaitAll(ctx))(t))

	jid := must(queue.Put(ctx, "K", nil))(t)
	for _, c := range sharded.Clients() {
		if c != sharded.Client("q", jid) {
			requireCode(t, qless.ErrNotFound, errOf(c.Wait(ctx, jid)))
		}
	}
	require.NoError(t, sharded.Client("q", jid).Cancel(ctx, jid))
	requireCode(t, qless.ErrNotFound, errOf(sharded.Wait(ctx, jid)))
}

func TestAWaitOfShardsEndsWithItsJob(t *testing.T) {
	e := newEnv(t)
	sharded := e.sharded(shards.ByJID, 3)
	for _, c := range sharded.Clients() {
		defer c.Close()
	}
	jid := must(sharded.Queue("q").Put(t.Context(), "K", nil))(t)
	ended := begin(func() (qless.Result, error) { return sharded.Wait(t.Context(), jid) })
	shard := sharded.Client("q", jid)
	testkit.Until(t, "the server knows", func() bool {
		return strings.HasPrefix(e.Redis.HGet(t.Context(), shard.Namespace()+"j:"+jid, "x:o").Val(), "w")
	})
	require.NoError(t, shard.Cancel(t.Context(), jid))
	requireCode(t, qless.ErrCanceled, e.soon(ended).err)
}

func TestCallsInShards(t *testing.T) {
	e := newEnv(t)
	sharded := e.sharded(shards.ByJID, 3)
	for _, c := range sharded.Clients() {
		defer c.Close()
	}
	queue := sharded.Queue("q")
	echoed(t, 10, queue)

	waiting := func() int { return must(queue.Counts(t.Context()))(t).Waiting }
	ctx, cancel := context.WithCancel(t.Context())
	ended := begin(func() (qless.Result, error) { return queue.Call(ctx, "K", nil) })
	testkit.Until(t, "the job waits", func() bool { return waiting() == 1 })
	cancel()
	withdrawn(t, true, context.Canceled, e.soon(ended).err)
	require.Zero(t, waiting())

	parent, err := queue.Put(t.Context(), "K", nil, qless.JID("parent"))
	require.NoError(t, err)
	for i := range 10 {
		jid := fmt.Sprint("child", i)
		if sharded.Client("q", jid) == sharded.Client("q", parent) {
			continue
		}
		_, err = queue.Call(t.Context(), "K", nil, qless.JID(jid), qless.DependsOn{parent})
		own := requireCode(t, shards.ErrWrongShard, err)
		require.Equal(t, jid, own.JID)
		require.Contains(t, own.Message, parent)
	}
	requireCode(t, qless.ErrInvalid, errOf(queue.Call(t.Context(), "", nil)))
}
