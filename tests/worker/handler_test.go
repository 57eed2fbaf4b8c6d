package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

func TestNilCompletesAJobAndSavesItsData(t *testing.T) {
	e := newLiveEnv(t)
	job, got := e.works(qless.WorkerConfig{}, func(_ context.Context, job *qless.Job) error {
		return job.SetData(map[string]int{"done": 3})
	})
	require.Equal(t, reported{"complete", "complete"}, got)
	require.Equal(t, qless.StateComplete, job.State)
	require.Equal(t, `{"done":3}`, string(job.Data))
	require.Equal(t, []string{"put", "popped", "done"}, whats(job.History))
}

func TestNilLeavesUnchangedDataAsItIs(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	w.Handle("K", func(ctx context.Context, job *qless.Job) error {
		_, err := e.Redis.HSet(ctx, "ql:j:"+job.JID, "data", `"by another"`).Result()
		return err
	})
	w.start()
	jid := e.Put("q")
	w.outcome(jid)
	require.Equal(t, `"by another"`, string(e.Read(jid).Data))
}

func TestAHandlerMayEndItsJobItself(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(ctx context.Context, job *qless.Job) error
		state qless.State
		queue string
	}{
		"complete": {func(ctx context.Context, job *qless.Job) error { return job.Complete(ctx) }, qless.StateComplete, ""},
		"advance": {func(ctx context.Context, job *qless.Job) error {
			return job.Next(ctx, "other")
		}, qless.StateWaiting, "other"},
		"fail":    {func(ctx context.Context, job *qless.Job) error { return job.Fail(ctx, "g", "m") }, qless.StateFailed, "q"},
		"retry":   {func(ctx context.Context, job *qless.Job) error { return errOf(job.Retry(ctx, time.Hour, "", "")) }, qless.StateScheduled, "q"},
		"release": {func(ctx context.Context, job *qless.Job) error { return job.Release(ctx, time.Hour) }, qless.StateScheduled, "q"},
		"move":    {func(ctx context.Context, job *qless.Job) error { return job.Move(ctx, "other") }, qless.StateWaiting, "other"},
	} {
		for _, returned := range []error{nil, errors.New("too late to fail")} {
			t.Run(name, func(t *testing.T) {
				e := newLiveEnv(t)
				w := e.worker(qless.WorkerConfig{})
				ended := make(chan error, 1)
				w.Handle("K", func(ctx context.Context, job *qless.Job) error {
					ended <- c.end(ctx, job)
					return returned
				})
				w.start()
				jid := e.Put("q")
				require.NoError(t, soon(t, "the end of the job", ended))
				w.stop()
				job := e.Read(jid)
				require.Equal(t, c.state, job.State)
				require.Equal(t, c.queue, job.Queue)
				require.Zero(t, w.count(of("finish")), "nothing more is reported")
				require.Equal(t, 1, w.Stats().Ended)
				require.Zero(t, w.Stats().Lost)
			})
		}
	}
}

func TestAHandlerMayCancelItsJob(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	canceled := make(chan error, 1)
	w.Handle("K", func(ctx context.Context, job *qless.Job) error {
		err := job.Cancel(ctx)
		canceled <- err
		return err
	})
	w.start()
	jid := e.Put("q")
	require.NoError(t, soon(t, "the end of the handler", canceled))
	w.stop()
	_, err := e.Job(t.Context(), jid)
	require.ErrorIs(t, err, qless.ErrNotFound)
	require.Zero(t, w.count(of("finish")))
}

func TestMiddlewareRunsInTheOrderOfUse(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	var mu sync.Mutex
	var steps []string
	step := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		steps = append(steps, name)
	}
	around := func(name string) qless.Middleware {
		return func(next qless.Handler) qless.Handler {
			return func(ctx context.Context, job *qless.Job) error {
				step(name + " in")
				defer step(name + " out")
				return next(ctx, job)
			}
		}
	}
	w.Use(around("first"), around("second"))
	w.Handle("K", func(context.Context, *qless.Job) error { step("work"); return nil })
	w.Use(around("third"))
	w.start()
	w.outcome(e.Put("q"))
	require.Equal(t, []string{
		"first in", "second in", "third in", "work", "third out", "second out", "first out",
	}, steps)
}

func TestMiddlewareMayChangeTheOutcome(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	w.Use(func(next qless.Handler) qless.Handler {
		return func(ctx context.Context, job *qless.Job) error {
			if err := next(ctx, job); err != nil {
				return qless.FailWith("by-middleware", err)
			}
			return nil
		}
	})
	w.Handle("K", func(context.Context, *qless.Job) error { return errors.New("no") })
	w.start()
	jid := e.Put("q")
	require.Equal(t, "fail", w.outcome(jid).action)
	require.Equal(t, "by-middleware", e.Read(jid).Failure.Group)
}

type letter struct {
	To    string
	Count int
}

func TestHandleDecodesTheData(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	letters := make(chan letter, 2)
	w.Handle("Letter", qless.Typed(func(_ context.Context, job *qless.Job, data letter) error {
		data.Count += len(job.Tags)
		letters <- data
		return nil
	}))
	w.start()
	jid, err := e.Queue("q").Put(t.Context(), "Letter", letter{To: "ann", Count: 2}, qless.Tags{"a"})
	require.NoError(t, err)
	require.Equal(t, letter{To: "ann", Count: 3}, soon(t, "a letter", letters))
	require.Equal(t, "complete", w.outcome(jid).action)
}

func TestDataThatDoesNotFitFailsTheJob(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	w.Handle("Letter", qless.Typed(func(context.Context, *qless.Job, letter) error {
		panic("it is not called")
	}))
	w.start()
	jid, err := e.Queue("q").Put(t.Context(), "Letter", []int{1})
	require.NoError(t, err)
	require.Equal(t, "fail", w.outcome(jid).action)
	job := e.Read(jid)
	require.Equal(t, "Letter:data", job.Failure.Group)
	require.Contains(t, job.Failure.Message, "cannot unmarshal array")
	require.Equal(t, "[1]", string(job.Data))
	require.Equal(t, 5, job.Remaining)
}

func TestTheMostSpecificHandlerIsCalled(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	called := make(chan string, 10)
	for _, pattern := range []string{"*", "Mail::*", "Mail::Slow::*", "Mail::Welcome", "Mail"} {
		w.Handle(pattern, func(context.Context, *qless.Job) error { called <- pattern; return nil })
	}
	w.start()
	for klass, pattern := range map[string]string{
		"Mail": "Mail", "Mail::Welcome": "Mail::Welcome", "Mail::WelcomeBack": "Mail::*", "Mail::": "Mail::*",
		"Mail::Slow::X": "Mail::Slow::*", "Mail::Slow": "Mail::*", "Mailing": "*", "Other": "*", "*": "*",
	} {
		jid, err := e.Queue("q").Put(t.Context(), klass, nil)
		require.NoError(t, err)
		require.Equal(t, pattern, soon(t, "the handler of "+klass, called), klass)
		require.Equal(t, "complete", w.outcome(jid).action)
	}
}

func TestAnUnknownKlassGoesBackForAnotherWorker(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{UnknownKlassDelay: time.Minute})
	w.Handle("Known", nothing)
	w.start()
	before := time.Now()
	var all []string
	for range 3 {
		jid := e.Put("q", qless.Retries(2))
		require.Equal(t, "release", w.outcome(jid).action)
		all = append(all, jid)
	}
	scheduled, err := inspect.New(e.Client).Queue("q", inspect.Scheduled).JIDs(t.Context(), inspect.Range{})
	require.NoError(t, err)
	slices.Sort(all)
	slices.Sort(scheduled.Items)
	require.Equal(t, all, scheduled.Items)
	for _, jid := range all {
		require.Equal(t, 2, e.Read(jid).Remaining, "no retry is spent")
		at := e.Redis.ZScore(t.Context(), "ql:q:q-scheduled", jid).Val()
		require.InDelta(t, before.Add(time.Minute).Unix(), at, 5)
	}
	jid, err := e.Queue("q").Put(t.Context(), "Other", nil)
	require.NoError(t, err)
	w.outcome(jid)
	require.Equal(t, 1, w.log.count("klass=K "), "it is reported once a minute")
	require.Equal(t, 1, w.log.count("klass=Other "))
}

func TestAWorkerFailsNoJobOfAnUnknownKlass(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{}).start()
	jid := e.Put("q", qless.Retries(0))
	require.Equal(t, reported{"release", "0"}, w.outcome(jid))
	require.Equal(t, qless.StateScheduled, e.Read(jid).State)
	require.Empty(t, e.Read(jid).Worker)
}

func TestMaxRunTimeEndsTheContext(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{MaxRunTime: 30 * time.Millisecond, Backoff: inAnHour})
	causes := make(chan error, 2)
	wait := func(ctx context.Context, _ *qless.Job) error {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	}
	w.Handle("K", wait)
	w.Handle("Own", wait, qless.MaxRunTime(60*time.Millisecond))
	w.start()

	jid := e.Put("q", qless.Retries(0))
	require.ErrorIs(t, soon(t, "the end of the context", causes), qless.ErrMaxRunTime)
	require.Equal(t, reported{"retry", "-1"}, w.outcome(jid))
	require.Equal(t, "K:max-run-time", e.Read(jid).Failure.Group)

	began := time.Now()
	jid, err := e.Queue("q").Put(t.Context(), "Own", nil)
	require.NoError(t, err)
	require.ErrorIs(t, soon(t, "the end of the context", causes), qless.ErrMaxRunTime)
	require.GreaterOrEqual(t, time.Since(began), 60*time.Millisecond)
	require.Equal(t, reported{"retry", "4"}, w.outcome(jid))
}

func TestAHandlerMayCompleteItsJobAfterItsTime(t *testing.T) {
	e := newLiveEnv(t)
	config := qless.WorkerConfig{MaxRunTime: time.Millisecond}
	job, got := e.works(config, func(ctx context.Context, _ *qless.Job) error {
		<-ctx.Done()
		return nil
	})
	require.Equal(t, reported{"complete", "complete"}, got)
	require.Equal(t, qless.StateComplete, job.State)
}

func TestTheErrorOfAContextThatEndedAfterItsTimeSaysSo(t *testing.T) {
	for name, returned := range map[string]func(ctx context.Context) error{
		"the error": func(ctx context.Context) error { return ctx.Err() },
		"wrapped":   func(ctx context.Context) error { return fmt.Errorf("ask: %w", ctx.Err()) },
		"the cause": context.Cause,
	} {
		t.Run(name, func(t *testing.T) {
			e := newLiveEnv(t)
			seen := make(chan error, 2)
			config := qless.WorkerConfig{
				MaxRunTime: time.Millisecond,
				Backoff:    func(_ *qless.Job, _ int, err error) time.Duration { seen <- err; return 0 },
				FailGroup: func(job *qless.Job, err error) string {
					seen <- err
					return qless.DefaultFailGroup(job, err)
				},
			}
			job, _ := e.works(config, func(ctx context.Context, _ *qless.Job) error {
				<-ctx.Done()
				return returned(ctx)
			}, qless.Retries(0))
			for range 2 {
				err := soon(t, "the error", seen)
				require.ErrorIs(t, err, qless.ErrMaxRunTime)
				require.Equal(t, name != "the cause", errors.Is(err, context.DeadlineExceeded))
			}
			require.Equal(t, "K:max-run-time", job.Failure.Group)
		})
	}
}

func TestATimeoutWithinTheTimeIsTheHandlersOwn(t *testing.T) {
	e := newLiveEnv(t)
	config := qless.WorkerConfig{MaxRunTime: time.Hour}
	job, _ := e.works(config, func(context.Context, *qless.Job) error {
		return context.DeadlineExceeded
	}, qless.Retries(0))
	require.Equal(t, "K:timeout", job.Failure.Group)
}

func TestAKlassMayRunForLongerThanOthers(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{MaxRunTime: time.Millisecond})
	deadlines := make(chan time.Time, 1)
	w.Handle("K", func(ctx context.Context, _ *qless.Job) error {
		deadline, _ := ctx.Deadline()
		deadlines <- deadline
		return nil
	}, qless.MaxRunTime(time.Hour))
	w.start()
	jid := e.Put("q")
	require.WithinDuration(t, time.Now().Add(time.Hour), soon(t, "a deadline", deadlines), time.Minute)
	require.Equal(t, "complete", w.outcome(jid).action)
}

func TestAHandlerMayEndItsGoroutine(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{Concurrency: 1, Backoff: inAnHour})
	w.Handle("K", func(context.Context, *qless.Job) error {
		runtime.Goexit()
		return nil
	})
	w.start()
	for range 2 {
		jid := e.Put("q")
		require.Equal(t, reported{"retry", "4"}, w.outcome(jid))
		require.Contains(t, e.Read(jid).Failure.Message, "goroutine")
	}
	w.stop()
	require.Empty(t, w.Stats().Running)
}
