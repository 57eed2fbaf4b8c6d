package worker

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// putDependents puts a job into one queue, and jobs that wait for it into another queue, which has
// no worker of ours.
func (e *env) putDependents(dependents int, options ...qless.PutOption) (base string) {
	e.T.Helper()
	base = e.Put("q")
	options = append(options, qless.DependsOn{base})
	specs := make([]qless.JobSpec, dependents)
	for i := range specs {
		specs[i] = qless.JobSpec{Klass: "K", Options: options}
	}
	_, err := e.Queue("theirs").PutMany(e.T.Context(), specs)
	require.NoError(e.T, err)
	return base
}

// awaitReleased waits until all dependents can be popped.
func (e *env) awaitReleased(dependents int) {
	e.T.Helper()
	testkit.Until(e.T, "all dependents are released", func() bool {
		return e.Counts("theirs").Waiting == dependents
	})
	require.Empty(e.T, e.Redis.Keys(e.T.Context(), "ql:x:rest*").Val())
}

func TestAWorkerReleasesAllDependentsOfAJob(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	w.Handle("K", nothing)
	w.start()
	base := e.putDependents(1300)
	require.Equal(t, "complete", w.outcome(base).action)
	e.awaitReleased(1300)
}

func TestAWorkerNotifiesAllDependentsOfAFailure(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	w.Handle("K", func(context.Context, *qless.Job) error { return qless.FailWith("g", errors.New("no")) })
	base := e.putDependents(900, qless.OnFailureRun)
	w.start()
	require.Equal(t, "fail", w.outcome(base).action)
	e.awaitReleased(900)
}

// A program completed a job, and ended before it had released all of its dependents.
func TestAWorkerReleasesWhatOthersHaveLeft(t *testing.T) {
	e := newLiveEnv(t)
	base := e.putDependents(1300)
	jobs, err := e.As("ended").Queue("q").Pop(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, []string{base}, jids(jobs))
	answer, err := e.Run(t.Context(), "finish", "", "ended", "complete", base, "q", "", "0")
	require.NoError(t, err)
	require.Equal(t, []any{"complete+"}, answer)
	require.Equal(t, 250, e.Counts("theirs").Waiting)
	w := e.worker(qless.WorkerConfig{})
	w.Handle("K", nothing)
	w.start()
	e.awaitReleased(1300)
}
