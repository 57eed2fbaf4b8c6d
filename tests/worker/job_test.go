package worker

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

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

func TestAJobThatAHandlerSendsOnMayChange(t *testing.T) {
	e := newLiveEnv(t)
	job, got := e.works(qless.WorkerConfig{}, returns(qless.Next("next",
		qless.Priority(7), qless.Retries(9), qless.Tags{"b"})))
	require.Equal(t, "complete", got.action)
	require.Equal(t, "next", job.Queue)
	require.Equal(t, []int{7, 9, 9}, []int{job.Priority, job.Retries, job.Remaining})
	require.Equal(t, qless.Tags{"b"}, job.Tags)
}

func TestAJobWhoseNextOptionIsNilFails(t *testing.T) {
	e := newLiveEnv(t)
	_, got := e.works(qless.WorkerConfig{}, returns(qless.Next("next", nil)))
	require.Equal(t, "fail", got.action)
}

func TestHandlersAndMiddlewareSeeHeaders(t *testing.T) {
	e := newLiveEnv(t)
	want := map[string]string{"traceparent": "00-1"}
	seen := make(chan map[string]string, 2)
	w := e.worker(qless.WorkerConfig{})
	w.Use(func(next qless.Handler) qless.Handler {
		return func(ctx context.Context, job *qless.Job) error {
			seen <- job.Headers
			return next(ctx, job)
		}
	})
	w.Handle("K", func(_ context.Context, job *qless.Job) error {
		seen <- job.Headers
		return nil
	})
	w.start()
	w.ends(e.Put("q", qless.Headers(want)))
	require.Equal(t, want, soon(t, "the middleware", seen))
	require.Equal(t, want, soon(t, "the handler", seen))
	w.ends(e.Put("q"))
	require.Nil(t, soon(t, "the middleware", seen))
}

func TestNextKeepsOrChangesHeaders(t *testing.T) {
	before := map[string]string{"a": "1"}
	for name, c := range map[string]struct {
		next error
		want map[string]string
	}{
		"kept":       {qless.Next("next"), before},
		"replaced":   {qless.Next("next", qless.Headers{"b": "2"}), map[string]string{"b": "2"}},
		"taken away": {qless.Next("next", qless.Headers(nil)), nil},
		"an outcome": {&qless.Outcome{
			Action: qless.ActionComplete, Queue: "next", Headers: map[string]string{"c": "3"},
		}, map[string]string{"c": "3"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLiveEnv(t)
			job, got := e.works(qless.WorkerConfig{}, returns(c.next), qless.Headers(before))
			require.Equal(t, "complete", got.action)
			require.Equal(t, "next", job.Queue)
			require.Equal(t, qless.Headers(c.want), job.Headers)
		})
	}
}
