package worker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// counted returns the server's counts for the last hour: completed, failed and retried jobs, and
// measured waits and runs.
func (e *env) counted(query inspect.RateQuery) string {
	e.T.Helper()
	now := e.Now()
	if now.IsZero() {
		now = time.Now()
	}
	query.From, query.To, query.Step = now.Add(-time.Hour), now.Add(time.Hour), 3*time.Hour
	points, err := inspect.New(e.Client).Rates(e.T.Context(), query)
	require.NoError(e.T, err)
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

// A worker sends its counts every 15 s. The test does not wait for that.
func TestAnIdleWorkerSendsNoRates(t *testing.T) {
	e := newLiveEnv(t)
	w := e.working(qless.WorkerConfig{}, nothing)
	w.Resume()
	until(t, "it is registered, and has nothing to do", func() bool {
		return w.count(of("worker.register")) > 0 && w.Stats().Idle
	})
	w.stop()
	require.Zero(t, w.count(of("rates.add")))
	require.Equal(t, 1, w.count(of("worker.register")))
}

func TestManyJobsAreOneScriptOfRates(t *testing.T) {
	e := newLiveEnv(t)
	w := e.working(qless.WorkerConfig{}, nothing)
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
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	w.Handle("K", nothing)
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
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	w.Handle("K", nothing)
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
