package qlesstest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/qlesstest"
)

func TestDrainWorksWhatIsReady(t *testing.T) {
	server := qlesstest.New(t)
	client := server.Client()
	put(t, client, "A")
	put(t, client, "Later", qless.Delay(time.Hour))
	worker, r := newWorker(t, client)
	qlesstest.Drain(t, worker)
	require.Equal(t, []string{"A"}, r.klasses())
	require.Equal(t, 1, worker.Stats().Completed)

	put(t, client, "B")
	qlesstest.Drain(t, worker)
	require.Equal(t, []string{"A", "B"}, r.klasses())

	server.Clock().Advance(time.Hour)
	qlesstest.Drain(t, worker)
	require.Equal(t, []string{"A", "B", "Later"}, r.klasses())
	qlesstest.Drain(t, worker)
	require.Len(t, r.klasses(), 3)
}

func TestDrainOfAStartedWorker(t *testing.T) {
	client := qlesstest.New(t).Client()
	worker, r := newWorker(t, client)
	start(t, worker)
	for i := range 50 {
		put(t, client, "K")
		qlesstest.Drain(t, worker)
		require.Len(t, r.klasses(), i+1)
	}
}

// A chain of jobs: each puts the next job, completes into another queue, or releases a dependent.
func TestDrainFollowsJobs(t *testing.T) {
	client := qlesstest.New(t).Client()
	ended := 0
	worker, err := qless.NewWorker(client, qless.WorkerConfig{
		Queues: []string{"q", "next"}, PollInterval: 50 * time.Minute, Concurrency: 1,
		Observer: func(event qless.JobEvent) {
			if event.Kind == qless.JobEventEnded {
				ended++ // by one goroutine, and Drain waits for it
			}
		},
	})
	require.NoError(t, err)
	worker.Handle("Parent", func(ctx context.Context, job *qless.Job) error {
		_, err := qless.ClientFromContext(ctx).Queue("q").Put(ctx, "Child", nil, qless.DependsOn{job.JID})
		return err
	})
	worker.Handle("Child", func(ctx context.Context, job *qless.Job) error {
		if job.Queue == "q" {
			return qless.Next("next")
		}
		return job.Complete(ctx)
	})
	for i := range 20 {
		put(t, client, "Parent")
		qlesstest.Drain(t, worker)
		require.Equal(t, 3*(i+1), ended)
	}
	require.Equal(t, 20, worker.Stats().Ended)
}

func TestDrainPutsAndWorksTheJobsOfSchedules(t *testing.T) {
	server := qlesstest.New(t)
	worker, r := newWorker(t, server.Client(), hourly(),
		qless.Schedule{ID: "daily", When: "@daily", Queue: "q", Job: qless.JobSpec{Klass: "Daily"}})
	qlesstest.Drain(t, worker)
	require.Empty(t, r.klasses())
	for range 24 {
		server.Clock().Advance(time.Hour)
		qlesstest.Drain(t, worker)
	}
	count := map[string]int{}
	for _, klass := range r.klasses() {
		count[klass]++
	}
	require.Equal(t, map[string]int{"Hourly": 24, "Daily": 1}, count)
	next := worker.Stats().Schedules[1]
	require.Equal(t, "daily", next.ID)
	require.Equal(t, time.Date(2024, time.January, 4, 0, 0, 0, 0, time.UTC), next.Next.UTC())
}

func TestDrainLeavesWhatMayNotRun(t *testing.T) {
	server := qlesstest.New(t)
	client := server.Client()
	paused, full := client.Queue("paused"), client.Queue("full")
	require.NoError(t, paused.Pause(t.Context()))
	require.NoError(t, full.SetMaxConcurrency(t.Context(), 1))
	for _, queue := range []*qless.Queue{paused, full, full, client.Queue("q")} {
		_, err := queue.Put(t.Context(), "K", nil)
		require.NoError(t, err)
	}
	popped, err := full.Pop(t.Context(), 1)
	require.NoError(t, err)
	require.Len(t, popped, 1)
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"paused", "full", "q"}})
	require.NoError(t, err)
	worker.Handle("Other", func(context.Context, *qless.Job) error { return nil })
	qlesstest.Drain(t, worker)
	stats := worker.Stats()
	require.Equal(t, 1, stats.Released, "the klass of the job in q has no handler")
	require.Zero(t, stats.Completed)
}

func TestDrainRetriesWhenTheClockIsMoved(t *testing.T) {
	server := qlesstest.New(t)
	worker, r := newWorker(t, server.Client())
	r.outcome = errors.New("down")
	jid := put(t, server.Client(), "K", qless.Retries(2))
	for range 3 {
		qlesstest.Drain(t, worker)
		server.Clock().Advance(24 * time.Hour)
	}
	require.Len(t, r.klasses(), 3)
	job, err := server.Client().Job(t.Context(), jid)
	require.NoError(t, err)
	require.Equal(t, qless.StateFailed, job.State)
}

func TestDrainOfAGroup(t *testing.T) {
	server := qlesstest.New(t)
	var clients []*qless.Client
	for i := range 3 {
		client, err := qless.New(server.Redis(), &qless.ClientConfig{
			Clock:     server.Clock().Now,
			Namespace: fmt.Sprintf("n%d:", i),
		})
		require.NoError(t, err)
		clients = append(clients, client)
	}
	group, err := qless.NewWorkerGroup(clients, qless.WorkerConfig{
		Queues: []string{"q"}, PollInterval: 50 * time.Minute,
	})
	require.NoError(t, err)
	r := &recorder{}
	group.Handle("Last", r.work)
	group.Handle("First", func(ctx context.Context, _ *qless.Job) error {
		_, err := clients[0].Queue("q").Put(ctx, "Last", nil)
		return err
	})
	for i := range 10 {
		put(t, clients[2], "First")
		qlesstest.Drain(t, group...)
		require.Len(t, r.klasses(), i+1)
	}
}

func TestDrainOnTheRealTime(t *testing.T) {
	server, err := qlesstest.Start()
	require.NoError(t, err)
	t.Cleanup(server.Close)
	worker, r := newWorker(t, server.Client())
	put(t, server.Client(), "K")
	qlesstest.Drain(t, worker)
	require.Equal(t, []string{"K"}, r.klasses())
}

func TestDrainWaitsForRunningJobs(t *testing.T) {
	client := qlesstest.New(t).Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"q"}})
	require.NoError(t, err)
	begun, goOn := make(chan struct{}), make(chan struct{})
	worker.Handle("K", func(context.Context, *qless.Job) error {
		close(begun)
		<-goOn
		return nil
	})
	start(t, worker)
	put(t, client, "K")
	<-begun
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		qlesstest.Drain(t, worker)
	}()
	select {
	case <-drained:
		t.Error("the job runs")
	case <-time.After(50 * time.Millisecond):
	}
	close(goOn)
	<-drained
	require.Equal(t, 1, worker.Stats().Completed)
}

func TestDrainThatCanNotEnd(t *testing.T) {
	client := qlesstest.New(t).Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"q"}})
	require.NoError(t, err)
	goOn := make(chan struct{})
	worker.Handle("Slow", func(context.Context, *qless.Job) error {
		<-goOn
		return nil
	})
	start(t, worker)
	defer close(goOn)
	jid := put(t, client, "Slow")
	until(t, "the job runs", func() bool { return len(worker.Stats().Running) == 1 })

	defer qlesstest.SetDrainTimeout(50 * time.Millisecond)()
	requireFailure(t, func(t testing.TB) { qlesstest.Drain(t, worker) },
		"no job ended for 50ms", worker.Name(), "it is running Slow "+jid+" of queue q")
}

func TestDrainThatCanNotBegin(t *testing.T) {
	client := qlesstest.New(t).Client()
	drain := func(worker *qless.Worker) func(t testing.TB) {
		return func(t testing.TB) { qlesstest.Drain(t, worker) }
	}
	paused, _ := newWorker(t, client)
	start(t, paused)
	paused.Pause()
	requireFailure(t, drain(paused), "is paused")

	stopped, _ := newWorker(t, client)
	require.NoError(t, stopped.Stop(t.Context()))
	requireFailure(t, drain(stopped), "a worker can be started only once")

	empty, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"q"}})
	require.NoError(t, err)
	requireFailure(t, drain(empty), "no handler is registered")
}

// Runs are in the rates, without waiting for the next report.
func TestDrainSendsRates(t *testing.T) {
	server := qlesstest.New(t)
	client := server.Client()
	worker, _ := newWorker(t, client)
	for i := range 3 {
		put(t, client, "K")
		put(t, client, "L")
		qlesstest.Drain(t, worker)
		server.Clock().Advance(time.Minute)
		now := server.Clock().Now()
		points, err := inspect.New(client).Rates(t.Context(), inspect.RateQuery{From: now.Add(-time.Duration(i+1) * time.Minute), To: now, Step: time.Minute, Klass: "K"})
		require.NoError(t, err)
		require.Len(t, points, i+2)
		for _, p := range points[:i+1] {
			require.Equal(t, 1, p.Completed)
		}
	}
}

func TestWorkersAreListedWhenTheClockIsMoved(t *testing.T) {
	server := qlesstest.New(t)
	client := server.Client()
	worker, _ := newWorker(t, client)
	qlesstest.Drain(t, worker)
	info := func() *inspect.WorkerInfo {
		workers, err := inspect.New(client).Workers(t.Context())
		require.NoError(t, err)
		require.Len(t, workers, 1)
		return workers[0].Info
	}
	until(t, "the worker is registered", func() bool { return info() != nil })
	server.Clock().Advance(time.Hour)
	until(t, "it is registered again", func() bool { return info() != nil })
	require.WithinDuration(t, server.Clock().Now().Add(-time.Hour), info().Started, time.Minute)
	require.WithinDuration(t, server.Clock().Now(), info().Seen, time.Minute)
}

func TestDrainWaitsWhileJobsEnd(t *testing.T) {
	var passed atomic.Int64 // minutes
	defer qlesstest.SetNow(func() time.Time {
		return time.Unix(0, 0).Add(time.Duration(passed.Load()) * time.Minute)
	})()
	client := qlesstest.New(t).Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"q"}, Concurrency: 1})
	require.NoError(t, err)
	worker.Handle("Long", func(context.Context, *qless.Job) error {
		for int64(worker.Stats().Completed) < passed.Load() { // the outcome of the last one is on its way
			runtime.Gosched()
		}
		passed.Add(1)
		return nil
	})
	for range 5 {
		put(t, client, "Long")
	}
	qlesstest.Drain(t, worker)
	require.Equal(t, 5, worker.Stats().Completed)
}

// A shortT is a test that is about to end.
type shortT struct{ testing.TB }

func (shortT) Deadline() (time.Time, bool) { return time.Now(), true }

func TestDrainEndsBeforeItsTest(t *testing.T) {
	client := qlesstest.New(t).Client()
	worker, _ := newWorker(t, client)
	begun, goOn := make(chan struct{}), make(chan struct{})
	defer close(goOn)
	worker.Handle("Slow", func(context.Context, *qless.Job) error {
		close(begun)
		<-goOn
		return nil
	})
	start(t, worker)
	jid := put(t, client, "Slow")
	<-begun
	requireFailure(t, func(t testing.TB) { qlesstest.Drain(shortT{t}, worker) },
		"no end before that of the test", "it is running Slow "+jid)
}

func TestDrainDoesNotWaitForMoreJobs(t *testing.T) {
	client := qlesstest.New(t).Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"q"}})
	require.NoError(t, err)
	var calls []int
	qless.NewKlass[any]("Row").HandleBulk(worker, qless.Bulk{Max: 100, Wait: time.Hour},
		func(_ context.Context, members []*qless.Member[any]) error {
			calls = append(calls, len(members))
			return nil
		})
	for range 3 {
		put(t, client, "Row")
	}
	qlesstest.Drain(t, worker)
	put(t, client, "Row")
	qlesstest.Drain(t, worker)
	require.Equal(t, []int{3, 1}, calls)
}
