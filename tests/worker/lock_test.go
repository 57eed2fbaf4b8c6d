package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/tests/repairs"
	"github.com/qless/qless-go/tests/scripts"
)

// holdCauses is hold, and sends the causes of ended contexts to a further channel.
func holdCauses() (handler qless.Handler, running chan *qless.Job, end, causes chan error) {
	held, running, end := hold()
	causes = make(chan error, 10)
	return func(ctx context.Context, job *qless.Job) error {
		err := held(ctx, job)
		if ctx.Err() != nil {
			causes <- context.Cause(ctx)
		}
		return err
	}, running, end, causes
}

// holding starts a worker with the handler of holdCauses, and puts a job, which then runs.
func (e *env) holding(
	config qless.WorkerConfig,
) (w *testWorker, jid string, end, causes chan error) {
	e.T.Helper()
	handler, running, end, causes := holdCauses()
	w = e.working(config, handler)
	jid = e.begun(running)
	return w, jid, end, causes
}

// tell sends a worker an event of a job, like the server.
func (e *env) tell(w *testWorker, jid, event string) {
	e.T.Helper()
	message := fmt.Sprintf(`{"jid":%q,"event":%q,"worker":%q}`, jid, event, w.Name())
	require.NoError(e.T, e.Redis.Publish(e.T.Context(), "ql:w:"+w.Name(), message).Err())
}

func TestLocksAreRenewedWhileTheHandlerWorks(t *testing.T) {
	t.Parallel()
	e := newLiveEnv(t)
	e.Set("heartbeat", "6")
	w, jid, end, causes := e.holding(qless.WorkerConfig{})
	expires := e.Read(jid).Expires
	first := w.await(t, "a renewal", 1, of("renew"))
	second := w.await(t, "a renewal", 2, of("renew"))
	require.GreaterOrEqual(t, second.at.Sub(first.at), time.Second, "at a third of the lock's time")
	require.Greater(t, e.Read(jid).Expires.Sub(expires), time.Second)
	end <- nil
	require.Equal(t, reported{"complete", "complete"}, w.outcome(jid))
	require.Empty(t, causes)
	require.Equal(t, []string{"put", "popped", "done"}, whats(e.Read(jid).History))
}

func TestAJobEndedByAnotherProgramHasItsRunTime(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("j"))
	e.reserve("w", 1, "ordered", "0", "", "q")
	e.Clock.Advance(10 * time.Second)
	_, err := repairs.End(t.Context(), e.Client, "j", repairs.Ending{State: qless.StateComplete})
	require.NoError(t, err)
	stats := must(e.Client.Queue("q").Stats(t.Context(), e.Clock.Now()))(t)
	require.InDelta(t, 10, stats.Run.Mean.Seconds(), 0.001)
}

func TestAWorkerThatRenewsLocksIsSeen(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("j"))
	e.reserve("w", 1, "ordered", "0", "", "q")
	e.Clock.Advance(30 * time.Second)
	require.Equal(t, []any{"60"}, must(e.Run(t.Context(), "renew", "", "w", "j"))(t))
	require.EqualValues(t, e.Clock.Now().Unix(), int(e.Redis.ZScore(t.Context(), "ql:workers", "w").Val()))
}

func TestLocksOfManyJobsAreRenewedTogether(t *testing.T) {
	t.Parallel()
	e := newLiveEnv(t)
	e.Set("heartbeat", "6")
	for range 8 {
		e.Put("q")
	}
	w, running, _ := e.busyWorker(qless.WorkerConfig{Concurrency: 20})
	for range 8 {
		soon(t, "a job", running)
	}
	require.Len(t, w.await(t, "a renewal", 2, of("renew")).args, 1+8)
	require.Len(t, w.Stats().Running, 8)
}

// A job with a hash replaced by another type makes the script fail.
func TestOneDamagedJobDoesNotKeepOthersFromBeingRenewed(t *testing.T) {
	t.Parallel()
	e := newLiveEnv(t)
	e.Set("heartbeat", "6")
	e.Put("q", qless.JID("damaged"))
	w, jid, _, causes := e.holding(qless.WorkerConfig{})
	until(t, "both run", func() bool { return len(w.Stats().Running) == 2 })
	require.NoError(t, e.Redis.Set(t.Context(), "ql:j:damaged", "text", 0).Err())
	require.ErrorIs(t, soon(t, "the end of the damaged job's context", causes), qless.ErrLockLost)
	expires := e.Read(jid).Expires
	until(t, "the other one is renewed", func() bool { return e.Read(jid).Expires.After(expires) })
	require.Empty(t, causes)
	require.Len(t, w.Stats().Running, 1)
}

func TestALostLockEndsTheContext(t *testing.T) {
	for name, c := range map[string]struct {
		lose     func(ctx context.Context, e *env, job *qless.Job) error
		cause    error
		canceled int
		state    qless.State
	}{
		"timed out": {func(ctx context.Context, e *env, job *qless.Job) error {
			return repairs.TimeOut(ctx, e.Client, job.JID)
		}, qless.ErrLockLost, 0, qless.StateTimedOut},
		"moved": {func(ctx context.Context, _ *env, job *qless.Job) error {
			return job.Move(ctx, "other")
		}, qless.ErrLockLost, 0, qless.StateWaiting},
		"canceled": {func(ctx context.Context, _ *env, job *qless.Job) error {
			return job.Cancel(ctx)
		}, qless.ErrCanceled, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLiveEnv(t)
			w, jid, _, causes := e.holding(qless.WorkerConfig{Concurrency: 1})
			w.Pause() // it would take the job again
			require.NoError(t, c.lose(t.Context(), e, e.Read(jid)))
			require.ErrorIs(t, soon(t, "the end of the context", causes), c.cause)
			lost := 1 - c.canceled
			until(t, "the handler has returned", func() bool {
				stats := w.Stats()
				return stats.Canceled == c.canceled && stats.Lost == lost
			})
			w.stop()
			for text, lines := range map[string]int{
				"a job was canceled while it ran": c.canceled,
				"lost the lock of a job":          lost,
				"discarded the outcome of a job":  lost,
				"level=WARN":                      lost,
			} {
				require.Equal(t, lines, w.log.count(text), text)
			}
			require.Equal(t, []int{c.canceled, lost}, []int{w.Stats().Canceled, w.Stats().Lost})
			require.Empty(t, w.Stats().Running)
			require.Zero(t, w.count(of("finish")))
			if c.canceled == 1 {
				require.Equal(t, 1, w.log.count("level=INFO"))
				require.Equal(t, 1, w.log.count("level="), "a cancel is one line")
				return
			}
			require.Equal(t, c.state, e.Read(jid).State)
		})
	}
}

// An event may arrive late, and concern an earlier lock of the job.
func TestAnEventAloneDoesNotLoseALock(t *testing.T) {
	for _, event := range []string{"lock_lost", "canceled"} {
		e := newLiveEnv(t)
		w, jid, end, causes := e.holding(qless.WorkerConfig{})
		e.tell(w, jid, event)
		w.await(t, "a renewal", 1, of("renew"))
		end <- nil
		require.Equal(t, reported{"complete", "complete"}, w.outcome(jid))
		require.Empty(t, causes)
	}
}

// A lock ended on the server by the handler itself is not lost, even if a renewal is refused before
// the handler receives the answer. Nothing more is reported, regardless of the handler's result.
func TestAHandlerThatEndsItsJobDoesNotLoseIt(t *testing.T) {
	for script, c := range map[string]struct {
		end    func(ctx context.Context, job *qless.Job) error
		became string // the state and the queue
	}{
		"complete": {func(ctx context.Context, job *qless.Job) error { return job.Complete(ctx) }, "complete "},
		"fail":     {func(ctx context.Context, job *qless.Job) error { return job.Fail(ctx, "g", "m") }, "failed q"},
		"retry": {func(ctx context.Context, job *qless.Job) error {
			return errOf(job.Retry(ctx, time.Hour, "", ""))
		}, "scheduled q"},
		"release": {func(ctx context.Context, job *qless.Job) error { return job.Release(ctx, time.Hour) }, "scheduled q"},
		"requeue": {func(ctx context.Context, job *qless.Job) error { return job.Move(ctx, "other") }, "waiting other"},
		"cancel":  {func(ctx context.Context, job *qless.Job) error { return job.Cancel(ctx) }, ""},
	} {
		for _, returned := range []error{nil, errors.New("too late to fail")} {
			t.Run(script, func(t *testing.T) {
				e, w := workerEnv(t, qless.WorkerConfig{Concurrency: 1})
				ended := make(chan error, 1)
				w.Handle("K", func(ctx context.Context, job *qless.Job) error {
					err := c.end(ctx, job)
					ended <- errors.Join(err, context.Cause(ctx))
					return returned
				})
				sent, open := w.gate(script, true)
				w.start()
				jid := e.Put("q")
				soon(t, "the command", sent)
				w.Pause()          // it might take the job again
				for n := range 2 { // a lost lock is not renewed
					e.tell(w, jid, "lock_lost")
					w.await(t, "a renewal", n+1, of("renew"))
				}
				require.Len(t, w.Stats().Running, 1)
				open()
				require.NoError(t, soon(t, "the end of the command", ended))
				w.stop()
				stats := w.Stats()
				require.Equal(t, []int{1, 0, 0}, []int{stats.Ended, stats.Canceled, stats.Lost})
				require.Zero(t, w.log.count("level=WARN"))
				require.Zero(t, w.log.count("canceled"))
				require.Zero(t, w.count(of("finish")))
				job, err := e.Job(t.Context(), jid)
				if c.became == "" {
					require.ErrorIs(t, err, qless.ErrNotFound)
					return
				}
				require.NoError(t, err)
				require.Equal(t, c.became, string(job.State)+" "+job.Queue)
			})
		}
	}
}

// The command was refused, and the lock is gone, so the worker no longer waits for the handler's
// end of the job.
func TestAHandlerThatFailsToEndItsJobLosesIt(t *testing.T) {
	t.Parallel()
	e := newLiveEnv(t)
	e.Set("heartbeat", "20")
	require.NoError(t, e.Redis.ScriptLoad(t.Context(), scripts.Text()).Err())
	w := e.worker(qless.WorkerConfig{Concurrency: 1})
	causes := make(chan error, 1)
	w.Handle("K", func(ctx context.Context, job *qless.Job) error {
		err := job.Complete(ctx)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return err
	})
	sent, open := w.gate("complete", false)
	w.start()
	jid := e.Put("q")
	soon(t, "the command", sent)
	require.NoError(t, e.Cancel(t.Context(), jid))
	w.await(t, "a renewal", 1, of("renew"))
	open()
	require.ErrorIs(t, soon(t, "the end of the context", causes), qless.ErrCanceled)
	w.stop()
	require.Equal(t, 1, w.Stats().Canceled)
}

func TestALockEndsWhenItCannotBeRenewed(t *testing.T) {
	for name, silent := range map[string]bool{"refused": false, "silent": true} {
		t.Run(name, func(t *testing.T) {
			e := newLiveEnv(t)
			e.Set("heartbeat", "0.6")
			e.Set("grace-period", "0")
			handler, running, _, causes := holdCauses()
			ended := make(chan time.Time, 1)
			w := e.worker(qless.WorkerConfig{}, func(ctx context.Context, job *qless.Job) error {
				defer func() { ended <- time.Now() }()
				return handler(ctx, job)
			})
			over := make(chan bool)
			t.Cleanup(func() { close(over) })
			w.instead("renew", func(func() error) error {
				if silent {
					<-over
				}
				return errors.New("no")
			})
			w.start()
			jid := e.begun(running)
			expires := e.Read(jid).Expires
			early := expires.Sub(soon(t, "the end of the context", ended))
			require.Less(t, early, 300*time.Millisecond, "the lock lasts that much longer")
			require.ErrorIs(t, soon(t, "the end of the context", causes), qless.ErrLockLost)
			if !silent {
				w.log.await(t, "could not renew locks", 1)
			}
			w.log.await(t, "a lock expired before it could be renewed", 1)
			w.log.await(t, "discarded the outcome of a job", 1)
			attempts := w.count(func(c tapped) bool { return c.script == "renew" })
			require.Less(t, attempts, 15, "it does not spin")
		})
	}
}

func TestALockEndsWhenTheServerHangs(t *testing.T) {
	e := newLiveEnv(t)
	e.Set("heartbeat", "0.6")
	w, _, _, causes := e.holding(qless.WorkerConfig{})
	e.Server.Suspend()
	defer e.Server.Resume()
	require.ErrorIs(t, soon(t, "the end of the context", causes), qless.ErrLockLost)
	e.Server.Resume()
	w.stopNow()
}

// Once a job is given up, a renewal under way does not lock it.
func TestALateRenewalDoesNotKeepAJobFromBeingWorked(t *testing.T) {
	e := newLiveEnv(t)
	e.Set("heartbeat", "0.6")
	w := e.worker(qless.WorkerConfig{Concurrency: 1})
	givenUp, renewed := make(chan bool), make(chan bool)
	w.instead("renew", func(send func() error) error {
		<-givenUp
		defer close(renewed)
		w.instead("renew", nil)
		return errors.Join(e.Config().Set(t.Context(), "heartbeat", 3600), send())
	})
	runs := 0
	w.Handle("K", func(ctx context.Context, _ *qless.Job) error {
		if runs++; runs == 1 {
			<-ctx.Done()
			close(givenUp)
			<-renewed
		}
		return nil
	})
	w.start()
	jid := e.Put("q")
	require.Equal(t, reported{"retry", "4"}, w.outcome(jid))
	require.Equal(t, reported{"complete", "complete"}, w.ends(jid))
	w.stop()
	require.Equal(t, 1, w.Stats().Lost)
}

func TestAJobThatWasGivenUpMayBeAnotherWorkers(t *testing.T) {
	e := newLiveEnv(t)
	e.Set("heartbeat", "0.6")
	e.Set("grace-period", "0")
	w := e.worker(qless.WorkerConfig{Concurrency: 1})
	w.instead("renew", func(func() error) error { return errors.New("no") })
	givenUp, taken := make(chan bool), make(chan bool)
	w.Handle("K", func(ctx context.Context, _ *qless.Job) error {
		<-ctx.Done()
		close(givenUp)
		<-taken
		return nil
	})
	w.start()
	jid := e.Put("q")
	soon(t, "the end of the lock", givenUp)
	e.Set("heartbeat", "60")
	var jobs []*qless.Job
	until(t, "another worker takes the job", func() bool {
		jobs, _ = e.Queue("q").Pop(t.Context(), 1)
		return len(jobs) == 1
	})
	close(taken)
	require.Contains(t, w.outcome(jid).answer, "has been given to another worker")
	require.NoError(t, jobs[0].Complete(t.Context()))
	w.stop()
	require.Equal(t, 1, w.Stats().Lost)
	require.Zero(t, w.Stats().Retried)
	require.Zero(t, w.log.count("the server did not take an outcome"))
}

// The answer to a renewal takes longer than the time to the next one.
func TestASlowAnswerDoesNotKeepALockFromBeingRenewed(t *testing.T) {
	t.Parallel()
	e := newLiveEnv(t)
	e.Set("heartbeat", "9")
	w, jid, end, causes := e.holding(qless.WorkerConfig{})
	over := make(chan struct{})
	slowly := func(send func() error) error {
		err := send()
		select { // the reply is slow
		case <-time.After(4 * time.Second):
		case <-over:
		}
		return err
	}
	w.instead("renew", slowly)
	w.await(t, "a renewal", 3, of("renew"))
	defer close(over) // the worker does not wait for the last one
	require.Empty(t, causes)
	end <- nil
	require.Equal(t, reported{"complete", "complete"}, w.outcome(jid))
}

func TestAHandlerMayRenewItsLockItself(t *testing.T) {
	e := newLiveEnv(t)
	job, got := e.works(qless.WorkerConfig{}, func(ctx context.Context, job *qless.Job) error {
		if err := job.SetData("half done"); err != nil {
			return err
		}
		if err := errOf(job.Heartbeat(ctx)); err != nil {
			return err
		}
		return job.Refresh(ctx)
	})
	require.Equal(t, reported{"complete", "complete"}, got)
	require.Equal(t, `"half done"`, string(job.Data))
}

// The server knows a lock only by its worker's name, which is the same in both runs.
func TestARunThatLostItsJobCannotEndTheNextOne(t *testing.T) {
	e := newLiveEnv(t)
	runs, lost := make(chan *qless.Job, 2), make(chan error, 2)
	next := make(chan error)
	config := qless.WorkerConfig{Concurrency: 2}
	w := e.working(config, func(ctx context.Context, job *qless.Job) error {
		runs <- job
		select {
		case <-ctx.Done():
			lost <- context.Cause(ctx)
			return nil
		case err := <-next:
			return err
		}
	})
	jid := e.Put("q")
	first := soon(t, "the first run", runs)
	require.NoError(t, repairs.TimeOut(t.Context(), e.Client, jid))
	require.ErrorIs(t, soon(t, "the end of the context", lost), qless.ErrLockLost)
	soon(t, "the second run", runs)
	// The event may arrive before or after the second run starts: a renewal decides which lock was
	// lost.
	w.await(t, "a renewal", 1, of("renew"))
	until(t, "the worker asks for no more jobs", func() bool {
		return e.Redis.ZCard(t.Context(), "ql:x:idle:q").Val() == 1
	})

	require.NoError(t, first.Refresh(t.Context()))
	for op, act := range map[string]func() error{
		"complete":  func() error { return first.Complete(t.Context()) },
		"fail":      func() error { return first.Fail(t.Context(), "g", "m") },
		"retry":     func() error { return errOf(first.Retry(t.Context(), 0, "", "")) },
		"heartbeat": func() error { return errOf(first.Heartbeat(t.Context())) },
		"requeue":   func() error { return first.Move(t.Context(), "other") },
		"release":   func() error { return first.Release(t.Context(), 0) },
	} {
		e.Unchanged(func() {
			err := requireCode(t, qless.ErrLockLost, act())
			require.Equal(t, op, err.Op)
			require.Equal(t, jid, err.JID)
		})
	}
	next <- nil
	require.Equal(t, reported{"complete", "complete"}, w.ends(jid))
}

func TestARunThatEndedItsJobCannotEndTheNextOne(t *testing.T) {
	e := newLiveEnv(t)
	again, stop, ended := make(chan bool, 1), make(chan bool), make(chan error, 1)
	config := qless.WorkerConfig{Concurrency: 2}
	w := e.working(config, func(ctx context.Context, job *qless.Job) error {
		if job.Remaining == 4 {
			again <- true
			<-stop
			return nil
		}
		if err := errOf(job.Retry(ctx, 0, "", "")); err != nil {
			return err
		}
		soon(t, "the second run", again)
		ended <- job.Complete(ctx)
		return nil
	})
	jid := e.Put("q")
	requireCode(t, qless.ErrLockLost, soon(t, "the end of the first run", ended))
	close(stop)
	require.Equal(t, reported{"complete", "complete"}, w.ends(jid))
}

func TestARunThatLostItsJobMayCancelIt(t *testing.T) {
	e := newLiveEnv(t)
	canceled := make(chan error, 1)
	config := qless.WorkerConfig{Concurrency: 1}
	w := e.working(config, func(ctx context.Context, job *qless.Job) error {
		<-ctx.Done()
		canceled <- job.Cancel(t.Context())
		return nil
	})
	jid := e.Put("q")
	until(t, "the job runs", func() bool { return len(w.Stats().Running) == 1 })
	w.Pause()
	require.NoError(t, repairs.TimeOut(t.Context(), e.Client, jid))
	require.NoError(t, soon(t, "the end of the handler", canceled))
	_, err := e.Job(t.Context(), jid)
	require.ErrorIs(t, err, qless.ErrNotFound)
}

// A worker may begin a job before it receives the job's events.
func TestAJobThatIsCanceledAsItsWorkerStartsIsStopped(t *testing.T) {
	e := newLiveEnv(t)
	require.NoError(t, e.Queue("q").SetHeartbeat(t.Context(), time.Hour)) // no renewal finds it
	for range 10 {
		jid := e.Put("q")
		handler, running, _, causes := holdCauses()
		w := e.worker(qless.WorkerConfig{}, handler)
		require.NoError(t, w.Start(t.Context()))
		soon(t, "the job", running)
		require.NoError(t, e.Cancel(t.Context(), jid))
		require.ErrorIs(t, soon(t, "the end of the context", causes), qless.ErrCanceled)
		w.stop()
	}
}

// Other clients may set a heartbeat time that makes locks expire at once.
func TestAWorkerKeepsItsLocksWhateverTheHeartbeat(t *testing.T) {
	for _, seconds := range []string{"0", "-10"} {
		e := newLiveEnv(t)
		require.NoError(t, errOf(e.Do(t.Context(), "config.set", "q-heartbeat", seconds)))
		w, jid, end, causes := e.holding(qless.WorkerConfig{})
		ends := e.Read(jid).Expires
		require.WithinDuration(t, time.Now().Add(time.Minute), ends, patience)
		e.tell(w, jid, "lock_lost")
		w.await(t, "a renewal", 1, of("renew"))
		require.True(t, e.Read(jid).Expires.After(ends), "it was renewed for as long")
		end <- nil
		require.Equal(t, reported{"complete", "complete"}, w.outcome(jid))
		require.Empty(t, causes)
	}
}

// The smallest limit applies: the job's, the klass's or the worker's.
func TestAJobMayRunForLessTimeThanOthers(t *testing.T) {
	for name, c := range map[string]struct {
		worker, klass, job, want time.Duration
	}{
		"only its own":                {0, 0, time.Hour, time.Hour},
		"less than the worker's":      {3 * time.Hour, 0, time.Hour, time.Hour},
		"more than the worker's":      {time.Hour, 0, 3 * time.Hour, time.Hour},
		"less than the klass's":       {time.Minute, 3 * time.Hour, time.Hour, time.Hour},
		"more than the klass's":       {time.Minute, time.Hour, 3 * time.Hour, time.Hour},
		"a klass without a limit":     {time.Minute, -1, time.Hour, time.Hour},
		"a klass and a job without":   {time.Minute, -1, qless.Forever, 0},
		"a worker and a job without":  {-1, 0, qless.Forever, 0},
		"a worker's, a job's without": {time.Hour, 0, qless.Forever, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLiveEnv(t)
			left := make(chan time.Duration, 1)
			config := qless.WorkerConfig{MaxRunTime: c.worker}
			w := e.working(config, func(ctx context.Context, _ *qless.Job) error {
				deadline, limited := ctx.Deadline()
				if !limited {
					left <- 0
					return nil
				}
				left <- time.Until(deadline)
				return nil
			}, qless.MaxRunTime(c.klass))
			jid := e.Put("q", qless.MaxRunTime(c.job))
			require.InDelta(t, c.want.Seconds(), soon(t, "a handler", left).Seconds(), 60)
			require.Equal(t, "complete", w.outcome(jid).action)
		})
	}
}

func TestAHandlerEndsWithTheTTLOfItsJob(t *testing.T) {
	t.Parallel()
	handler, running, _, causes := holdCauses()
	e, w := workingEnv(t, qless.WorkerConfig{}, handler)
	began := time.Now()
	jid := e.Put("q", qless.TTL(2*time.Second))
	require.WithinDuration(t, began, soon(t, "the handler", running).Until, time.Minute)
	until(t, "its life ends", func() bool { return must(e.Sweep(t.Context()))(t) == 1 })
	require.ErrorIs(t, soon(t, "the end of the context", causes), qless.ErrCanceled)
	require.ErrorIs(t, errOf(e.Job(t.Context(), jid)), qless.ErrNotFound)
	until(t, "it counts", func() bool { return w.Stats().Canceled == 1 })
}

// A worker that has found only expired jobs asks again at once.
func TestAWorkerIsNotHeldUpByJobsWhoseLivesHaveEnded(t *testing.T) {
	e := newLiveEnv(t)
	for range 3 {
		e.putBacklog("q", 1000, qless.StartBy(time.Millisecond), qless.Priority(1))
	}
	jid := e.Put("q")
	require.Equal(t, "complete", e.working(qless.WorkerConfig{}, nothing).outcome(jid).action)
}

// Of two locks with different expiry times, the longer is not renewed whenever the shorter is.
func TestLocksWithATimeOfTheirOwnAreRenewedInTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		heartbeat string
		own       time.Duration
		renewed   string
	}{
		"a short one": {"60", 6 * time.Second, "own"},
		"a long one":  {"6", time.Hour, "plain"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLiveEnv(t)
			e.Set("heartbeat", c.heartbeat)
			e.Put("q", qless.JID("own"), qless.LockTime(c.own))
			e.Put("q", qless.JID("plain"))
			w, running, end := e.busyWorker(qless.WorkerConfig{})
			for range 2 {
				soon(t, "a job", running)
			}
			require.InDelta(t, c.own.Seconds(), time.Until(e.Read("own").Expires).Seconds(), 600)
			expires := e.Read(c.renewed).Expires
			require.Equal(t, []string{c.renewed}, w.await(t, "a renewal", 2, of("renew")).args[1:])
			require.Greater(t, e.Read(c.renewed).Expires.Sub(expires), time.Second)
			end <- nil
			end <- nil
			for _, jid := range []string{"own", "plain"} {
				require.Equal(t, reported{"complete", "complete"}, w.outcome(jid))
				require.Equal(t, []string{"put", "popped", "done"}, whats(e.Read(jid).History))
			}
		})
	}
}
