package qlessprom_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/qlessprom"
)

// textOf returns the metrics exported by a registry.
func textOf(t testing.TB, gatherer prometheus.Gatherer) string {
	t.Helper()
	families, err := gatherer.Gather()
	require.NoError(t, err)
	var text strings.Builder
	encoder := expfmt.NewEncoder(&text, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, family := range families {
		require.NoError(t, encoder.Encode(family))
	}
	return text.String()
}

// observedClient returns the metrics of a client that has made calls.
func observedClient(e *env) *qlessprom.ClientMetrics {
	m := qlessprom.NewClientMetrics(qlessprom.ProcessOptions{})
	client := e.client(qless.ClientConfig{Observer: m.Observe})
	ctx := e.t.Context()
	_, err := client.Queue("observed").Put(ctx, "K", nil)
	require.NoError(e.t, err)
	_, err = client.Job(ctx, "gone")
	require.ErrorIs(e.t, err, qless.ErrNotFound)
	return m
}

// observedWorker returns the metrics of a worker that has run jobs of each outcome.
func observedWorker(e *env) *qlessprom.WorkerMetrics {
	m := qlessprom.NewWorkerMetrics(qlessprom.ProcessOptions{})
	ctx, queue := e.t.Context(), e.Queue("run")
	worker, err := m.NewWorker(e.client(qless.ClientConfig{}), qless.WorkerConfig{
		Queues: []string{"run"}, Concurrency: 4, Logger: testkit.Quiet(),
	})
	require.NoError(e.t, err)
	worker.Handle("done", func(context.Context, *qless.Job) error { return nil })
	worker.Handle("failed", func(context.Context, *qless.Job) error { return qless.FailWith("g", errors.New("no")) })
	worker.Handle("moved", func(ctx context.Context, job *qless.Job) error { return job.Move(ctx, "elsewhere") })
	block, blocked := make(chan struct{}), make(chan struct{})
	worker.Handle("blocked", func(context.Context, *qless.Job) error {
		close(blocked)
		<-block
		return nil
	})
	for _, klass := range []string{"done", "done", "failed", "moved", "blocked"} {
		_, err := queue.Put(ctx, klass, nil)
		require.NoError(e.t, err)
	}
	require.NoError(e.t, worker.Start(ctx))
	e.t.Cleanup(func() {
		close(block)
		require.NoError(e.t, worker.Stop(context.Background()))
		require.Contains(e.t, gather(e.t, m), "qless_worker_slots 0\n")
	})
	testkit.Soon(e.t, "a job to block", blocked)
	testkit.Until(e.t, "the other jobs to end", func() bool {
		return strings.Contains(gather(e.t, m), `outcome="ended"`) &&
			strings.Contains(gather(e.t, m), `klass="done",outcome="completed",queue="run"} 2`) &&
			strings.Contains(gather(e.t, m), `outcome="failed"`)
	})
	return m
}

func TestCallsAndPutsOfAClientAreCounted(t *testing.T) {
	text := gather(t, observedClient(newEnv(t)))
	require.Contains(t, text, `qless_client_puts_total{klass="K",queue="observed"} 1`)
	require.Contains(t, text, `qless_client_call_seconds_count{code="ok",command="put"} 1`)
	require.Contains(t, text, `qless_client_call_seconds_count{code="ok",command="get"} 1`)
}

func TestPutsThatGoTogetherAndDifferAreMixed(t *testing.T) {
	m := qlessprom.NewClientMetrics(qlessprom.ProcessOptions{})
	ctx := t.Context()
	m.Observe(ctx, qless.Command{Name: "put.many", Queue: "q", Count: 3})
	m.Observe(ctx, qless.Command{Name: "put", Queue: "q", Klass: "K", Count: 1, Err: qless.ErrExists})
	text := gather(t, m)
	require.Contains(t, text, `qless_client_puts_total{klass="mixed",queue="q"} 3`)
	require.Contains(t, text, `qless_client_call_seconds_count{code="exists",command="put"} 1`)
	require.NotContains(t, text, `klass="K"`)
}

func TestJobsOfAWorkerAreCounted(t *testing.T) {
	e := newEnv(t)
	text := gather(t, observedWorker(e))
	for _, line := range []string{
		`qless_worker_jobs_total{klass="done",outcome="completed",queue="run"} 2`,
		`qless_worker_jobs_total{klass="failed",outcome="failed",queue="run"} 1`,
		`qless_worker_jobs_total{klass="moved",outcome="ended",queue="run"} 1`,
		`qless_worker_job_duration_seconds_count{klass="done",outcome="completed",queue="run"} 2`,
		`qless_worker_job_wait_seconds_count{klass="blocked",queue="run"} 1`,
		`qless_worker_slots 4`, `qless_worker_busy 1`, `qless_worker_lost_total 0`,
	} {
		require.Contains(t, text, line+"\n")
	}
	require.Regexp(t, `qless_worker_oldest_running_seconds [0-9.e-]+\n`, text)
	require.Regexp(t, `qless_worker_last_turn_timestamp_seconds 1\.[0-9]+e\+09\n`, text)
}

func TestOutcomesThatTheServerDidNotTake(t *testing.T) {
	m := qlessprom.NewWorkerMetrics(qlessprom.ProcessOptions{})
	for _, err := range []error{qless.ErrLockLost, qless.ErrStopped, qless.ErrCanceled} {
		m.Observe(qless.JobEvent{Kind: qless.JobEventEnded, Queue: "q", Klass: "K", Err: err})
	}
	m.Observe(qless.JobEvent{Kind: qless.JobEventLockLost, Queue: "q", Klass: "K"})
	m.Observe(qless.JobEvent{Kind: qless.JobEventEnded, Queue: "q", Klass: "K", Outcome: qless.Outcome{Action: qless.ActionRetry}})
	m.Observe(qless.JobEvent{Kind: qless.JobEventEnded, Queue: "q", Klass: "K", Outcome: qless.Outcome{Action: qless.ActionRelease}})
	text := gather(t, m)
	for outcome, count := range map[string]int{"lost": 2, "canceled": 1, "retried": 1, "released": 1} {
		require.Contains(t, text, fmt.Sprintf(`qless_worker_jobs_total{klass="K",outcome="%s",queue="q"} %d`, outcome, count))
	}
	require.Contains(t, text, "qless_worker_lost_total 2\n")
}

func TestEachActionHasALabelOfItsOwn(t *testing.T) {
	actions := regexp.MustCompile(`Action = "(\w+)"`).FindAllStringSubmatch(readFile(t, "outcome.go"), -1)
	require.NotEmpty(t, actions)
	m := qlessprom.NewWorkerMetrics(qlessprom.ProcessOptions{})
	for _, action := range actions {
		outcome := qless.Outcome{Action: qless.Action(action[1])}
		m.Observe(qless.JobEvent{Kind: qless.JobEventEnded, Queue: "q", Klass: "K", Outcome: outcome})
	}
	text := gather(t, m)
	require.Equal(t, len(actions), strings.Count(text, "qless_worker_jobs_total{"))
	require.NotContains(t, text, `outcome="ended"`)
}

func TestPairsOfQueuesAndKlassesAreBounded(t *testing.T) {
	m := qlessprom.NewWorkerMetrics(qlessprom.ProcessOptions{MaxPairs: 2})
	c := qlessprom.NewClientMetrics(qlessprom.ProcessOptions{MaxPairs: 2})
	for i := range 10 {
		klass := fmt.Sprint("K", i)
		m.Observe(qless.JobEvent{Kind: qless.JobEventStarted, Queue: "q", Klass: klass, Waited: time.Second})
		c.Observe(t.Context(), qless.Command{Name: "put", Queue: "q", Klass: klass, Count: 1})
	}
	text := gather(t, m, c)
	require.Contains(t, text, `qless_worker_job_wait_seconds_count{klass="K1",queue="q"} 1`)
	require.Contains(t, text, `qless_worker_job_wait_seconds_count{klass="other",queue="other"} 8`)
	require.Contains(t, text, `qless_client_puts_total{klass="other",queue="other"} 8`)
	require.NotContains(t, text, `klass="K2"`)
}

func TestTheObserverOfTheConfigIsCalledToo(t *testing.T) {
	e := newEnv(t)
	m := qlessprom.NewWorkerMetrics(qlessprom.ProcessOptions{})
	ended := make(chan qless.JobEvent, 1)
	worker, err := m.NewWorker(e.client(qless.ClientConfig{}), qless.WorkerConfig{
		Queues: []string{"q"}, Logger: testkit.Quiet(),
		Observer: func(event qless.JobEvent) {
			if event.Kind == qless.JobEventEnded {
				ended <- event
			}
		},
	})
	require.NoError(t, err)
	worker.Handle("K", func(context.Context, *qless.Job) error { return nil })
	e.put("q")
	require.NoError(t, worker.Start(t.Context()))
	require.NoError(t, testkit.Soon(t, "the job", ended).Err)
	require.NoError(t, worker.Stop(context.Background()))
	_, err = m.NewWorker(e.client(qless.ClientConfig{}), qless.WorkerConfig{})
	require.ErrorIs(t, err, qless.ErrInvalid)
}
