package qlesstest_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// A recorder has handlers that record their jobs.
type recorder struct {
	mu      sync.Mutex
	worked  []string
	outcome error
}

func (r *recorder) work(_ context.Context, job *qless.Job) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.worked = append(r.worked, job.Klass)
	return r.outcome
}

func (r *recorder) klasses() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.worked...)
}

// newWorker returns a worker of the queue q with a recorder for every klass. Only a wake-up makes
// the worker ask for jobs.
func newWorker(
	t *testing.T, client *qless.Client, schedules ...qless.Schedule,
) (*qless.Worker, *recorder) {
	t.Helper()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{
		Queues: []string{"q"}, Schedules: schedules, PollInterval: 50 * time.Minute,
	})
	require.NoError(t, err)
	r := &recorder{}
	worker.Handle("*", r.work)
	return worker, r
}

// start starts a worker, which ends with the test.
func start(t *testing.T, worker *qless.Worker) {
	t.Helper()
	require.NoError(t, worker.Start(t.Context()))
	t.Cleanup(func() { _ = worker.Stop(context.Background()) })
}

// put puts a job into the queue q.
func put(t *testing.T, client *qless.Client, klass string, options ...qless.PutOption) string {
	t.Helper()
	jid, err := client.Queue("q").Put(t.Context(), klass, nil, options...)
	require.NoError(t, err)
	return jid
}

// until waits for a condition.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 30*time.Second, time.Millisecond, what)
}

// A fakeT is a testing.TB that keeps the message of a failure.
type fakeT struct {
	testing.TB
	message string
}

func (f *fakeT) Helper() {}

func (f *fakeT) Fatal(args ...any) {
	f.message = fmt.Sprint(args...)
	runtime.Goexit()
}

func (f *fakeT) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// requireFailure requires that a function fails its test with a message that has these parts.
func requireFailure(t *testing.T, run func(t testing.TB), parts ...string) {
	t.Helper()
	f := &fakeT{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(f)
	}()
	<-done
	require.NotEmpty(t, f.message, "it did not fail")
	for _, part := range parts {
		require.True(t, strings.Contains(f.message, part), "%q has no %q", f.message, part)
	}
}
