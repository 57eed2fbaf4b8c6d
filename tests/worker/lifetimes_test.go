package worker

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// The smallest limit applies: the job's, the klass's or the worker's.
func TestAJobMayRunForLessTimeThanOthers(t *testing.T) {
	for name, c := range map[string]struct {
		worker, klass, job, want time.Duration
	}{
		"only its own":                {0, 0, time.Hour, time.Hour},
		"less than the worker's":      {3 * time.Hour, 0, time.Hour, time.Hour},
		"more than the worker's":      {time.Hour, 0, 3 * time.Hour, time.Hour},
		"less than the klass's":       {time.Minute, 3 * time.Hour, time.Hour, time.Hour},
		"more than the klass's":       {time.Minute, time.Hour, 3 * time.Hour, time.Hour},
		"a klass without a limit":     {time.Minute, -1, time.Hour, time.Hour},
		"a klass and a job without":   {time.Minute, -1, qless.Forever, 0},
		"a worker and a job without":  {-1, 0, qless.Forever, 0},
		"a worker's, a job's without": {time.Hour, 0, qless.Forever, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLiveEnv(t)
			left := make(chan time.Duration, 1)
			config := qless.WorkerConfig{MaxRunTime: c.worker}
			w := e.working(config, func(ctx context.Context, _ *qless.Job) error {
				deadline, limited := ctx.Deadline()
				if !limited {
					left <- 0
					return nil
				}
				left <- time.Until(deadline)
				return nil
			}, qless.MaxRunTime(c.klass))
			jid := e.Put("q", qless.MaxRunTime(c.job))
			require.InDelta(t, c.want.Seconds(), soon(t, "a handler", left).Seconds(), 60)
			require.Equal(t, "complete", w.outcome(jid).action)
		})
	}
}

func TestAHandlerEndsWithTheTTLOfItsJob(t *testing.T) {
	t.Parallel()
	handler, running, _, causes := holdCauses()
	e, w := workingEnv(t, qless.WorkerConfig{}, handler)
	began := time.Now()
	jid := e.Put("q", qless.TTL(2*time.Second))
	require.WithinDuration(t, began, soon(t, "the handler", running).Until, time.Minute)
	until(t, "its life ends", func() bool { return must(e.Sweep(t.Context()))(t) == 1 })
	require.ErrorIs(t, soon(t, "the end of the context", causes), qless.ErrCanceled)
	require.ErrorIs(t, errOf(e.Job(t.Context(), jid)), qless.ErrNotFound)
	until(t, "it counts", func() bool { return w.Stats().Canceled == 1 })
}

// A worker that has found only expired jobs asks again at once.
func TestAWorkerIsNotHeldUpByJobsWhoseLivesHaveEnded(t *testing.T) {
	e := newLiveEnv(t)
	for range 3 {
		e.putBacklog("q", 1000, qless.StartBy(time.Millisecond), qless.Priority(1))
	}
	jid := e.Put("q")
	require.Equal(t, "complete", e.working(qless.WorkerConfig{}, nothing).outcome(jid).action)
}

// Of two locks with different expiry times, the longer is not renewed whenever the shorter is.
func TestLocksWithATimeOfTheirOwnAreRenewedInTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		heartbeat string
		own       time.Duration
		renewed   string
	}{
		"a short one": {"60", 6 * time.Second, "own"},
		"a long one":  {"6", time.Hour, "plain"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLiveEnv(t)
			e.Set("heartbeat", c.heartbeat)
			e.Put("q", qless.JID("own"), qless.LockTime(c.own))
			e.Put("q", qless.JID("plain"))
			w, running, end := e.busyWorker(qless.WorkerConfig{})
			for range 2 {
				soon(t, "a job", running)
			}
			require.InDelta(t, c.own.Seconds(), time.Until(e.Read("own").Expires).Seconds(), 600)
			expires := e.Read(c.renewed).Expires
			require.Equal(t, []string{c.renewed}, w.await(t, "a renewal", 2, of("renew")).args[1:])
			require.Greater(t, e.Read(c.renewed).Expires.Sub(expires), time.Second)
			end <- nil
			end <- nil
			for _, jid := range []string{"own", "plain"} {
				require.Equal(t, reported{"complete", "complete"}, w.outcome(jid))
				require.Equal(t, []string{"put", "popped", "done"}, whats(e.Read(jid).History))
			}
		})
	}
}
