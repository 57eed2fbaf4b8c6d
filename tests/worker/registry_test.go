package worker

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// workerInfo returns a worker's information about itself, or nil if there is none or it is not
// listed.
func (e *env) workerInfo(worker string) *inspect.WorkerInfo {
	e.T.Helper()
	workers, err := inspect.New(e.Client).Workers(e.T.Context())
	require.NoError(e.T, err)
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
	host, err := os.Hostname()
	require.NoError(t, err)
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
	require.Nil(t, e.workerInfo(w.Name()))
	require.Empty(t, e.Redis.Keys(t.Context(), "ql:x:worker:*").Val())
}

func TestAWorkerReportsKlassesWithoutHandlers(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{UnknownKlassDelay: time.Hour})
	w.start()
	require.Equal(t, "release", w.outcome(e.Put("q")).action)
	w.Pause()
	info := e.describedAs(w.Name(), "it is paused", func(i *inspect.WorkerInfo) bool { return i.Paused })
	require.Equal(t, []inspect.UnhandledKlass{{Queue: "q", Klass: "K"}}, info.Unhandled)
}

func TestAWorkerThatWaitsForItsJobsIsListedAsStopping(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	handler, running, end := hold()
	w.Handle("K", handler)
	w.start()
	e.Put("q")
	soon(t, "the job", running)
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
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	w.Handle("K", nothing)
	w.refuseWith(func(script string, _ []any) error {
		if script == "worker.register" {
			return serverError("NOPERM User worker has no permissions to run the 'set' command")
		}
		return nil
	})
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
	w := e.worker(qless.WorkerConfig{})
	w.Handle("K", nothing)
	w.start()
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
