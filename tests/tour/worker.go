package tour

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/lease"
)

// Worker makes a worker send every kind of request: reservations with patterns, every outcome,
// renewals, a schedule, wake-ups, and another worker's expired lock. Other puts the jobs; it may be
// the same client.
func Worker(t testing.TB, c, other *qless.Client) {
	t.Helper()
	ctx := t.Context()
	receive(t, c, other)
	const lock = 500 * time.Millisecond // on a busy machine it may end early: then the job runs again
	require.NoError(t, other.Config().Set(ctx, "work-a-heartbeat", lock))
	require.NoError(t, other.Config().Set(ctx, "work-a-max-concurrency", 50))
	require.NoError(t, other.Config().Set(ctx, "grace-period", 0))
	queue := other.Queue("work-a")
	_, err := queue.Put(ctx, "Lost", nil)
	require.NoError(t, err)
	lost, err := queue.Pop(ctx, 1)
	require.NoError(t, err)
	require.Len(t, lost, 1)

	w, err := qless.NewWorker(c, qless.WorkerConfig{
		Queues: []string{"work-*"}, Order: qless.OrderRoundRobin, PollInterval: time.Hour,
		Backoff: func(*qless.Job, int, error) time.Duration { return 0 },
		Schedules: []qless.Schedule{{
			ID: "tick", When: "@every 1s", Queue: "work-b", Job: qless.JobSpec{Klass: "Tick"},
		}},
	})
	require.NoError(t, err)
	done := make(chan string, 1000)
	w.Handle("*", func(ctx context.Context, job *qless.Job) error {
		err := outcome(ctx, job, w, lock)
		done <- job.Klass
		return err
	})
	require.NoError(t, w.Start(context.Background()))
	defer func() { require.NoError(t, w.Stop(context.Background())) }()
	klasses := []string{
		"Complete", "Next", "Retry", "Fail", "Snooze", "Slow", "Itself", "Data",
	}
	for _, klass := range klasses {
		_, err := queue.Put(ctx, klass, nil, qless.Tags{"a"}, qless.Retries(0))
		require.NoError(t, err)
	}
	wanted := map[string]bool{"Lost": true, "Tick": true}
	for _, klass := range klasses {
		wanted[klass] = true
	}
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	for len(wanted) > 0 {
		select {
		case klass := <-done:
			delete(wanted, klass)
		case <-limit.C:
			require.FailNow(t, "not worked", "%v, %v", wanted, w.Healthy())
		}
	}
	jid, err := inspect.New(other).RunSchedule(ctx, "tick")
	require.NoError(t, err)
	require.ErrorIs(t, inspect.New(other).ForgetSchedule(ctx, "tick"), inspect.ErrFollowed)
	require.NoError(t, w.Stop(ctx))
	require.NotZero(t, w.Stats().Completed)
	info, err := inspect.New(other).Schedule(ctx, "tick")
	require.NoError(t, err)
	require.Empty(t, info.Followers)
	require.NoError(t, inspect.New(other).ForgetSchedule(ctx, "tick"))
	require.Contains(t, jid, "tick@run-")
	crowd(t, c, other)
}

// crowd runs a worker with more queues than fit into one request.
func crowd(t testing.TB, c, other *qless.Client) {
	t.Helper()
	ctx := t.Context()
	for i := range 1001 {
		_, err := other.Queue(fmt.Sprint("crowd-", i)).Put(ctx, "K", nil)
		require.NoError(t, err)
	}
	config := qless.WorkerConfig{Queues: []string{"crowd-*"}, PollInterval: time.Hour}
	w, err := qless.NewWorker(c, config)
	require.NoError(t, err)
	done := make(chan struct{}, 1001)
	w.Handle("K", func(context.Context, *qless.Job) error {
		done <- struct{}{}
		return nil
	})
	require.NoError(t, w.Start(context.Background()))
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		require.FailNow(t, "not worked", "%v", w.Healthy())
	}
	require.NoError(t, w.Stop(ctx))
}

// outcome ends a job in the way given by its klass.
func outcome(ctx context.Context, job *qless.Job, w *qless.Worker, lock time.Duration) error {
	switch job.Klass {
	case "Next":
		if job.Queue == "work-a" {
			return qless.Next("work-b")
		}
	case "Retry":
		return errors.New("no retries are left")
	case "Fail":
		return qless.FailWith("group", errors.New("why"))
	case "Snooze":
		if time.Now().Nanosecond()%2 == 0 {
			return qless.Snooze(time.Millisecond)
		}
	case "Slow":
		timer := time.NewTimer(2 * lock) // the lock is renewed meanwhile
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	case "Itself":
		if _, err := job.Heartbeat(ctx); err != nil {
			return fmt.Errorf("heartbeat: %w", err)
		}
		return job.Complete(ctx)
	case "Data":
		return job.SetData(w.Name())
	}
	return nil
}

// receive receives a waiting job, and a job arriving during the wait, and cancels another call.
func receive(t testing.TB, c, other *qless.Client) {
	t.Helper()
	ctx := t.Context()
	t.Cleanup(func() { _ = c.Close() })
	config := lease.Request{Queues: []string{"received-a", "received-b"}, LockTime: time.Minute}
	for range 2 {
		go func() { _, _ = other.Queue("received-b").Put(ctx, "K", nil) }()
		jobs, err := lease.New(c).Take(ctx, config)
		require.NoError(t, err)
		require.NoError(t, jobs[0].Complete(ctx))
	}
	brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err := lease.New(c).Take(brief, config)
	require.ErrorIs(t, err, qless.ErrUnavailable)
}
