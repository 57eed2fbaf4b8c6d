package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/qless/qless-go"
)

// ended returns an ended context.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// stopping calls Stop or Drain, and waits until the worker takes no more jobs. A worker without any
// answer yet is unhealthy, too. It returns a channel for the error of the call.
func (w *testWorker) stopping(stop func(context.Context) error) <-chan error {
	w.t.Helper()
	done := make(chan error, 1)
	go func() { done <- stop(context.Background()) }()
	until(w.t, "the worker stops", func() bool { return errors.Is(w.Healthy(), qless.ErrStopped) })
	return done
}

func TestAWorkerThatStopsLetsRunningJobsEnd(t *testing.T) {
	for how, shutdownTimeout := range map[string]time.Duration{
		"Stop": 0, "Drain": time.Nanosecond, "the end of Run's context": 0,
	} {
		t.Run(how, func(t *testing.T) {
			e, w := workerEnv(t, qless.WorkerConfig{Concurrency: 2, ShutdownTimeout: shutdownTimeout})
			handler, running, end := hold()
			causes := make(chan error, 1)
			w.Handle("K", func(ctx context.Context, job *qless.Job) error {
				err := handler(ctx, job)
				causes <- ctx.Err()
				return err
			})
			ctx, cancel := context.WithCancel(t.Context())
			ran := make(chan error, 1)
			go func() { ran <- w.Run(ctx) }()
			stop := map[string]func(context.Context) error{
				"Stop": w.Stop, "Drain": w.Drain,
				"the end of Run's context": func(context.Context) error { cancel(); return nil },
			}[how]
			jid := e.begun(running)
			stopped := w.stopping(stop)
			next := e.Put("q")
			require.Len(t, w.Stats().Running, 1)
			end <- nil
			require.NoError(t, soon(t, "the end of Run", ran))
			soon(t, "the end of the worker", w.Closed())
			require.NoError(t, soon(t, "the end of the call", stopped))
			require.NoError(t, <-causes, "of the context")
			require.Equal(t, qless.StateComplete, e.Read(jid).State)
			require.Equal(t, qless.StateWaiting, e.Read(next).State, "no more jobs are taken")
		})
	}
}

func TestJobsThatDoNotEndInTimeAreGivenBack(t *testing.T) {
	e := newLiveEnv(t)
	var log lines
	o, logs := &witness{}, qless.LogJobs(log.logger())
	w, jid, _, causes := e.holding(qless.WorkerConfig{
		Concurrency: 1, ShutdownTimeout: 100 * time.Millisecond,
		Observer: func(event qless.JobEvent) { o.observe(event); logs(event) },
	})
	older := e.Put("q", qless.Priority(-1))
	same := e.Put("q")
	urgent := e.Put("q", qless.Priority(1))
	before := time.Now()
	w.stopLate(jid)
	require.GreaterOrEqual(t, time.Since(before), 100*time.Millisecond)
	require.ErrorIs(t, soon(t, "the end of the context", causes), qless.ErrStopped)
	job := e.Read(jid)
	require.Equal(t, qless.StateWaiting, job.State)
	require.Equal(t, 5, job.Remaining, "no retry is spent")
	require.Empty(t, job.Worker)
	require.Equal(t, []string{urgent, jid, same, older}, jids(e.Pops("q", 4)), "it is the first of its priority")
	require.Equal(t, 1, w.Stats().Released)
	w.log.await(t, "discarded the outcome of a job", 1)
	require.ErrorIs(t, o.ends(t, jid, qless.JobEventStarted).Err, qless.ErrStopped)
	until(t, "a line of the log", func() bool { return log.String() != "" })
	require.Regexp(t, "^level=INFO [^\n]* outcome=stopped ", log.String())
	require.NotContains(t, log.String(), "trace_id")
	require.Zero(t, w.log.count("level=WARN"))
	require.Zero(t, w.Stats().Lost)
}

func TestJobsThatAStoppedWorkerReleasesAreRunByAnother(t *testing.T) {
	e := newLiveEnv(t)
	w, jid, _, _ := e.holding(qless.WorkerConfig{})
	other := e.idleWorker()
	w.stopNow()
	require.Equal(t, reported{"complete", "complete"}, other.outcome(jid))
}

func TestAHandlerThatIgnoresItsContextDoesNotHoldUpStop(t *testing.T) {
	e := newLiveEnv(t)
	running, end, over := make(chan *qless.Job, 1), make(chan bool), make(chan bool)
	config := qless.WorkerConfig{ShutdownTimeout: 50 * time.Millisecond}
	w := e.working(config, func(_ context.Context, job *qless.Job) error {
		defer close(over)
		running <- job
		<-end
		return nil
	})
	jid := e.begun(running)
	w.stopLate(jid)
	require.Equal(t, qless.StateWaiting, e.Read(jid).State)
	close(end)
	soon(t, "the end of the handler", over)
	w.log.await(t, "discarded the outcome of a job", 1)
	require.Zero(t, w.Stats().Lost)
}

// The handler has nothing left to report to the server, but must not be cut off.
func TestStopWaitsForAHandlerThatHasLostItsJob(t *testing.T) {
	e := newLiveEnv(t)
	lost, end := make(chan bool), make(chan bool)
	var over atomic.Bool
	w := e.working(qless.WorkerConfig{}, func(ctx context.Context, _ *qless.Job) error {
		<-ctx.Done()
		close(lost)
		<-end
		over.Store(true)
		return nil
	})
	jid := e.Put("q")
	until(t, "the job runs", func() bool { return len(w.Stats().Running) == 1 })
	require.NoError(t, e.Cancel(t.Context(), jid))
	soon(t, "the end of the context", lost)
	stopped := w.stopping(w.Stop)
	close(end)
	require.NoError(t, soon(t, "the end of the worker", stopped))
	require.True(t, over.Load())
}

func TestStopMayBeCalledAgainAndAtOnce(t *testing.T) {
	w := newLiveEnv(t).idleWorker()
	stopped := make(chan error, 10)
	for range 10 {
		go func() { stopped <- w.Stop(context.Background()) }()
	}
	for range 10 {
		require.NoError(t, soon(t, "the end of Stop", stopped))
	}
	soon(t, "the end of the worker", w.Closed())
	require.NoError(t, w.Stop(t.Context()))
	require.NoError(t, w.Drain(t.Context()))
}

func TestAWorkerMayBeStoppedBeforeItIsStarted(t *testing.T) {
	_, w := workerEnv(t, qless.WorkerConfig{})
	requireCode(t, qless.ErrStopped, w.Healthy())
	w.stop()
	soon(t, "the end of the worker", w.Closed())
	requireCode(t, qless.ErrInvalid, w.Start(t.Context()))
}

func TestAWorkerMayBeStoppedAtOnce(t *testing.T) {
	e := newLiveEnv(t)
	for range 20 {
		jid := e.Put("q")
		handler, _, _ := hold()
		w := e.worker(qless.WorkerConfig{}, handler)
		require.NoError(t, w.Start(t.Context()))
		w.stopNow()
		require.Equal(t, qless.StateWaiting, e.Read(jid).State)
	}
	require.Equal(t, 20, e.Counts("q").Waiting)
}

func TestJobsReservedWhileStoppingAreReleased(t *testing.T) {
	e := newLiveEnv(t)
	w := e.working(qless.WorkerConfig{}, func(context.Context, *qless.Job) error { panic("it is not called") })
	reserved, answer := w.gate("reserve", true)
	jid := e.Put("q")
	soon(t, "a reservation", reserved)
	stopped := w.stopping(func(context.Context) error { return w.Stop(ended()) })
	answer()
	soon(t, "the end of the worker", stopped)
	require.Equal(t, qless.StateWaiting, e.Read(jid).State)
	require.Equal(t, 5, e.Read(jid).Remaining)
}

func TestDrainGivesBackWhenItsContextEnds(t *testing.T) {
	e := newLiveEnv(t)
	w, jid, _, causes := e.holding(qless.WorkerConfig{})
	err := requireCode(t, stopped, w.Drain(ended()))
	require.ErrorIs(t, err, qless.ErrStopped)
	require.ErrorIs(t, err, context.Canceled)
	require.Contains(t, err.Message, jid)
	require.ErrorIs(t, soon(t, "the end of the context", causes), qless.ErrStopped)
	require.Equal(t, qless.StateWaiting, e.Read(jid).State)
}

func TestAStoppedWorkerLeavesNoGoroutine(t *testing.T) {
	e := newLiveEnv(t)
	before := goleak.IgnoreCurrent()
	w, running, end := e.busyWorker(qless.WorkerConfig{
		Queues:    []string{"q", "mail-*"},
		Schedules: []qless.Schedule{newSchedule("s", "@hourly", "q", "K", nil)},
	})
	for range 3 {
		e.begun(running)
	}
	end <- nil
	w.stopNow()
	require.NoError(t, w.rdb.Close())
	goleak.VerifyNone(t, before)
}

func TestStopReturnsWhenTheServerIsAway(t *testing.T) {
	e := newLiveEnv(t)
	w, proxy := e.proxied(qless.WorkerConfig{})
	handler, running, _ := hold()
	w.Handle("K", handler)
	w.start()
	e.begun(running)
	w.offline.Store(true)
	proxy.CutAll()
	stopped := make(chan struct{})
	go func() { w.stopNow(); close(stopped) }()
	soon(t, "the end of the worker", stopped)
}

// The timeout for running jobs does not apply without running jobs.
func TestAWorkerWithoutJobsStopsSoonWithoutServer(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(e *env, w *testWorker){
		"it hangs": func(e *env, w *testWorker) {
			w.start()
			e.Server.Suspend()
			w.unhealthy()
		},
		"it is gone": func(e *env, w *testWorker) {
			w.start()
			e.Server.Kill()
			w.unhealthy()
		},
		"it has never answered": func(e *env, w *testWorker) {
			e.Server.Suspend()
			require.NoError(w.t, w.Start(w.t.Context()))
			err := requireCode(w.t, qless.ErrUnavailable, w.Healthy())
			require.Contains(w.t, err.Message, "has not answered yet")
		},
		"it may have locked a job, which the worker asks for": func(e *env, w *testWorker) {
			w.beforeItHears("j", func() error { e.Server.Suspend(); return errOffline })
			w.start()
			e.Put("q", qless.JID("j"))
			w.log.await(w.t, "the server does not answer", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, w := workerEnv(t, qless.WorkerConfig{
				PollInterval: 50 * time.Millisecond, ShutdownTimeout: time.Hour,
			})
			defer e.Server.Resume()
			lose(e, w)
			require.NoError(t, soon(t, "the end of Stop", w.stopping(w.Stop)))
		})
	}
}

func TestStopWaitsForAnOutcomeThatIsHeldBack(t *testing.T) {
	e, w := workingEnv(t, qless.WorkerConfig{ShutdownTimeout: time.Hour}, nothing)
	w.refuseOutcome("j", damage)
	e.Put("q", qless.JID("j"))
	w.log.await(t, "the server refuses an outcome", 1)
	stopped := w.stopping(w.Stop)
	w.refuseWith(nil)
	soon(t, "the end of the worker", stopped)
	require.Equal(t, qless.StateComplete, e.Read("j").State)
	require.Equal(t, 1, w.Stats().Completed)
}

// departed waits until the server knows that the worker is no longer idle.
func (w *testWorker) departed() {
	w.t.Helper()
	w.await(w.t, "a goodbye", 1, func(c tapped) bool { return c.script == "reserve" && c.args[1] == "0" })
}

func TestAPausedWorkerTakesNoJobsAndEndsThoseItHas(t *testing.T) {
	e := newLiveEnv(t)
	w, first, end, _ := e.holding(qless.WorkerConfig{})
	w.Pause()
	w.departed()
	second := e.Put("q")
	end <- nil
	require.Equal(t, reported{"complete", "complete"}, w.outcome(first))
	require.Equal(t, qless.StateWaiting, e.Read(second).State)
	end <- nil
	w.Resume()
	require.Equal(t, reported{"complete", "complete"}, w.outcome(second))
}

func TestAWorkerMayBePausedBeforeItIsStarted(t *testing.T) {
	e, w := workerEnv(t, qless.WorkerConfig{}, nothing)
	w.Pause()
	jid := e.Put("q")
	require.NoError(t, w.Start(t.Context()))
	require.True(t, w.Stats().Paused)
	e.idleWorker("other") // meanwhile
	require.Zero(t, w.count(of("reserve")))
	w.Resume()
	require.Equal(t, reported{"complete", "complete"}, w.outcome(jid))
}

func TestJobsReservedWhilePausingAreReleased(t *testing.T) {
	handler, running, _ := hold()
	e, w := workerEnv(t, qless.WorkerConfig{}, handler)
	w.beforeItHears("j", func() error { w.Pause(); return nil })
	w.start()
	e.Put("q", qless.JID("j"))
	require.Equal(t, reported{"release", "5"}, w.outcome("j"))
	require.Equal(t, qless.StateWaiting, e.Read("j").State)
	require.Empty(t, running)
	w.Resume()
	soon(t, "the job", running)
}

func TestAWorkerWhoseQueuesAreForgottenMayBePaused(t *testing.T) {
	e := newLiveEnv(t)
	jid := e.Put("some")
	w := e.working(qless.WorkerConfig{Queues: []string{"*"}, PollInterval: 10 * time.Millisecond}, nothing)
	until(t, "the queue is empty", func() bool { return e.Read(jid).State == qless.StateComplete })
	require.NoError(t, e.ForgetQueue(t.Context(), "some"))
	until(t, "the worker has no queue", func() bool { return len(w.Stats().Queues) == 0 })
	w.Pause()
	w.departed()
	require.Empty(t, e.Redis.SMembers(t.Context(), "ql:x:idle").Val())
}
