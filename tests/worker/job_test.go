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
		popped, waited = job.PoppedAt(), job.Waited()
		return nil
	})
	require.WithinDuration(t, time.Now(), popped, time.Minute)
	require.Greater(t, waited, time.Duration(0))
	require.Less(t, waited, time.Minute)
}

func TestAJobThatAHandlerSendsOnMayChange(t *testing.T) {
	e := newLiveEnv(t)
	job, got := e.works(qless.WorkerConfig{}, returns(qless.Next("next",
		qless.Priority(7), qless.Retries(9), qless.Tags("b"))))
	require.Equal(t, "complete", got.action)
	require.Equal(t, "next", job.Queue)
	require.Equal(t, []int{7, 9, 9}, []int{job.Priority, job.Retries, job.Remaining})
	require.Equal(t, []string{"b"}, job.Tags)
}

func TestAJobWhoseNextOptionIsNilFails(t *testing.T) {
	e := newLiveEnv(t)
	_, got := e.works(qless.WorkerConfig{}, returns(qless.Next("next", nil)))
	require.Equal(t, "fail", got.action)
}
