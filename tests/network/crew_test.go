//go:build linux

package network

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// A crew is a worker at each end of a cable, with a record of their runs.
type crew struct {
	t      testing.TB
	lab    *lab
	steady *qless.Client // beside the server

	mu      sync.Mutex
	runs    map[string][]*run // by jid
	workers []*qless.Worker
}

// A run is live from its start until it returns or its context ends.
type run struct {
	worker         string
	started, ended time.Time
}

const (
	beside = "beside the server"
	beyond = "beyond the cable"
)

// startCrew starts the workers. Their locks last for 2 s, and their jobs go to others 1 s later.
func startCrew(t testing.TB, l *lab) *crew {
	t.Helper()
	k := &crew{t: t, lab: l, steady: l.client(l.here), runs: map[string][]*run{}}
	require.NoError(t, k.steady.Config().Set(t.Context(), "heartbeat", 2*time.Second))
	require.NoError(t, k.steady.Config().Set(t.Context(), "grace-period", time.Second))
	for name, client := range map[string]*qless.Client{beside: k.steady, beyond: l.client(l.beyond)} {
		w, err := qless.NewWorker(client, qless.WorkerConfig{
			Name: name, Queues: []string{"q"}, Concurrency: 4, PollInterval: time.Second,
		})
		require.NoError(t, err)
		w.Handle("Short", k.handle(name, 20*time.Millisecond))
		w.Handle("Long", k.handle(name, 3*time.Second))
		require.NoError(t, w.Start(context.Background()))
		k.workers = append(k.workers, w)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		for _, w := range k.workers {
			_ = w.Stop(ctx)
		}
	})
	return k
}

// handle returns a handler that works for a time.
func (k *crew) handle(worker string, works time.Duration) qless.Handler {
	return func(ctx context.Context, job *qless.Job) error {
		r := &run{worker: worker, started: time.Now()}
		k.mu.Lock()
		k.runs[job.JID] = append(k.runs[job.JID], r)
		k.mu.Unlock()
		timer := time.NewTimer(works)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		k.mu.Lock()
		r.ended = time.Now()
		k.mu.Unlock()
		return ctx.Err()
	}
}

// put puts jobs with the steady client, and returns their jids.
func (k *crew) put(klass string, count int) []string {
	k.t.Helper()
	jobs := make([]qless.JobSpec, count)
	for i := range jobs {
		jobs[i] = qless.JobSpec{Klass: klass, Options: []qless.PutOption{qless.Retries(1000)}}
	}
	jids, err := k.steady.Queue("q").PutMany(k.t.Context(), jobs)
	require.NoError(k.t, err)
	return jids
}

// runningAt returns the number of a worker's runs that have not ended.
func (k *crew) runningAt(worker string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	running := 0
	for _, runs := range k.runs {
		for _, r := range runs {
			if r.worker == worker && r.ended.IsZero() {
				running++
			}
		}
	}
	return running
}

// complete waits until jobs are complete, and requires that no two runs of a job were live at the
// same time.
func (k *crew) complete(jids []string) {
	k.t.Helper()
	testkit.Until(k.t, "all jobs are complete", func() bool {
		jobs, err := k.steady.Jobs(k.t.Context(), jids...)
		if err != nil || len(jobs) < len(jids) {
			return false
		}
		for _, job := range jobs {
			if job.State != qless.StateComplete {
				return false
			}
		}
		return true
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	again, least := 0, time.Hour
	for jid, runs := range k.runs {
		for i, r := range runs[1:] {
			before := runs[i]
			require.False(k.t, before.ended.IsZero() || r.started.Before(before.ended),
				"%s has two live runs: %s and %s", jid, describe(before), describe(r))
			again++
			least = min(least, r.started.Sub(before.ended))
		}
	}
	k.t.Logf("%d jobs, all complete; %d further runs", len(jids), again)
	if again > 0 {
		k.t.Logf("a run had ended at least %v before the next one began", least.Round(time.Millisecond))
	}
}

func describe(r *run) string {
	return fmt.Sprintf("%s from %s to %s", r.worker, r.started.Format("05.000"), r.ended.Format("05.000"))
}
