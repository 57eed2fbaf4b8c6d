package worker

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/stacks"
)

// workerInfo returns a worker's information about itself, or nil if missing or not listed.
func (e *env) workerInfo(worker string) *inspect.WorkerInfo {
	e.T.Helper()
	workers := must(inspect.New(e.Client).Workers(e.T.Context()))(e.T)
	for _, w := range workers {
		if w.Name == worker {
			return w.Info
		}
	}
	return nil
}

// describedAs waits until a worker's information about itself fulfills a condition.
func (e *env) describedAs(worker, what string, is func(info *inspect.WorkerInfo) bool) *inspect.WorkerInfo {
	e.T.Helper()
	var info *inspect.WorkerInfo
	until(e.T, what, func() bool {
		info = e.workerInfo(worker)
		return info != nil && is(info)
	})
	return info
}

func anyInfo(*inspect.WorkerInfo) bool { return true }

func TestAWorkerIsListedBeforeItHasTakenAJob(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{Queues: []string{"q", "mail-*", "!mail-slow"}, Concurrency: 3})
	w.Pause()
	w.Handle("Mail::*", nothing)
	w.Handle("K", nothing)
	began := time.Now()
	require.NoError(t, w.Start(t.Context()))
	info := e.describedAs(w.Name(), "the worker is registered", anyInfo)
	host := must(os.Hostname())(t)
	require.WithinDuration(t, began, info.Started, time.Minute)
	require.False(t, info.Seen.Before(info.Started))
	require.Equal(t, &inspect.WorkerInfo{
		Queues: []string{"q", "mail-*", "!mail-slow"}, Klasses: []string{"K", "Mail::*"}, Slots: 3,
		Language: "go", Host: host, PID: os.Getpid(), Paused: true,
		Version: info.Version, Started: info.Started, Seen: info.Seen,
	}, info)
	require.False(t, info.TakesFrom("q"), "it is paused")
	w.Resume()
	info = e.describedAs(w.Name(), "it is no longer paused", func(i *inspect.WorkerInfo) bool { return !i.Paused })
	require.True(t, info.TakesFrom("mail-quick"))
	w.stop()
	require.Empty(t, e.Redis.ZRange(t.Context(), "ql:workers", 0, -1).Val())
	require.Empty(t, e.Redis.SMembers(t.Context(), "ql:x:idle").Val())
	require.Empty(t, e.Redis.Keys(t.Context(), "ql:x:worker:*").Val())
}

func TestAWorkerReportsKlassesWithoutHandlers(t *testing.T) {
	e, w := workerEnv(t, qless.WorkerConfig{UnknownKlassDelay: time.Hour})
	w.start()
	require.Equal(t, "release", w.outcome(e.Put("q")).action)
	w.Pause()
	info := e.describedAs(w.Name(), "it is paused", func(i *inspect.WorkerInfo) bool { return i.Paused })
	require.Equal(t, []inspect.UnhandledKlass{{Queue: "q", Klass: "K"}}, info.Unhandled)
}

func TestAWorkerThatWaitsForItsJobsIsListedAsStopping(t *testing.T) {
	e, w, running, end := busyEnv(t, qless.WorkerConfig{})
	e.begun(running)
	stopped := make(chan error, 1)
	go func() { stopped <- w.Drain(t.Context()) }()
	info := e.describedAs(w.Name(), "it is stopping", func(i *inspect.WorkerInfo) bool { return i.Stopping })
	require.False(t, info.TakesFrom("q"))
	end <- nil
	require.NoError(t, soon(t, "the end", stopped))
	require.Nil(t, e.workerInfo(w.Name()))
}

func TestAWorkerRegistersAgainWhenTheClockWasMoved(t *testing.T) {
	e := newEnv(t)
	w := e.workerAt(e.Server.Addr(), qless.WorkerConfig{}, qless.ClientConfig{Clock: e.Clock.Now})
	require.NoError(t, w.Start(t.Context()))
	first := e.describedAs(w.Name(), "the worker is registered", anyInfo)
	e.Clock.Advance(time.Hour)
	moved := e.Clock.Now()
	w.Resume()
	info := e.describedAs(w.Name(), "it is registered again", func(i *inspect.WorkerInfo) bool {
		return !i.Seen.Before(moved)
	})
	require.WithinDuration(t, first.Seen.Add(time.Hour), info.Seen, time.Second)
	require.WithinDuration(t, first.Started, info.Started, time.Second)
}

// The registry is only for observation; jobs do not need it.
func TestAWorkerThatCannotRegisterWorks(t *testing.T) {
	e, w := workerEnv(t, qless.WorkerConfig{}, nothing)
	w.refuseScript("worker.register", serverError("NOPERM User worker has no permissions to run the 'set' command"))
	w.start()
	w.log.await(t, "the worker can't register", 1)
	require.Equal(t, "complete", w.outcome(e.Put("q")).action)
	require.NoError(t, w.Healthy())
	require.Nil(t, e.workerInfo(w.Name()))
	w.stop()
	require.Equal(t, 1, w.log.count("can't register"))
}

// failSilently fails a waiting job without publishing anything.
func (e *env) failSilently(jid string) {
	e.T.Helper()
	ctx, queue := e.T.Context(), e.Read(jid).Queue
	require.NoError(e.T, e.Redis.ZRem(ctx, "ql:q:"+queue+"-work", jid).Err())
	require.NoError(e.T, e.Redis.HSet(ctx, "ql:j:"+jid, "state", "failed",
		"failure", `{"group":"g","message":"m","when":1,"worker":"w"}`).Err())
	require.NoError(e.T, e.Redis.LPush(ctx, "ql:f:g", jid).Err())
	require.NoError(e.T, e.Redis.SAdd(ctx, "ql:failures", "g").Err())
}

func TestAWorkerAnnouncesFailuresByOtherScripts(t *testing.T) {
	e := newLiveEnv(t)
	for i := range 300 { // more than two calls can handle
		jid := fmt.Sprint("bad", i)
		e.Put("theirs", qless.JID(jid))
		if i == 299 {
			e.Put("q", qless.JID("j"), qless.DependsOn{jid}, qless.OnFailureRun)
		}
		e.failSilently(jid)
	}
	w := e.working(qless.WorkerConfig{}, nothing)
	require.Equal(t, reported{"complete", "complete"}, w.outcome("j"))
	left := e.Redis.TTL(t.Context(), "ql:x:swept").Val()
	require.Greater(t, left, time.Duration(0))
	require.LessOrEqual(t, left, 5*time.Minute)
}

func TestOneWorkerInFiveMinutesLooksAtFailedJobs(t *testing.T) {
	e := newLiveEnv(t)
	register := func() int64 { // without the bit for the history of queues
		reply, err := e.Run(t.Context(), "worker.register", "", "w", "0", "{}")
		require.NoError(t, err)
		bits, _ := reply.(int64)
		return bits % 4
	}
	require.Zero(t, register(), "no job has failed")
	require.Zero(t, e.Redis.Exists(t.Context(), "ql:x:swept").Val())
	e.Put("theirs", qless.JID("bad"))
	e.failSilently("bad")
	require.EqualValues(t, 2, register())
	require.Zero(t, register())
	e.Redis.Del(t.Context(), "ql:x:swept")
	require.EqualValues(t, 2, register())
}

// blockHere and blockThere are named in the stacks of jobs.
func blockHere(end <-chan bool)  { <-end }
func blockThere(end <-chan bool) { <-end }

// stack asks a worker for the stack of a job.
func (e *env) stack(w *qless.Worker, jid string) stacks.Answer {
	e.T.Helper()
	return must(stacks.Ask(e.T.Context(), e.Client, jid, "running", w.Name()))(e.T)
}

func TestAWorkerTellsTheStackOfAJob(t *testing.T) {
	e, w := workerEnv(t, qless.WorkerConfig{Stacks: true})
	end, begun := make(chan bool), make(chan bool)
	for klass, block := range map[string]func(<-chan bool){"Here": blockHere, "There": blockThere} {
		w.Handle(klass, func(context.Context, *qless.Job) error {
			begun <- true
			block(end)
			return nil
		})
	}
	w.start()
	here := e.putKlass("q", "Here")
	there := e.putKlass("q", "There")
	for range 2 {
		soon(t, "the jobs run", begun)
	}

	for jid, blocks := range map[string][2]string{
		here: {"blockHere", "blockThere"}, there: {"blockThere", "blockHere"},
	} {
		stack := e.stack(w.Worker, jid).Stack
		require.Contains(t, stack, "worker."+blocks[0]+"(")
		require.NotContains(t, stack, blocks[1])
	}
	require.Equal(t, "the worker does not run the job now", e.stack(w.Worker, "other").Problem)
	require.Empty(t, e.Redis.Keys(t.Context(), "*stack*").Val(), "nothing stays")

	close(end)
	until(t, "the jobs have ended", func() bool { return len(w.Stats().Running) == 0 })
	require.Equal(t, "the worker does not run the job now", e.stack(w.Worker, here).Problem)
	w.stop()
	require.Contains(t, e.stack(w.Worker, here).Problem, "does not listen")
	e.listen("ql:w:" + w.Name())
	require.Contains(t, e.stack(w.Worker, here).Problem, "has not answered within 2s")
}

func TestAWorkerTellsNoStackUnlessAllowed(t *testing.T) {
	e := newLiveEnv(t)
	w, jid, end, _ := e.holding(qless.WorkerConfig{})
	require.Equal(t, stacks.Answer{Problem: "the worker does not tell stacks: its WorkerConfig has no Stacks"},
		e.stack(w.Worker, jid))
	end <- nil
}

func TestTheStackOfAMemberIsThatOfItsCall(t *testing.T) {
	e, w := bulkEnv(t, qless.WorkerConfig{Stacks: true}, qless.Bulk{Max: 2})
	w.begin(2)
	soon(t, "the call", w.calls)
	for _, jid := range []string{"0", "1"} {
		require.Contains(t, e.stack(w.Worker, jid).Stack, "(*env).bulk.func1(")
	}
	w.end <- nil
}

// counted returns the server's counts for the last hour: completed, failed and retried jobs, and
// measured waits and runs.
func (e *env) counted(query inspect.RateQuery) string {
	e.T.Helper()
	now := e.Now()
	if now.IsZero() {
		now = time.Now()
	}
	query.From, query.To, query.Step = now.Add(-time.Hour), now.Add(time.Hour), 3*time.Hour
	points := must(inspect.New(e.Client).Rates(e.T.Context(), query))(e.T)
	sum := [5]int{}
	for _, p := range points {
		for i, n := range []int{p.Completed, p.Failed, p.Retried, p.Wait.Count, p.Run.Count} {
			sum[i] += n
		}
	}
	return fmt.Sprint(sum)
}

func TestRatesMeasureHowLongJobsWaitedAndRan(t *testing.T) {
	e := newEnv(t)
	w := e.workerAt(e.Server.Addr(), qless.WorkerConfig{}, qless.ClientConfig{Clock: e.Clock.Now})
	ran := make(chan time.Duration, 1)
	w.Handle("K", func(context.Context, *qless.Job) error {
		began := time.Now()
		until(t, "some time has passed", func() bool { return time.Since(began) > 30*time.Millisecond })
		ran <- time.Since(began)
		return nil
	})
	e.Put("q")
	e.Clock.Advance(10 * time.Minute)
	require.NoError(t, w.Start(t.Context()))
	took := soon(t, "the job", ran)
	until(t, "the job is complete", func() bool { return w.Stats().Completed == 1 })
	w.stop()
	now := e.Clock.Now()
	points, err := inspect.New(e.Client).Rates(t.Context(), inspect.RateQuery{From: now, To: now.Add(time.Second), Step: time.Minute})
	require.NoError(t, err)
	require.Len(t, points, 1)
	require.InEpsilon(t, 10*time.Minute, points[0].Wait.P50, 0.42)
	require.GreaterOrEqual(t, points[0].Run.P99, took*7/10)
}

// A worker sends its counts every 15 s. The test does not wait for that. While it stops, the worker
// may register once more, as stopping.
func TestAnIdleWorkerSendsNoRates(t *testing.T) {
	_, w := workingEnv(t, qless.WorkerConfig{}, nothing)
	w.Resume()
	until(t, "it is registered, and has nothing to do", func() bool {
		return w.count(of("worker.register")) > 0 && w.Stats().Idle
	})
	w.stop()
	require.Zero(t, w.count(of("rates.add")))
	require.Equal(t, 1, w.count(func(c tapped) bool {
		return of("worker.register")(c) && !strings.Contains(c.args[2], `"stopping":true`)
	}))
}

func TestManyJobsAreOneScriptOfRates(t *testing.T) {
	e, w := workingEnv(t, qless.WorkerConfig{}, nothing)
	for range 200 {
		e.Put("q")
	}
	until(t, "all are complete", func() bool { return w.Stats().Completed == 200 })
	w.stop()
	require.Equal(t, 1, w.count(of("rates.add")))
	require.Equal(t, "[200 0 0 200 200]", e.counted(inspect.RateQuery{}))
}

// The connection breaks after the server has added the rates, and they are sent again.
func TestRatesWhoseAnswerIsLostCountOnce(t *testing.T) {
	e, w := workerEnv(t, qless.WorkerConfig{}, nothing)
	lost := make(chan bool, 100)
	w.instead("rates.add", func(send func() error) error {
		_ = send()
		lost <- true
		return errOffline
	})
	w.start()
	e.Put("q")
	until(t, "the job is complete", func() bool { return w.Stats().Completed == 1 })
	w.Resume()
	soon(t, "the rates", lost)
	until(t, "it was tried", func() bool { return w.Stats().Idle })
	w.instead("rates.add", nil)
	w.stop()
	require.Equal(t, 1, w.count(of("rates.add")), "%s", w)
	require.Equal(t, "[1 0 0 1 1]", e.counted(inspect.RateQuery{}))
}

// A server that is out of memory accepts outcomes, but nothing that needs memory.
func TestRatesThatAFullServerRefusesAreSentLater(t *testing.T) {
	e, w := workerEnv(t, qless.WorkerConfig{}, nothing)
	for range 5 {
		e.Put("q")
	}
	w.refuseScript("rates.add", serverError("OOM command not allowed when used memory > 'maxmemory'."))
	w.start()
	until(t, "all are complete", func() bool { return w.Stats().Completed == 5 })
	for range 3 {
		w.Resume()
		until(t, "it was tried", func() bool { return w.Stats().Idle })
	}
	require.Equal(t, 1, w.log.count("does not take the rates"))
	require.NoError(t, w.Healthy())
	w.refuseWith(nil)
	w.Resume()
	until(t, "the server has them", func() bool { return e.counted(inspect.RateQuery{}) == "[5 0 0 5 5]" })
	w.stop()
	require.Equal(t, "[5 0 0 5 5]", e.counted(inspect.RateQuery{}))
}
