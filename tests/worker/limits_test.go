package worker

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// started returns the time at which a running job was taken, by the server's clock.
func (e *env) started(jid string) time.Duration {
	e.T.Helper()
	text, err := e.Redis.HGet(e.T.Context(), "ql:j:"+jid, "time").Result()
	require.NoError(e.T, err)
	seconds, err := strconv.ParseFloat(text, 64)
	require.NoError(e.T, err)
	return time.Duration(seconds * 1e9)
}

func TestWorkersRunNoMoreJobsOfALimitThanItAllows(t *testing.T) {
	e := newLiveEnv(t)
	require.NoError(t, e.Limit("api").Set(t.Context(), qless.LimitConfig{Concurrency: 2}))
	var running, most, ended atomic.Int32
	for range 3 {
		w := e.worker(qless.WorkerConfig{Concurrency: 3})
		w.Handle("K", func(context.Context, *qless.Job) error {
			n := running.Add(1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			time.Sleep(2 * time.Millisecond)
			running.Add(-1)
			ended.Add(1)
			return nil
		})
		require.NoError(t, w.Start(t.Context()))
	}
	const jobs = 60
	for range jobs {
		e.Put("q", qless.Limits{"api"})
	}
	until(t, "all jobs have run without a poll", func() bool { return ended.Load() == jobs })
	require.LessOrEqual(t, most.Load(), int32(2))
}

func TestWorkersStartNoMoreJobsThanTheRateAllows(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]func(e *env) []qless.PutOption{
		"limit": func(e *env) []qless.PutOption {
			require.NoError(e.T, e.Limit("api").Set(e.T.Context(), qless.LimitConfig{Rate: 3, Per: 400 * time.Millisecond}))
			return []qless.PutOption{qless.Limits{"api"}}
		},
		"max-rate": func(e *env) []qless.PutOption {
			require.NoError(e.T, e.Queue("q").SetMaxRate(e.T.Context(), 3, 400*time.Millisecond))
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLiveEnv(t)
			options := limit(e)
			var mu sync.Mutex
			var starts []time.Duration
			for range 2 {
				w := e.worker(qless.WorkerConfig{Concurrency: 4})
				w.Handle("K", func(_ context.Context, job *qless.Job) error {
					at := e.started(job.JID)
					mu.Lock()
					defer mu.Unlock()
					starts = append(starts, at)
					return nil
				})
				require.NoError(t, w.Start(t.Context()))
			}
			const jobs = 12
			for range jobs {
				e.Put("q", options...)
			}
			until(t, "all jobs have run without a poll", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(starts) == jobs
			})
			slices.Sort(starts)
			for i := 3; i < jobs; i++ {
				require.GreaterOrEqual(t, starts[i]-starts[i-3], 400*time.Millisecond-time.Microsecond)
			}
		})
	}
}

func TestAThrottledJobIsTheNextOfItsLimit(t *testing.T) {
	e := newLiveEnv(t)
	const hold = 300 * time.Millisecond
	runs := make(chan string, 10)
	times := make(chan time.Duration, 10)
	throttled := false
	w := e.worker(qless.WorkerConfig{Concurrency: 1})
	w.Handle("K", func(_ context.Context, job *qless.Job) error {
		times <- e.started(job.JID)
		runs <- job.JID
		if !throttled {
			throttled = true
			job.Data = []byte(`{"seen":true}`)
			return qless.Throttled(hold, "api")
		}
		return nil
	})
	e.Put("q", qless.JID("first"), qless.Limits{"api", "other"})
	e.Put("q", qless.JID("second"), qless.Limits{"api"})
	require.NoError(t, w.Start(t.Context()))
	until(t, "all runs have begun", func() bool { return len(runs) == 3 })
	require.Equal(t, []string{"first", "first", "second"}, []string{<-runs, <-runs, <-runs})
	first, again := <-times, <-times
	require.GreaterOrEqual(t, again-first, hold)
	until(t, "both are complete", func() bool { return e.Read("second").State == qless.StateComplete })
	require.Equal(t, 5, e.Read("first").Remaining)
	require.JSONEq(t, `{"seen":true}`, string(e.Read("first").Data))
	require.Equal(t, 1, w.Stats().Released)
}
