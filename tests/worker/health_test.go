package worker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func TestAWorkerIsUnhealthyWhileTheServerDoesNotAnswer(t *testing.T) {
	for name, c := range map[string]struct{ lose, find func(e *env) }{
		"it hangs":   {func(e *env) { e.Server.Suspend() }, func(e *env) { e.Server.Resume() }},
		"it is gone": {func(e *env) { e.Server.Kill() }, func(e *env) { e.Server.Restart() }},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLiveEnv(t)
			w := e.worker(qless.WorkerConfig{PollInterval: 100 * time.Millisecond}).start()
			require.NoError(t, w.Healthy())
			answered := w.Stats().LastAnswer
			c.lose(e)
			defer c.find(e)
			until(t, "it is unhealthy", func() bool { return w.Healthy() != nil })
			err := requireCode(t, qless.ErrUnavailable, w.Healthy())
			require.Contains(t, err.Message, "has not answered")
			c.find(e)
			until(t, "it is healthy", func() bool { return w.Healthy() == nil })
			require.True(t, w.Stats().LastAnswer.After(answered))
		})
	}
}

func TestAWorkerThatHasNothingToAskIsHealthy(t *testing.T) {
	const poll = 100 * time.Millisecond
	e := newLiveEnv(t)
	other := e.worker(qless.WorkerConfig{Queues: []string{"other"}, PollInterval: poll}).start()
	w := e.worker(qless.WorkerConfig{Concurrency: 1, PollInterval: poll})
	healthyFor := func(polls int) {
		t.Helper()
		other.idle(other.count(func(c tapped) bool { return c.idle }) + polls)
		require.NoError(t, w.Healthy())
	}
	handler, running, end := hold()
	w.Handle("K", handler)
	w.start()
	e.Put("q")
	soon(t, "a job", running)
	healthyFor(5) // it has no free slots

	asked, answer := w.gate("finish", false)
	end <- nil
	soon(t, "an outcome", asked)
	require.NoError(t, w.Healthy(), "the server may take its time")
	until(t, "it is unhealthy", func() bool { return w.Healthy() != nil })
	answer()
	until(t, "it is healthy", func() bool { return w.Healthy() == nil })

	w.Pause()
	w.departed()
	healthyFor(5)
}

func TestOnlyARunningWorkerIsHealthy(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	stopped := qless.ErrStopped
	require.Contains(t, requireCode(t, stopped, w.Healthy()).Message, "not started")
	w.start()
	require.NoError(t, w.Healthy())
	w.stop()
	require.Contains(t, requireCode(t, stopped, w.Healthy()).Message, "was stopped")
}

func TestStatsTellWhatRuns(t *testing.T) {
	e := newLiveEnv(t)
	w, running, end := e.busyWorker(qless.WorkerConfig{Queues: []string{"q", "mail-*"}})
	before := time.Now()
	for _, jid := range []string{"b", "a"} {
		e.Put("q", qless.JID(jid))
		soon(t, "a job", running)
	}
	stats := w.Stats()
	require.Len(t, stats.Running, 2)
	for i, jid := range []string{"b", "a"} {
		job := stats.Running[i]
		require.Equal(t, qless.RunningJob{JID: jid, Klass: "K", Queue: "q", Since: job.Since}, job)
		require.WithinRange(t, job.Since, before, time.Now())
	}
	require.Equal(t, []string{"q"}, stats.Queues)
	require.False(t, stats.Paused)
	end <- nil
	end <- qless.Snooze(time.Hour)
	until(t, "both are reported", func() bool { s := w.Stats(); return s.Completed == 1 && s.Released == 1 })
	require.Empty(t, w.Stats().Running)
}

// Requests and reports that failed while the server was away are sent soon after its return.
func TestAWorkerIsBackSoonAfterTheServer(t *testing.T) {
	t.Parallel()
	e := newLiveEnv(t, "--appendonly", "yes")
	w, running, end := e.busyWorker(qless.WorkerConfig{})
	done := e.Put("q")
	soon(t, "a job", running)
	w.instead("finish", func(func() error) error { return errOffline })
	end <- nil
	tried := func(c tapped) bool { return c.script == "finish" && c.err != nil }
	eighth, ninth := w.await(t, "a try", 8, tried), w.await(t, "a try", 9, tried)
	require.Greater(t, ninth.at.Sub(eighth.at), 500*time.Millisecond, "it does not spin")

	e.Server.Kill()
	w.instead("finish", nil)
	e.Server.Restart()
	require.Equal(t, reported{"complete", "complete"}, w.outcome(done))
	e.Put("q")
	soon(t, "a job", running)
	w.log.await(t, "the server is back", 1)
	require.Equal(t, 1, w.log.count("the server does not answer"))
}
