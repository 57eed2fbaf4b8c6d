package worker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// departed waits until the server knows that the worker is no longer idle.
func (w *testWorker) departed() {
	w.t.Helper()
	w.await(w.t, "a goodbye", 1, func(c tapped) bool { return c.script == "reserve" && c.args[1] == "0" })
}

func TestAPausedWorkerTakesNoJobsAndEndsThoseItHas(t *testing.T) {
	e := newLiveEnv(t)
	w, first, end, _ := e.holding(qless.WorkerConfig{})
	w.Pause()
	w.departed()
	second := e.Put("q")
	end <- nil
	require.Equal(t, reported{"complete", "complete"}, w.outcome(first))
	require.Equal(t, qless.StateWaiting, e.Read(second).State)
	end <- nil
	w.Resume()
	require.Equal(t, reported{"complete", "complete"}, w.outcome(second))
}

func TestAWorkerMayBePausedBeforeItIsStarted(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	w.Handle("K", nothing)
	w.Pause()
	jid := e.Put("q")
	require.NoError(t, w.Start(t.Context()))
	require.True(t, w.Stats().Paused)
	e.idleWorker("other") // meanwhile
	require.Zero(t, w.count(of("reserve")))
	w.Resume()
	require.Equal(t, reported{"complete", "complete"}, w.outcome(jid))
}

func TestJobsReservedWhilePausingAreReleased(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	handler, running, _ := hold()
	w.Handle("K", handler)
	w.beforeItHears("j", func() error { w.Pause(); return nil })
	w.start()
	e.Put("q", qless.JID("j"))
	require.Equal(t, reported{"release", "5"}, w.outcome("j"))
	require.Equal(t, qless.StateWaiting, e.Read("j").State)
	require.Empty(t, running)
	w.Resume()
	soon(t, "the job", running)
}

func TestAWorkerWhoseQueuesAreForgottenMayBePaused(t *testing.T) {
	e := newLiveEnv(t)
	jid := e.Put("some")
	w := e.worker(qless.WorkerConfig{Queues: []string{"*"}, PollInterval: 10 * time.Millisecond})
	w.Handle("K", nothing)
	w.start()
	until(t, "the queue is empty", func() bool { return e.Read(jid).State == qless.StateComplete })
	require.NoError(t, e.ForgetQueue(t.Context(), "some"))
	until(t, "the worker has no queue", func() bool { return len(w.Stats().Queues) == 0 })
	w.Pause()
	w.departed()
	require.Empty(t, e.Redis.SMembers(t.Context(), "ql:x:idle").Val())
}
