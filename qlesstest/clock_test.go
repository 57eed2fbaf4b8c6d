package qlesstest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

func hourly() qless.Schedule {
	return qless.Schedule{ID: "s", When: "@every 1h", Queue: "q", Job: qless.JobSpec{Klass: "Hourly"}}
}

// untilLooked waits until a worker knows when its schedule is due.
func untilLooked(t *testing.T, worker *qless.Worker) {
	t.Helper()
	until(t, "the schedule has looked", func() bool {
		return !worker.Stats().Schedules[0].Next.IsZero()
	})
}

// Without Drain: nothing but the clock wakes the worker, which would otherwise poll much later.
func TestAdvanceWakesASchedule(t *testing.T) {
	server := qlesstest.New(t)
	worker, r := newWorker(t, server.Client(), hourly())
	start(t, worker)
	untilLooked(t, worker)
	began := time.Now()
	server.Clock().Advance(time.Hour)
	until(t, "the job of the schedule", func() bool { return len(r.klasses()) == 1 })
	t.Logf("the job was worked after %v", time.Since(began))
	require.Equal(t, []string{"Hourly"}, r.klasses())
}

func TestAdvanceWhileAWorkerStartsIsNotMissed(t *testing.T) {
	for range 20 {
		server := qlesstest.New(t)
		worker, r := newWorker(t, server.Client(), hourly())
		start(t, worker)
		untilLooked(t, worker)
		server.Clock().Advance(time.Hour) // the worker may not listen yet
		until(t, "the job of the schedule", func() bool { return len(r.klasses()) == 1 })
	}
}

func TestAdvanceWakesAWorkerForADelayedJob(t *testing.T) {
	server := qlesstest.New(t)
	put(t, server.Client(), "Later", qless.Delay(time.Hour))
	worker, r := newWorker(t, server.Client())
	start(t, worker)
	until(t, "the worker is idle", func() bool { return worker.Stats().Idle })
	require.Empty(t, r.klasses())
	server.Clock().Advance(time.Hour)
	until(t, "the job", func() bool { return len(r.klasses()) == 1 })
}

func TestAdvanceWakesAWorkerForARetry(t *testing.T) {
	server := qlesstest.New(t)
	worker, r := newWorker(t, server.Client())
	r.outcome = qless.RetryIn(time.Hour, errors.New("not now"))
	start(t, worker)
	put(t, server.Client(), "Flaky")
	until(t, "the first try", func() bool { return worker.Stats().Retried == 1 })
	server.Clock().Advance(time.Hour)
	until(t, "the second try", func() bool { return worker.Stats().Retried == 2 })
	require.Len(t, r.klasses(), 2)
}

func TestAdvanceWakesWorkersOfEveryNamespace(t *testing.T) {
	server := qlesstest.New(t)
	other, err := qless.New(server.Redis(), &qless.ClientConfig{Clock: server.Clock().Now, Namespace: "other:"})
	require.NoError(t, err)
	put(t, other, "Later", qless.Delay(time.Hour))
	worker, r := newWorker(t, other)
	start(t, worker)
	until(t, "the worker is idle", func() bool { return worker.Stats().Idle })
	server.Clock().Advance(time.Hour)
	until(t, "the job", func() bool { return len(r.klasses()) == 1 })
}
