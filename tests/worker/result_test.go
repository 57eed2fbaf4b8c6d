package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// resultOf returns a handler that sets a result and returns an error.
func resultOf(result any, err error) qless.Handler {
	return func(_ context.Context, job *qless.Job) error {
		if problem := job.SetResult(result); problem != nil {
			return problem
		}
		return err
	}
}

func TestAWorkerStoresTheResultWithTheOutcome(t *testing.T) {
	problem := errors.New("a problem")
	for name, c := range map[string]struct {
		err     error
		retries int
		state   qless.State
	}{
		"complete":       {nil, 0, qless.StateComplete},
		"fail":           {qless.FailWith("g", problem), 5, qless.StateFailed},
		"out of retries": {qless.RetryIn(0, problem), 0, qless.StateFailed},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLiveEnv(t)
			job, _ := e.works(qless.WorkerConfig{}, resultOf("done", c.err), qless.Retries(c.retries))
			result, err := e.Result(t.Context(), job.JID)
			require.NoError(t, err)
			require.Equal(t, c.state, result.State)
			require.Equal(t, `"done"`, string(result.Data))
		})
	}
}

func TestAWorkerDropsTheResultOfAJobThatHasNotEnded(t *testing.T) {
	for name, outcome := range map[string]error{
		"retried": qless.RetryIn(time.Hour, nil), "released": qless.Snooze(time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			e := newLiveEnv(t)
			job, _ := e.works(qless.WorkerConfig{}, resultOf("done", outcome))
			require.Equal(t, qless.StateScheduled, job.State)
			require.False(t, e.Redis.HExists(t.Context(), "ql:j:"+job.JID, "x:result").Val())
			requireCode(t, qless.ErrUnfinished, errOf(e.Result(t.Context(), job.JID)))
		})
	}
}

func TestWhatAHandlerReturnsIsTheResult(t *testing.T) {
	problem := errors.New("a problem")
	for name, c := range map[string]struct {
		data   any
		result any
		err    error
		want   string // the result
		group  string // the failure's
	}{
		"complete":          {[]int{3, 4}, 7, nil, "7", ""},
		"failed":            {[]int{3, 4}, 7, qless.FailWith("g", problem), "", "g"},
		"wrong data":        {"text", 7, nil, "", "K:data"},
		"not JSON":          {[]int{3, 4}, func() {}, nil, "", "K:result"},
		"nothing":           {[]int{3, 4}, nil, nil, "null", ""},
		"without a retry":   {[]int{3, 4}, 7, problem, "", "K:a problem"},
		"nil is an outcome": {[]int{3, 4}, 7, &qless.Outcome{Action: qless.ActionComplete}, "7", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLiveEnv(t)
			w := e.worker(qless.WorkerConfig{})
			w.Handle("K", qless.TypedResult(
				func(context.Context, *qless.Job, []int) (any, error) { return c.result, c.err }))
			jid, err := e.Queue("q").Put(t.Context(), "K", c.data, qless.Retries(0))
			require.NoError(t, err)
			w.start().outcome(jid)
			result, err := e.Result(t.Context(), jid)
			require.NoError(t, err)
			require.Equal(t, c.want, string(result.Data))
			if c.group != "" {
				require.Equal(t, c.group, result.Failure.Group)
			}
		})
	}
	require.Panics(t, func() { qless.TypedResult[int, int](nil) })
}

func TestAResultSetInAnEarlierQueueIsThatOfTheJob(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{Queues: []string{"q", "b"}})
	w.Handle("K", func(_ context.Context, job *qless.Job) error {
		if job.Queue == "b" {
			return nil
		}
		if err := job.SetResult("early"); err != nil {
			return err
		}
		return qless.Next("b")
	})
	jid := e.Put("q")
	w.start()
	var result qless.Result
	require.Eventually(t, func() bool {
		var err error
		result, err = e.Result(t.Context(), jid)
		return err == nil
	}, testkit.Patience, time.Millisecond)
	require.Equal(t, qless.StateComplete, result.State)
	require.Equal(t, `"early"`, string(result.Data))
}
