package gearmonkey_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/compat/gearmonkey"
	"github.com/qless/qless-go/internal/testkit"
)

func TestOrderOfJobs(t *testing.T) {
	e := newEnv(t)
	e.run("F", "", gearmonkey.Low)                               // 1
	e.run("F", "")                                               // 2
	e.run("F", "", gearmonkey.High)                              // 3
	e.run("F", "", gearmonkey.At(now.Add(time.Second)))          // 4: not due
	e.run("F", "", gearmonkey.Low)                               // 5
	e.run("F", "", gearmonkey.High)                              // 6
	e.run("F", "", gearmonkey.Normal)                            // 7
	e.run("F", "", gearmonkey.At(now))                           // 8: due at this second
	e.run("F", "", gearmonkey.At(now.Add(-time.Second)))         // 9: due before
	e.run("F", "", gearmonkey.At(now.Add(-time.Second)))         // 10: ids with the same time are ordered as text
	e.run("F", "", gearmonkey.At(time.Unix(0, 0)))               // 11: the earliest time
	e.run("F", "", gearmonkey.At(now.Add(100*365*24*time.Hour))) // 12
	require.Equal(t, []int64{11, 10, 9, 8, 3, 6, 2, 7, 1, 5}, e.works(10, echo))
	require.Equal(t, []any{"4", "12"}, e.cli("ZRANGE queue:F:scheduled 0 -1"))

	later := config()
	later.Clock = func() time.Time { return now.Add(time.Second) }
	require.Equal(t, []int64{4}, e.worksWith(later, 1, echo))
}

func TestFieldsAtEachStage(t *testing.T) {
	e := newEnv(t)
	fields := func() any { return e.rdb.HGetAll(t.Context(), "job:F:1").Val() }
	e.run("F", "in")
	require.Equal(t, map[string]string{"status": "idle", "input": "in"}, fields())
	require.Equal(t, gearmonkey.StatusIdle, e.state("F", 1).Status)
	e.works(1, func(ctx context.Context, job *gearmonkey.Job) ([]byte, error) {
		require.Equal(t, "F", job.Function)
		require.EqualValues(t, 1, job.ID)
		require.Equal(t, "in", string(job.Input))
		require.Equal(t, map[string]string{"status": "busy", "input": "in"}, fields())
		require.NoError(t, job.Update(ctx, 1, 4))
		require.Equal(t, map[string]string{"status": "busy", "input": "in", "status:dividend": "1", "status:divisor": "4"}, fields())
		require.Equal(t, 0.25, e.state("F", 1).Progress())
		require.Nil(t, e.state("F", 1).Output)
		return []byte("out"), nil
	})
	require.Equal(t, map[string]string{
		"status": "success", "input": "in", "output": "out", "status:dividend": "1", "status:divisor": "4",
	}, fields())
}

func TestAnUpdateOfAJobThatIsGoneIsRefused(t *testing.T) {
	e := newEnv(t)
	e.run("F", "")
	var kept *gearmonkey.Job
	e.works(1, func(_ context.Context, job *gearmonkey.Job) ([]byte, error) {
		kept = job
		return nil, nil
	})
	e.cli("DEL job:F:1")
	requireCode(t, gearmonkey.ErrFinished, kept.Update(t.Context(), 9, 9))
	require.Empty(t, e.cli("KEYS job:*"), "a job that is gone is not created again")
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler gearmonkey.Handler
		status  gearmonkey.Status
		output  string
	}{
		"output":         {func(context.Context, *gearmonkey.Job) ([]byte, error) { return []byte("x"), nil }, "success", "x"},
		"nothing":        {func(context.Context, *gearmonkey.Job) ([]byte, error) { return nil, nil }, "success", ""},
		"error":          {func(context.Context, *gearmonkey.Job) ([]byte, error) { return nil, os.ErrExist }, "error", "file already exists"},
		"error and more": {func(context.Context, *gearmonkey.Job) ([]byte, error) { return []byte("x"), os.ErrExist }, "error", "file already exists"},
		"panic":          {func(context.Context, *gearmonkey.Job) ([]byte, error) { panic("oh") }, "error", "panic: oh"},
		"panic of error": {func(context.Context, *gearmonkey.Job) ([]byte, error) { panic(os.ErrExist) }, "error", "panic: file already exists"},
		"goexit":         {func(context.Context, *gearmonkey.Job) ([]byte, error) { runtime.Goexit(); return nil, nil }, "error", "a function ended its goroutine (runtime.Goexit)"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.run("F", "")
			e.works(1, c.handler)
			state := e.state("F", 1)
			require.Equal(t, c.status, state.Status)
			require.True(t, state.Status.Finished())
			require.NotNil(t, state.Output)
			require.Equal(t, c.output, string(state.Output))
			if c.status == gearmonkey.StatusError {
				require.ErrorContains(t, state.Err(), c.output)
			} else {
				require.NoError(t, state.Err())
			}
			require.Equal(t, "0", e.cli("GET count:F"))
		})
	}
}

func TestPanicIsLoggedWithItsStack(t *testing.T) {
	e := newEnv(t)
	e.run("F", "")
	var log bytes.Buffer
	cfg := config()
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	e.worksWith(cfg, 1, func(context.Context, *gearmonkey.Job) ([]byte, error) { panic("oh") })
	require.Contains(t, log.String(), "panic=oh")
	require.Contains(t, log.String(), "worker_test.go")
}

func TestLifetimes(t *testing.T) {
	e := newEnv(t)
	e.run("F", "")
	require.EqualValues(t, -1, e.cli("TTL job:F:1"), "a job that waits is kept")
	e.works(1, func(context.Context, *gearmonkey.Job) ([]byte, error) {
		require.EqualValues(t, -1, e.cli("TTL job:F:1"))
		return nil, nil
	})
	require.InDelta(t, 90000, e.cli("TTL job:F:1"), 2)
	require.InDelta(t, 10, e.cli("TTL lock:F:1"), 2)
	require.Equal(t, []any{"OK"}, e.cli("LRANGE lock:F:1 0 -1"))
}

func TestBinary(t *testing.T) {
	e := newEnv(t)
	all := make([]byte, 0, 300)
	for i := range 256 {
		all = append(all, byte(i))
	}
	all = append(all, "\r\n$-1\r\n\"'{}\\"...)
	for i, input := range [][]byte{all, {}, bytes.Repeat(all, 10_000)} {
		id := must(e.Run(t.Context(), "F", input))(t)
		require.EqualValues(t, i+1, id)
		e.works(1, func(_ context.Context, job *gearmonkey.Job) ([]byte, error) {
			require.True(t, bytes.Equal(input, job.Input))
			return job.Input, nil
		})
		state := e.state("F", id)
		require.True(t, bytes.Equal(input, state.Input))
		require.True(t, bytes.Equal(input, state.Output))
	}
}

func TestScriptIsLoadedAgain(t *testing.T) {
	e := newEnv(t)
	e.run("F", "", gearmonkey.At(now.Add(-time.Minute)))
	e.run("F", "", gearmonkey.At(now))
	got := e.monitored(func() {
		e.works(2, func(_ context.Context, job *gearmonkey.Job) ([]byte, error) {
			if job.ID == 1 {
				e.cli("SCRIPT FLUSH")
			}
			return nil, nil
		})
	})
	ask := "EVALSHA " + specSHA + " 1 queue:F:scheduled 1700000000"
	require.Contains(t, strings.Join(got, "\n"), strings.Join([]string{ask, "SCRIPT load " + specText, ask, "HMGET job:F:2"}, "\n"))
	require.Equal(t, gearmonkey.StatusSuccess, e.state("F", 2).Status)
}

func TestNoJobIsGivenTwice(t *testing.T) {
	random := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	e := newEnv(t)
	const jobs, workers = 400, 6

	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	var mu sync.Mutex
	worked := map[int64]int{}
	worker := e.worker(func(_ context.Context, job *gearmonkey.Job) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		if worked[job.ID]++; len(worked) == jobs {
			stop()
		}
		return nil, nil
	})
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			if err := worker.Work(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	options := []gearmonkey.RunOption{gearmonkey.High, gearmonkey.Normal, gearmonkey.Low, gearmonkey.At(now)}
	for range jobs {
		e.run("F", "", options[random.IntN(len(options))])
	}
	group.Wait()
	require.Len(t, worked, jobs)
	for id, times := range worked {
		require.Equal(t, 1, times, "job %d", id)
	}
	require.Equal(t, "0", e.cli("GET count:F"))
	require.Empty(t, e.cli("KEYS queue:*"))
}

func TestGoneJobsArePassedOver(t *testing.T) {
	e := newEnv(t)
	e.run("F", "")
	e.cli("DEL job:F:1")
	e.cli("LPUSH queue:F:normal rubbish 007 0 -2 1.5")
	e.cli("HMSET job:F:9 status idle") // without an input
	e.cli("LPUSH queue:F:normal 9")
	require.Equal(t, []int64{9}, e.works(1, echo))
	require.Equal(t, []any{"job:F:9"}, e.cli("KEYS job:*"), "a job that is gone is not created again")
	require.Empty(t, e.cli("KEYS queue:*"))
}

func TestStopGivesTheRunningJobTime(t *testing.T) {
	e := newEnv(t)
	e.run("F", "a")
	e.run("F", "b")
	// works stops the worker at the first job, which keeps running.
	e.works(1, func(ctx context.Context, _ *gearmonkey.Job) ([]byte, error) { return nil, ctx.Err() })
	require.Equal(t, gearmonkey.StatusSuccess, e.state("F", 1).Status)
	require.Equal(t, gearmonkey.StatusIdle, e.state("F", 2).Status)
	require.EqualValues(t, 1, e.cli("LLEN queue:F:normal"))
}

func TestStopEndsALongJob(t *testing.T) {
	e := newEnv(t)
	e.run("F", "")
	cfg := config()
	cfg.ShutdownTimeout = time.Nanosecond
	e.worksWith(cfg, 1, func(ctx context.Context, _ *gearmonkey.Job) ([]byte, error) {
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), gearmonkey.ErrStopped)
		return nil, context.Cause(ctx)
	})
	state := e.state("F", 1)
	require.Equal(t, gearmonkey.StatusError, state.Status)
	require.Equal(t, "gearmonkey: the worker is stopping", string(state.Output))
}

func TestWorkerThatCannotWork(t *testing.T) {
	e := newEnv(t)
	for name, accept := range map[string]func(*gearmonkey.Worker){
		"nothing":    func(*gearmonkey.Worker) {},
		"no name":    func(w *gearmonkey.Worker) { w.Accept("", echo) },
		"no handler": func(w *gearmonkey.Worker) { w.Accept("F", nil); w.Accept("G", echo) },
	} {
		worker := gearmonkey.NewWorker(e.Client, config())
		accept(worker)
		require.ErrorIs(t, worker.Work(t.Context()), gearmonkey.ErrInvalid, name)
	}
	cfg := config()
	cfg.ShutdownTimeout = -1
	worker := gearmonkey.NewWorker(e.Client, cfg)
	worker.Accept("F", echo)
	requireCode(t, gearmonkey.ErrInvalid, worker.Work(t.Context()))
	require.Empty(t, e.cli("KEYS *"))
}

func TestStoppedBeforeItBegan(t *testing.T) {
	e := newEnv(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	worker := e.worker(echo)
	require.Empty(t, e.monitored(func() { require.NoError(t, worker.Work(ctx)) }))
}

func TestAcceptReplaces(t *testing.T) {
	e := newEnv(t)
	e.run("F", "x")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	worker := gearmonkey.NewWorker(e.Client, gearmonkey.WorkerConfig{Logger: testkit.Quiet()})
	worker.Accept("F", func(context.Context, *gearmonkey.Job) ([]byte, error) { return nil, errors.New("the old one") })
	worker.Accept("F", func(_ context.Context, job *gearmonkey.Job) ([]byte, error) {
		stop()
		return fmt.Appendf(nil, "new %s", job.Input), nil
	})
	require.NoError(t, worker.Work(ctx))
	require.Equal(t, "new x", string(e.state("F", 1).Output))
	require.Equal(t, "0", e.cli("GET count:F"))
}
