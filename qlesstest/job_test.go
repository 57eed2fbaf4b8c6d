package qlesstest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

func TestJobRuns(t *testing.T) {
	job := qlesstest.Job(t, "K", map[string]int{"n": 1}, qless.Tags{"a"}, qless.JID("j"))
	ctx := t.Context()
	require.Equal(t, qless.StateRunning, job.State)
	require.Equal(t, "j", job.JID)
	require.Equal(t, qless.Tags{"a"}, job.Tags)
	require.JSONEq(t, `{"n": 1}`, string(job.Data))
	expires, err := job.Heartbeat(ctx)
	require.NoError(t, err)
	require.False(t, expires.IsZero())
	require.NoError(t, job.Log(ctx, "half done", nil))
	require.NoError(t, job.Tag(ctx, "b"))
	require.NoError(t, job.Complete(ctx))
	require.NoError(t, job.Refresh(ctx))
	require.Equal(t, qless.StateComplete, job.State)
	require.Equal(t, qless.Tags{"a", "b"}, job.Tags)
}

func TestJobOfHasTheDefaultsOfItsKlass(t *testing.T) {
	klass := qless.NewKlass[int]("K", qless.Retries(2), qless.Tags{"a"})
	job := qlesstest.JobOf(t, klass, 7, qless.Tags{"b"})
	require.Equal(t, qless.StateRunning, job.State)
	require.Equal(t, 2, job.Retries)
	require.Equal(t, qless.Tags{"b"}, job.Tags)
	data, err := klass.Data(job)
	require.NoError(t, err)
	require.Equal(t, 7, data)
}

func TestJobThatCanNotRun(t *testing.T) {
	later := func(t testing.TB) { qlesstest.Job(t, "K", nil, qless.Delay(time.Hour)) }
	requireFailure(t, later, "does not run")
	requireFailure(t, func(t testing.TB) { qlesstest.Job(t, "", nil) }, "the klass is empty")
}
