package qless_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/redistest"
)

// proxiedWorker starts a worker that completes what it takes, over connections that the proxy cuts.
func (e *env) proxiedWorker(config qless.WorkerConfig) (*testWorker, *redistest.Proxy) {
	e.t.Helper()
	proxy := redistest.NewProxy(e.t, e.server.Addr())
	w := e.workerAt(proxy.Addr(), config)
	w.HandleFunc("K", nothing)
	return w.start(), proxy
}

func TestAnOutcomeThatDidNotArriveIsToldAgain(t *testing.T) {
	e := newLiveEnv(t)
	w, proxy := e.proxiedWorker(qless.WorkerConfig{})
	proxy.CutAfterRequest(qless.ScriptSHA("finish"))
	require.Equal(t, told{"complete", "complete"}, w.outcome(e.put("q")))
	require.Equal(t, 1, w.count(func(c tapped) bool { return c.script == "finish" && c.err != nil }))
}

// The server did what it was told, but no answer came.
func TestAnOutcomeWhoseAnswerIsLostIsNoLoss(t *testing.T) {
	e := newLiveEnv(t)
	w, proxy := e.proxiedWorker(qless.WorkerConfig{})
	proxy.CutBeforeReply(qless.ScriptSHA("finish"))
	jid := e.put("q")
	require.Contains(t, w.outcome(jid).answer, "is not currently running: complete")
	w.stop()
	require.Equal(t, []string{"put", "popped", "done"}, whats(e.job(jid).History))
	require.Equal(t, 1, w.Stats().Completed)
	require.Zero(t, w.Stats().Lost)
}

// What was locked by a reservation whose answer is lost is given back, if nobody else can have the
// worker's name; else the lock has to end.
func TestAReservationWhoseAnswerIsLost(t *testing.T) {
	for name, history := range map[string][]string{
		"":      {"put", "popped", "popped", "done"},
		"named": {"put", "popped", "timed-out", "popped", "done"},
	} {
		e := newLiveEnv(t)
		e.set(qless.ConfigGracePeriod, "0")
		if name != "" {
			e.set(qless.ConfigHeartbeat, "0.6")
		}
		w := e.worker(qless.WorkerConfig{Name: name})
		w.HandleFunc("K", nothing)
		w.instead("reserve", func(send func() error) error {
			err := send()
			if e.rdb.HGet(t.Context(), "ql:j:j", "state").Val() == "running" {
				w.instead("reserve", nil)
				err = errOffline
			}
			return err
		})
		w.start()
		e.put("q", qless.JID("j"))
		require.Equal(t, told{"complete", "complete"}, w.ends("j"))
		require.Equal(t, history, whats(e.job("j").History))
	}
}
