package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

func TestNilLeavesUnchangedDataAsItIs(t *testing.T) {
	e := newLiveEnv(t)
	w := e.working(qless.WorkerConfig{}, func(ctx context.Context, job *qless.Job) error {
		_, err := e.Redis.HSet(ctx, "ql:j:"+job.JID, "data", `"by another"`).Result()
		return err
	})
	jid := e.Put("q")
	w.outcome(jid)
	require.Equal(t, `"by another"`, string(e.Read(jid).Data))
}

func TestMiddlewareRunsInTheOrderOfUse(t *testing.T) {
	e, w := workerEnv(t, qless.WorkerConfig{})
	steps := make(chan string, 10)
	around := func(name string) qless.Middleware {
		return func(next qless.Handler) qless.Handler {
			return func(ctx context.Context, job *qless.Job) error {
				steps <- name + " in"
				defer func() { steps <- name + " out" }()
				return next(ctx, job)
			}
		}
	}
	w.Use(around("first"), around("second"))
	w.Handle("K", func(context.Context, *qless.Job) error { steps <- "work"; return nil })
	w.Use(around("third"))
	w.start()
	w.outcome(e.Put("q"))
	for _, step := range []string{
		"first in", "second in", "third in", "work", "third out", "second out", "first out",
	} {
		require.Equal(t, step, <-steps)
	}
}

func TestMiddlewareMayChangeTheOutcome(t *testing.T) {
	e, w := workerEnv(t, qless.WorkerConfig{})
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

func TestTheMostSpecificHandlerIsCalled(t *testing.T) {
	e, w := workerEnv(t, qless.WorkerConfig{})
	called := make(chan string, 10)
	for _, pattern := range []string{"*", "Mail::*", "Mail::Slow::*", "Mail::Welcome", "Mail"} {
		w.Handle(pattern, func(context.Context, *qless.Job) error { called <- pattern; return nil })
	}
	w.start()
	for klass, pattern := range map[string]string{
		"Mail": "Mail", "Mail::Welcome": "Mail::Welcome", "Mail::WelcomeBack": "Mail::*", "Mail::": "Mail::*",
		"Mail::Slow::X": "Mail::Slow::*", "Mail::Slow": "Mail::*", "Mailing": "*", "Other": "*", "*": "*",
	} {
		jid := e.putKlass("q", klass)
		require.Equal(t, pattern, soon(t, "the handler of "+klass, called), klass)
		require.Equal(t, "complete", w.outcome(jid).action)
	}
}

func TestAnUnknownKlassGoesBackForAnotherWorker(t *testing.T) {
	e, w := workerEnv(t, qless.WorkerConfig{UnknownKlassDelay: time.Minute})
	w.Handle("Known", nothing)
	w.start()
	before := time.Now()
	var all []string
	for range 3 {
		jid := e.Put("q", qless.Retries(0))
		require.Equal(t, reported{"release", "0"}, w.outcome(jid))
		all = append(all, jid)
	}
	scheduled, err := inspect.New(e.Client).Queue("q", inspect.Scheduled).JIDs(t.Context(), inspect.Range{})
	require.NoError(t, err)
	slices.Sort(all)
	slices.Sort(scheduled.Items)
	require.Equal(t, all, scheduled.Items)
	for _, jid := range all {
		require.Equal(t, 0, e.Read(jid).Remaining, "no retry is spent")
		require.Empty(t, e.Read(jid).Worker)
		at := e.Redis.ZScore(t.Context(), "ql:q:q-scheduled", jid).Val()
		require.InDelta(t, before.Add(time.Minute).Unix(), at, 5)
	}
	w.outcome(e.putKlass("q", "Other"))
	w.log.await(t, "no handler for the klass", 2)
	require.Equal(t, 1, w.log.count("klass=K "), "it is reported once a minute")
	require.Equal(t, 1, w.log.count("klass=Other "))
}

func TestMaxRunTimeEndsTheContext(t *testing.T) {
	for name, c := range map[string]struct{ worker, klass, job time.Duration }{
		"the worker's": {30 * time.Millisecond, 0, 0},
		"the klass's":  {time.Hour, 30 * time.Millisecond, 0},
		"the job's":    {time.Hour, 0, 30 * time.Millisecond},
	} {
		for retries, answer := range map[qless.Retries]string{0: "-1", 5: "4"} {
			t.Run(fmt.Sprint(name, "/", retries), func(t *testing.T) {
				e := newLiveEnv(t)
				causes := make(chan error, 1)
				config := qless.WorkerConfig{MaxRunTime: c.worker, Backoff: inAnHour}
				w := e.working(config, loses(func(ctx context.Context, _ *qless.Job) error {
					context.AfterFunc(ctx, func() { causes <- context.Cause(ctx) })
					return nil
				}), qless.MaxRunTime(c.klass))
				began := time.Now()
				options := []qless.PutOption{retries}
				if c.job > 0 {
					options = append(options, qless.MaxRunTime(c.job))
				}
				jid := e.Put("q", options...)
				require.ErrorIs(t, soon(t, "the end of the context", causes), qless.ErrMaxRunTime)
				require.GreaterOrEqual(t, time.Since(began), 30*time.Millisecond)
				require.Equal(t, reported{"retry", answer}, w.outcome(jid))
				require.Equal(t, "K:max-run-time", e.Read(jid).Failure.Group)
				require.Equal(t, c.job, e.Read(jid).Options.MaxRunTime)
			})
		}
	}
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

func TestAHandlerMayEndItsGoroutine(t *testing.T) {
	e := newLiveEnv(t)
	w := e.working(qless.WorkerConfig{Concurrency: 1, Backoff: inAnHour}, func(context.Context, *qless.Job) error {
		runtime.Goexit()
		return nil
	})
	for range 2 {
		jid := e.Put("q")
		require.Equal(t, reported{"retry", "4"}, w.outcome(jid))
		require.Contains(t, e.Read(jid).Failure.Message, "goroutine")
	}
	w.stop()
	require.Empty(t, w.Stats().Running)
}

func TestAHandlerKnowsHowLongItsJobWaited(t *testing.T) {
	e := newLiveEnv(t)
	var popped time.Time
	var waited time.Duration
	e.works(qless.WorkerConfig{}, func(_ context.Context, job *qless.Job) error {
		popped, waited = job.PoppedAt, job.Waited
		return nil
	})
	require.WithinDuration(t, time.Now(), popped, time.Minute)
	require.Greater(t, waited, time.Duration(0))
	require.Less(t, waited, time.Minute)
}

func TestHandlersAndMiddlewareSeeHeaders(t *testing.T) {
	e := newLiveEnv(t)
	want := map[string]string{"traceparent": "00-1"}
	seen := make(chan map[string]string, 2)
	w := e.worker(qless.WorkerConfig{})
	w.Use(before(func(job *qless.Job) error { seen <- job.Headers; return nil }))
	w.Handle("K", func(_ context.Context, job *qless.Job) error { seen <- job.Headers; return nil })
	w.start()
	w.ends(e.Put("q", qless.Headers(want)))
	require.Equal(t, want, soon(t, "the middleware", seen))
	require.Equal(t, want, soon(t, "the handler", seen))
	w.ends(e.Put("q"))
	require.Nil(t, soon(t, "the middleware", seen))
}

// hexed is a codec that stores data as hexadecimal digits, and may fail to decode it.
type hexed struct{ broken atomic.Bool }

func (h *hexed) Name() string { return "hexed" }

func (h *hexed) Encode(_ string, data []byte) ([]byte, string, error) {
	encoded := make([]byte, len(data))
	for i, b := range data {
		encoded[i] = b ^ 0x20
	}
	return encoded, "", nil
}

func (h *hexed) Decode(_ string, encoded []byte) ([]byte, error) {
	if h.broken.Load() {
		return nil, errors.New("the keys are away")
	}
	data, _, err := h.Encode("", encoded)
	return data, err
}

func TestHandlersGetDecodedDataAndChangedDataIsEncoded(t *testing.T) {
	e := newLiveEnv(t)
	config := qless.ClientConfig{Codec: &hexed{}}
	c := e.NewLiveClient(e.Redis, config)
	w := e.workerAt(e.Server.Addr(), qless.WorkerConfig{}, config)
	w.Handle("Same", qless.Typed(func(_ context.Context, _ *qless.Job, n int) error {
		require.Equal(t, 1, n)
		return nil
	}))
	w.Handle("Changed", func(_ context.Context, job *qless.Job) error { return job.SetData(2) })
	jobs := []struct{ klass, want, jid, before string }{{klass: "Same", want: "1"}, {klass: "Changed", want: "2"}}
	for i := range jobs {
		jid := must(c.Queue("q").Put(t.Context(), jobs[i].klass, 1))(t)
		jobs[i].jid, jobs[i].before = jid, string(e.Read(jid).Data)
	}
	w.start()
	for _, put := range jobs {
		w.ends(put.jid)
		job := must(c.Job(t.Context(), put.jid))(t)
		require.Equal(t, qless.StateComplete, job.State)
		require.Equal(t, put.want, string(job.Data))
		after := string(e.Read(put.jid).Data)
		require.Contains(t, after, "x:codec")
		require.Equal(t, put.klass == "Same", put.before == after, "only changed data is saved")
	}
}

func TestAJobWhoseCodecIsUnknownFailsWithoutItsHandler(t *testing.T) {
	e, w := workingEnv(t, qless.WorkerConfig{}, func(context.Context, *qless.Job) error {
		t.Error("the handler was called")
		return nil
	})
	jid, err := e.NewLiveClient(e.Redis, qless.ClientConfig{Codec: &hexed{}}).
		Queue("q").Put(t.Context(), "K", 1)
	require.NoError(t, err)
	require.Equal(t, "fail", w.outcome(jid).action)
	job := e.Read(jid)
	require.Equal(t, "K:data", job.Failure.Group)
	require.Contains(t, job.Failure.Message, `encoded by "hexed", which the client does not know`)
	require.Contains(t, string(job.Data), "x:codec", "it can be unfailed")
}

func TestAJobThatCannotBeDecodedNowIsRetried(t *testing.T) {
	e := newLiveEnv(t)
	codec := &hexed{}
	codec.broken.Store(true)
	w := e.workerAt(e.Server.Addr(), qless.WorkerConfig{
		Backoff: func(*qless.Job, int, error) (delay time.Duration) {
			codec.broken.Store(false)
			return 0
		},
	}, qless.ClientConfig{Codec: codec})
	done := make(chan string, 1)
	w.Handle("K", func(_ context.Context, job *qless.Job) error {
		done <- string(job.Data)
		return nil
	})
	w.start()
	_, err := e.NewLiveClient(e.Redis, qless.ClientConfig{Codec: codec}).
		Queue("q").Put(t.Context(), "K", json.RawMessage("[1]"))
	require.NoError(t, err)
	require.Equal(t, "[1]", soon(t, "the handler", done))
}

func TestWhatAHandlerReturnsIsTheResult(t *testing.T) {
	problem := errors.New("a problem")
	for name, c := range map[string]struct {
		data   any
		result any
		err    error
		want   string // the result
		group  string // the failure's
	}{
		"complete":          {[]int{3, 4}, 7, nil, "7", ""},
		"failed":            {[]int{3, 4}, 7, qless.FailWith("g", problem), "", "g"},
		"wrong data":        {"text", 7, nil, "", "K:data"},
		"not JSON":          {[]int{3, 4}, func() {}, nil, "", "K:result"},
		"nothing":           {[]int{3, 4}, nil, nil, "null", ""},
		"without a retry":   {[]int{3, 4}, 7, problem, "", "K:a problem"},
		"nil is an outcome": {[]int{3, 4}, 7, &qless.Outcome{Action: qless.ActionComplete}, "7", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e, w := workerEnv(t, qless.WorkerConfig{})
			w.Handle("K", qless.TypedResult(
				func(context.Context, *qless.Job, []int) (any, error) { return c.result, c.err }))
			jid := must(e.Queue("q").Put(t.Context(), "K", c.data, qless.Retries(0)))(t)
			w.start().outcome(jid)
			result := must(e.Result(t.Context(), jid))(t)
			require.Equal(t, c.want, string(result.Data))
			if c.group != "" {
				require.Equal(t, c.group, result.Failure.Group)
			}
		})
	}
	require.Panics(t, func() { qless.TypedResult[int, int](nil) })
}

func TestAResultSetInAnEarlierQueueIsThatOfTheJob(t *testing.T) {
	e, w := workerEnv(t, qless.WorkerConfig{Queues: []string{"q", "b"}})
	w.Handle("K", func(_ context.Context, job *qless.Job) error {
		if job.Queue == "b" {
			return nil
		}
		if err := job.SetResult("early"); err != nil {
			return err
		}
		return qless.Next("b")
	})
	jid := e.Put("q")
	w.start()
	w.await(t, "the end", 1, func(c tapped) bool { return c.outcomes()[jid].answer == "complete" })
	result := must(e.Result(t.Context(), jid))(t)
	require.Equal(t, qless.StateComplete, result.State)
	require.Equal(t, `"early"`, string(result.Data))
}

func TestFirstProgressAtOnceAndLastBeforeTheOutcome(t *testing.T) {
	for name, err := range map[string]error{"complete": nil, "failed": qless.FailWith("g", errors.New("m"))} {
		t.Run(name, func(t *testing.T) {
			e, w := workerEnv(t, qless.WorkerConfig{})
			w.Handle("K", func(ctx context.Context, job *qless.Job) error {
				for done := range 100 {
					require.NoError(t, job.SetProgress(ctx, done, 1000, fmt.Sprint("step ", done)))
					if done == 0 {
						w.await(t, "the first progress", 1, of("progress"))
					}
				}
				return err
			})
			w.start()
			jid := e.Put("q")
			require.Equal(t, map[string]string{"complete": "complete", "failed": "fail"}[name], w.outcome(jid).action)
			got := e.Read(jid).Progress
			require.NotNil(t, got)
			require.Equal(t, "step 99", got.Note)
			require.Equal(t, 1, got.Attempt)
			first := w.await(t, "the first progress", 1, of("progress"))
			require.Equal(t, []string{"0", "1000", "step 0"}, first.args[3:])
		})
	}
}

func TestProgressIsSentOnceASecondAndAtOnceWhenDone(t *testing.T) {
	e := newLiveEnv(t)
	end := make(chan bool)
	w := e.working(qless.WorkerConfig{}, func(ctx context.Context, job *qless.Job) error {
		for begun, done := time.Now(), 0; done < 2 || time.Since(begun) < 1500*time.Millisecond; done++ {
			require.NoError(t, job.SetProgress(ctx, done, 1<<40, ""))
		}
		err := job.SetProgress(ctx, 1<<40, 1<<40, "")
		<-end
		return err
	})
	jid := e.Put("q")
	until(t, "all is done", func() bool {
		p := e.Read(jid).Progress
		return p != nil && p.Done == p.Total
	})
	w.await(t, "the first, one a second later, and the last", 3, of("progress"))
	require.Less(t, w.count(of("progress")), 20)
	close(end)
	require.Equal(t, "complete", w.outcome(jid).action)
}

func TestProgressOfALostRunIsDropped(t *testing.T) {
	e := newLiveEnv(t)
	var refused error
	w := e.working(qless.WorkerConfig{}, func(ctx context.Context, job *qless.Job) error {
		require.NoError(t, job.SetProgress(ctx, 1, 3, ""))
		<-ctx.Done()
		refused = job.SetProgress(ctx, 2, 3, "")
		return nil
	})
	jid := e.Put("q")
	until(t, "the progress", func() bool { return e.Read(jid).Progress != nil })
	require.NoError(t, e.Cancel(t.Context(), jid))
	w.stop()
	requireCode(t, qless.ErrLockLost, refused)
}

func TestProgressOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	end := make(chan bool)
	e, w := workerEnv(t, qless.WorkerConfig{}, func(ctx context.Context, job *qless.Job) error {
		err := job.SetProgress(ctx, 1, 3, "")
		<-end
		return err
	})
	refusals := 0
	w.instead("progress", func(send func() error) error {
		if refusals++; refusals < 3 {
			return errors.New("connection lost")
		}
		return send()
	})
	w.start()
	jid := e.Put("q")
	until(t, "the progress", func() bool { return e.Read(jid).Progress != nil })
	close(end)
	require.Equal(t, "complete", w.outcome(jid).action)
	require.GreaterOrEqual(t, refusals, 3)
}

func TestAServerThatRefusesProgressDoesNotDisturbTheJob(t *testing.T) {
	e, w := workerEnv(t, qless.WorkerConfig{})
	w.refuseScript("progress", serverError("NOPERM no"))
	w.Handle("K", func(ctx context.Context, job *qless.Job) error { return job.SetProgress(ctx, 3, 3, "") })
	w.start()
	for range 2 {
		require.Equal(t, "complete", w.outcome(e.Put("q")).action)
	}
	require.Equal(t, 1, w.log.count("refuses the progress"))
}
