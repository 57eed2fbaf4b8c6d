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

// An ending is the result of a wait.
type ending = returned[qless.Result]

// waits begins to wait for a job, and returns once the server knows.
func (e *env) waits(ctx context.Context, jid string) chan ending {
	e.T.Helper()
	e.T.Cleanup(func() { _ = e.Close() })
	ended := begin(func() (qless.Result, error) { return e.Wait(ctx, jid) })
	testkit.Until(e.T, "the server knows", func() bool {
		letters, _, _ := strings.Cut(e.stored(jid), "|")
		return strings.Contains(letters, "w") || len(ended) > 0
	})
	return ended
}

// soon returns the results of a wait.
func (e *env) soon(ended chan ending) ending {
	e.T.Helper()
	return testkit.Soon(e.T, "the end of a wait", ended)
}

// A wait for a job and a call of one end in the same way.
func TestAWaitEndsWithItsJob(t *testing.T) {
	large := strings.Repeat("x", 100_000)
	for name, c := range map[string]struct {
		end   func(e *env) error
		state qless.State
		data  string
		err   error
	}{
		"complete":       {func(e *env) error { return e.popWith(7).Complete(e.T.Context()) }, qless.StateComplete, "7", nil},
		"a large result": {func(e *env) error { return e.popWith(large).Complete(e.T.Context()) }, qless.StateComplete, `"` + large + `"`, nil},
		"without a result": {func(e *env) error { return e.Pop("q").Complete(e.T.Context()) },
			qless.StateComplete, "", nil},
		"deleted at once": {func(e *env) error {
			e.Set("jobs-history", 0)
			return e.popWith(7).Complete(e.T.Context())
		}, qless.StateComplete, "7", nil},
		"a large result deleted at once": {func(e *env) error {
			e.Set("jobs-history", 0)
			return e.popWith(large).Complete(e.T.Context())
		}, "", "", qless.ErrNotFound},
		"failed": {func(e *env) error { return e.popWith(7).Fail(e.T.Context(), "g", "m") }, qless.StateFailed, "7", nil},
		"out of retries": {func(e *env) error { return errOf(e.Pop("q").Retry(e.T.Context(), 0, "", "")) },
			qless.StateFailed, "", nil},
		"canceled":  {func(e *env) error { return e.Pop("q").Cancel(e.T.Context()) }, "", "", qless.ErrCanceled},
		"moves on":  {movesOn, qless.StateComplete, "8", nil},
		"lost once": {losesLock, qless.StateComplete, "8", nil},
	} {
		end := func(t *testing.T, e *env, ended chan ending) {
			require.NoError(t, c.end(e))
			got := e.soon(ended)
			if c.err != nil {
				requireCode(t, c.err, got.err)
				return
			}
			require.NoError(t, got.err)
			require.Equal(t, c.state, got.value.State)
			require.Equal(t, c.data, string(got.value.Data))
			require.Equal(t, c.state == qless.StateFailed, got.value.Failure != nil)
		}
		runOnEach(t, name+", a wait", func(t *testing.T, e *env) {
			e.Put("q", qless.JID("j"), qless.Retries(0))
			end(t, e, e.waits(t.Context(), "j"))
		})
		if name == "lost once" {
			continue // its worker puts the job j again
		}
		runOnEach(t, name+", a call", func(t *testing.T, e *env) {
			_, ended := e.calls(t.Context(), qless.Retries(0))
			end(t, e, ended)
		})
	}
}

// movesOn moves the job j through further queues, with a release, and completes it.
func movesOn(e *env) error {
	ctx := e.T.Context()
	if err := e.Pop("q").Next(ctx, "q"); err != nil {
		return err
	}
	if err := e.Pop("q").Release(ctx, 0); err != nil {
		return err
	}
	return e.popWith(8).Complete(ctx)
}

// losesLock completes the job j after its first worker has lost it.
func losesLock(e *env) error {
	e.start("q", qless.JID("j"), qless.Retries(3))
	for range 3 {
		e.Clock.Advance(time.Hour)
		if jobs := e.Pops("q", 1); len(jobs) > 0 {
			if err := jobs[0].SetResult(8); err != nil {
				return err
			}
			return jobs[0].Complete(e.T.Context())
		}
	}
	return fmt.Errorf("the job was not popped again")
}

// The methods of waitOnEach are tests on a real server, and on miniredis.
type waitOnEach struct{}

func TestWaitsOnEachServer(t *testing.T) { runEach(t, waitOnEach{}) }

func (waitOnEach) AWaitEndsWithItsContextOrItsClient(t *testing.T, e *env) {
	jid := e.Put("q")
	ctx, cancel := context.WithCancel(t.Context())
	one, two := e.waits(ctx, jid), e.waits(t.Context(), jid)
	cancel()
	got := e.soon(one)
	requireCode(t, qless.ErrUnavailable, got.err)
	require.ErrorIs(t, got.err, context.Canceled)
	require.NoError(t, e.Close())
	requireCode(t, qless.ErrUnavailable, e.soon(two).err)
	requireCode(t, qless.ErrUnavailable, errOf(e.Wait(t.Context(), jid)))
	require.NoError(t, e.Close())
}

func (waitOnEach) AllWaitersAreNotified(t *testing.T, e *env) {
	const jobs, each = 20, 3
	var ended []chan ending
	for i := range jobs {
		e.Put("q", qless.JID(fmt.Sprint("j", i)))
		for range each {
			ended = append(ended, e.waits(t.Context(), fmt.Sprint("j", i)))
		}
	}
	subscribers := func() int {
		clients := e.Redis.ClientList(t.Context()).Val()
		return strings.Count(clients, " sub=") - strings.Count(clients, " sub=0 ")
	}
	require.True(t, e.Server == nil || subscribers() == 1, "they share a connection")
	for range jobs {
		require.NoError(t, e.popWith("done").Complete(t.Context()))
	}
	for _, one := range ended {
		got := e.soon(one)
		require.NoError(t, got.err)
		require.Equal(t, `"done"`, string(got.value.Data))
	}
	require.NoError(t, e.Close())
	if e.Server != nil {
		testkit.Until(t, "none is subscribed", func() bool { return subscribers() == 0 })
	}
}

func (waitOnEach) WaitAllReturnsTheResultsInOrder(t *testing.T, e *env) {
	defer e.Close()
	ctx := t.Context()
	var jids []string
	for i := range 10 {
		jids = append(jids, e.Put("q", qless.JID(fmt.Sprint("j", i))))
	}
	ended := begin(func() ([]qless.Result, error) { return e.WaitAll(ctx, jids...) })
	for range jids {
		job := e.Pop("q")
		require.NoError(t, job.SetResult(job.JID))
		require.NoError(t, job.Complete(ctx))
	}
	all := testkit.Soon(t, "the end of all", ended)
	require.NoError(t, all.err)
	for i, jid := range jids {
		require.Equal(t, `"`+jid+`"`, string(all.value[i].Data))
	}
}

// No message announces the end of a job ended by another client's script, or ended while the
// connection was broken.
func (waitOnEach) AWaitAsksAgainWithoutANotification(t *testing.T, e *env) {
	t.Parallel() // lasts until the client asks
	done, gone := e.Put("q"), e.Put("q2")
	first, second := e.waits(t.Context(), done), e.waits(t.Context(), gone)
	e.Pop("q")
	require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:"+done, "state", "complete").Err())
	require.NoError(t, e.Redis.Del(t.Context(), "ql:j:"+gone).Err())
	got := e.soon(first)
	require.NoError(t, got.err)
	require.Equal(t, qless.StateComplete, got.value.State)
	require.Nil(t, got.value.Data)
	requireCode(t, qless.ErrCanceled, e.soon(second).err)
}

func TestWaitsOutliveTheirServer(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	ended := e.waits(t.Context(), jid)
	e.Server.Restart()
	e.Put("q", qless.JID(jid)) // the server has forgotten it
	require.NoError(t, e.popWith(7).Complete(t.Context()))
	got := e.soon(ended)
	if got.err != nil { // the job has been gone for long enough to count as deleted
		requireCode(t, qless.ErrCanceled, got.err)
		return
	}
	require.Equal(t, "7", string(got.value.Data))
}

// result returns the result of an ended job.
func (e *env) result(jid string) qless.Result {
	e.T.Helper()
	return must(e.Result(e.T.Context(), jid))(e.T)
}

// popWith pops the next job of q and sets its result.
func (e *env) popWith(result any) *qless.Job {
	e.T.Helper()
	job := e.Pop("q")
	require.NoError(e.T, job.SetResult(result))
	return job
}

// The model has the results of all ends, and that results of earlier runs are dropped.
func (waitOnEach) AResultIsReadIntoAValue(t *testing.T, e *env) {
	jid := e.Put("q", qless.Retries(0))
	require.NoError(t, errOf(e.popWith(map[string]int{"sum": 7}).Retry(t.Context(), 0, "", "")))
	result := e.result(jid)
	require.Equal(t, qless.StateFailed, result.State)
	require.Equal(t, "failed-retries-q", result.Failure.Group)
	var value struct{ Sum int }
	require.NoError(t, result.Unmarshal(&value))
	require.Equal(t, 7, value.Sum)

	jid = e.Put("q")
	require.NoError(t, e.popWith(nil).Complete(t.Context()))
	require.Equal(t, "null", string(e.result(jid).Data))
}

func (waitOnEach) ADamagedResultOrProgressCountsAsNone(t *testing.T, e *env) {
	jid := e.Put("q")
	job := e.popWith(1)
	e.sets(job, 1, 2, "")
	require.NoError(t, job.Complete(t.Context()))
	for field, values := range map[string][]string{
		"x:result":   {"", "x", "complete|", "failed|0|1", "complete|0|1"},
		"x:progress": {"", "x", "{}", "1|2|3", "a|2|1|4|", "1|2|nan|4|", "1|2|1|inf|", "1||1|4|"},
	} {
		for _, damaged := range values {
			require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:"+jid, field, damaged).Err())
			require.True(t, field != "x:result" || e.result(jid).Data == nil, damaged)
			require.True(t, field != "x:progress" || e.Read(jid).Progress == nil, damaged)
		}
	}
}

// Storing a result takes no commands beyond those for ending a job. Completing a usual job takes
// one less.
func TestAResultCostsNoCommand(t *testing.T) {
	e := newEnv(t)
	cost := func(set bool, end func(job *qless.Job) error) int {
		job := e.start("q", qless.JID("j"), qless.Retries(0))
		if set {
			require.NoError(t, job.SetResult(1))
		}
		return e.cost(func() { require.NoError(t, end(job)) })
	}
	for name, end := range map[string]func(job *qless.Job) error{
		"complete": func(job *qless.Job) error { return job.Complete(t.Context()) },
		"fail":     func(job *qless.Job) error { return job.Fail(t.Context(), "g", "m") },
		"retry":    func(job *qless.Job) error { return errOf(job.Retry(t.Context(), 0, "", "")) },
	} {
		cost(false, end)
		usual := cost(false, end)
		if name == "complete" {
			usual++
		}
		require.Equal(t, usual, cost(true, end), name)
	}
	require.Len(t, e.Server.Commands(t, func() { e.result("j") }), 1)
}

// sets sets the progress of a popped job.
func (e *env) sets(job *qless.Job, done, total int, note string) {
	e.T.Helper()
	require.NoError(e.T, job.SetProgress(e.T.Context(), done, total, note))
}

func (waitOnEach) InvalidProgress(t *testing.T, e *env) {
	job := e.start("q")
	e.Unchanged(func() {
		for _, set := range []func() error{
			func() error { return job.SetProgress(t.Context(), -1, 2, "") },
			func() error { return job.SetProgress(t.Context(), 1, -2, "") },
			func() error { return job.SetProgress(t.Context(), 1<<53+1, 0, "") },
			func() error { return job.SetProgress(t.Context(), 1, 2, strings.Repeat("n", 1025)) },
			func() error { return (&qless.Job{}).SetProgress(t.Context(), 1, 2, "") },
		} {
			requireCode(t, qless.ErrInvalid, set())
		}
	})
	e.sets(job, 3, 2, "\xff")
	require.Equal(t, "\uFFFD", e.Read(job.JID).Progress.Note)
	e.sets(job, 1<<53, 1<<53, strings.Repeat("n", 1024))
	require.Equal(t, 1<<53, e.Read(job.JID).Progress.Total)
	require.Equal(t, 1<<53, must(e.Jobs(t.Context(), job.JID))(t)[0].Progress.Done)
	require.Nil(t, job.Progress)
	require.NoError(t, job.Refresh(t.Context()))
	require.Equal(t, e.Read(job.JID).Progress, job.Progress)
	e.Put("q", qless.JID(job.JID))
	require.Nil(t, e.Read(job.JID).Progress)
}

// follows waits for a job, and passes on the progress.
func (e *env) follows(jid string) (progress chan qless.Progress, ended chan ending) {
	e.T.Helper()
	e.T.Cleanup(func() { _ = e.Close() })
	progress = make(chan qless.Progress, 100)
	return progress, begin(func() (qless.Result, error) {
		pass := qless.OnProgress(func(p qless.Progress) { progress <- p })
		return e.Wait(context.Background(), jid, pass)
	})
}

func (waitOnEach) AWaitReportsProgress(t *testing.T, e *env) {
	jid := e.Put("q")
	job := e.Pop("q")
	e.sets(job, 1, 3, "first")
	progress, ended := e.follows(jid)
	require.Equal(t, "first", testkit.Soon(t, "progress", progress).Note)
	testkit.Until(t, "it listens", func() bool {
		return e.Redis.PubSubNumSub(t.Context(), "ql:x:progress:"+jid).Val()["ql:x:progress:"+jid] == 1
	})
	for done, note := range []string{"second", "third"} {
		e.Clock.Advance(time.Second)
		e.sets(job, 2+done, 3, note)
		require.Equal(t, *e.Read(jid).Progress, testkit.Soon(t, "progress", progress))
	}
	require.NoError(t, job.Complete(t.Context()))
	require.Equal(t, qless.StateComplete, e.soon(ended).value.State)
	require.Empty(t, progress)
}

func TestWhatProgressCosts(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q", qless.JID("j"))
	job := e.Pop("q")
	read := func() int { return e.cost(func() { e.Read(jid) }) }
	before := read()
	e.sets(job, 1, 2, "")
	require.Equal(t, before+1, read())
	commands := func() int { return e.cost(func() { e.sets(job, 1, 2, "") }) }
	require.Equal(t, 2, commands())
	e.run("await", jid)
	require.Equal(t, 3, commands())
}

func TestProgressOfSeveralJobs(t *testing.T) {
	e := newEnv(t)
	for _, jid := range []string{"a", "b", "c"} {
		e.Put("q", qless.JID(jid))
	}
	e.Pops("q", 2)
	reply := e.run("progress", "w1", "a", "", "1", "2", "n", "c", "", "1", "2", "", "b", "1", "1", "2", "", "b", "", "2", "2", "")
	answers := reply.([]any)
	require.Equal(t, []any{"", "!not_running 1 33 c is not currently running: waiting"}, answers[:2])
	require.Contains(t, answers[2], " b has been handed out to another worker: w1, at ")
	require.Equal(t, "", answers[3])
	require.Equal(t, 2, e.Read("b").Progress.Done)
}

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

// unfinished returns the jids of all unfinished jobs of a queue.
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

// popSoon pops the next job of a queue as soon as possible.
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

// The client subscribes before the put, and so does not need to query the job.
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
		queue := client.Queue("q")
		ended := begin(func() (qless.Result, error) { return queue.Call(t.Context(), "K", nil) })
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
		"waiting": {nil, nil, false, "withdrawn"},
		"depends": {[]qless.PutOption{qless.DependsOn{"parent"}, qless.Unique("k")}, nil, false, "withdrawn"},
		"retried": {nil, func(t *testing.T, e *env) { require.NoError(t, errOf(e.Pop("q").Retry(t.Context(), 0, "", ""))) }, false, "withdrawn"},
		"running": {nil, func(_ *testing.T, e *env) { e.Pop("q") }, true, "the job continues"},
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

func (waitOnEach) ACallWithAnEndedContextPutsNothing(t *testing.T, e *env) {
	defer e.Close()
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	e.Unchanged(func() {
		_, err := e.Queue("q").Call(ctx, "K", nil)
		require.Contains(t, withdrawn(t, true, context.DeadlineExceeded, err).Message, "was not put")
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

func (waitOnEach) ResultAsReturnsTheResultOfACall(t *testing.T, e *env) {
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
}

func (waitOnEach) ResultAsOfJobsThatWerePutBefore(t *testing.T, e *env) {
	defer e.Close()
	ctx := t.Context()
	jid, failed := e.Put("q"), e.Put("r")
	requireCode(t, qless.ErrUnfinished, errOf(qless.ResultAs[int](e.Result(ctx, jid))))
	require.NoError(t, e.popWith(7).Complete(ctx))
	require.Equal(t, 7, must(qless.ResultAs[int](e.Result(ctx, jid)))(t))
	require.Equal(t, 7, must(qless.ResultAs[int](e.Wait(ctx, jid)))(t))
	require.NoError(t, e.Pop("r").Fail(ctx, "g", "too hot"))
	_, err := qless.ResultAs[int](e.Wait(ctx, failed))
	require.Equal(t, failed, requireCode(t, qless.ErrFailed, err).JID)
	requireCode(t, qless.ErrNotFound, errOf(qless.ResultAs[int](e.Wait(ctx, "unknown"))))
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
func (waitOnEach) ACallWithAJIDWaitsForTheEndOfItsOwnJob(t *testing.T, e *env) {
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

// A callable is a queue, or a queue of shards.
type callable interface {
	Call(ctx context.Context, klass string, data any, options ...qless.PutOption) (qless.Result, error)
	Pop(ctx context.Context, count int) ([]*qless.Job, error)
}

// echoed makes n calls at once. Each receives its own data back.
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
		qless.StateWaiting: nil, qless.StateScheduled: nil, qless.StateDepends: nil,
		qless.StateTimedOut: nil, qless.StateRunning: qless.ErrRunning, lost: qless.ErrRunning,
		qless.StateComplete: qless.ErrFinished, qless.StateFailed: qless.ErrFinished,
		"needed": qless.ErrHasDependents, "unknown": qless.ErrNotFound,
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
					err := lease.New(e.Client).Withdraw(t.Context(), "j")
					require.Equal(t, "j", requireCode(t, refused, err).JID)
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

func TestCallsInShards(t *testing.T) {
	e := newEnv(t)
	sharded := e.sharded(shards.ByJID, 3)
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
