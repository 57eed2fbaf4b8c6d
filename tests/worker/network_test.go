package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/events"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/lease"
	"github.com/qless/qless-go/tests/scripts"
)

// proxied creates a worker with connections that the proxy may cut.
func (e *env) proxied(config qless.WorkerConfig) (*testWorker, *testkit.Proxy) {
	e.T.Helper()
	proxy := testkit.NewProxy(e.T, e.Server.Addr())
	return e.workerAt(proxy.Addr(), config, qless.ClientConfig{}), proxy
}

// proxiedEnv is newLiveEnv with an idle worker that completes its jobs, and the worker's proxy.
func proxiedEnv(t *testing.T) (*env, *testWorker, *testkit.Proxy) {
	t.Helper()
	e := newLiveEnv(t)
	w, proxy := e.proxied(qless.WorkerConfig{})
	w.Handle("K", nothing)
	return e, w.start(), proxy
}

// newRedis returns a connection to an address, which is closed with the test.
func newRedis(t *testing.T, addr string) *redis.Client {
	rdb := redis.NewClient(testkit.Options(addr))
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// beforeItHears calls run when the worker has reserved a job, but does not know it yet. If run
// returns an error, the worker receives that error instead of the answer.
func (w *testWorker) beforeItHears(jid string, run func() error) {
	w.instead("reserve", func(send func() error) error {
		if err := send(); err != nil || w.observer.HGet(w.t.Context(), "ql:j:"+jid, "state").Val() != "running" {
			return err
		}
		w.instead("reserve", nil)
		return run()
	})
}

func TestAnOutcomeThatDidNotArriveIsSentAgain(t *testing.T) {
	e, w, proxy := proxiedEnv(t)
	proxy.CutAfterRequest(scripts.Sent("finish"))
	require.Equal(t, reported{"complete", "complete"}, w.outcome(e.Put("q")))
	require.Equal(t, 1, w.count(unanswered("finish")))
}

// The server ran the command, but no reply came.
func TestAnOutcomeWhoseAnswerIsLostIsNoLoss(t *testing.T) {
	e, w, proxy := proxiedEnv(t)
	proxy.CutBeforeReply(scripts.Sent("finish"))
	jid := e.Put("q")
	require.Contains(t, w.outcome(jid).answer, "is not currently running: complete")
	w.stop()
	require.Equal(t, []string{"put", "popped", "done"}, whats(e.Read(jid).History))
	require.Equal(t, 1, w.Stats().Completed)
	require.Zero(t, w.Stats().Lost)
}

func TestAReservationWhoseAnswerIsTooLateIsNotRun(t *testing.T) {
	e := newLiveEnv(t)
	e.Set("heartbeat", "0.6")
	e.Set("grace-period", "0")
	w := e.worker(qless.WorkerConfig{})
	w.Handle("K", func(context.Context, *qless.Job) error { panic("it is another worker's") })
	reserved, answer := make(chan bool), make(chan bool)
	w.beforeItHears("j", func() error { close(reserved); <-answer; return nil })
	w.start()
	e.Put("q", qless.JID("j"))
	soon(t, "a reservation", reserved)
	e.Set("heartbeat", "60")
	until(t, "another worker takes the job", func() bool { return len(e.Pops("q", 1)) == 1 })
	close(answer)
	require.Contains(t, w.outcome("j").answer, "handed out to another worker")
	w.stop()
	require.Zero(t, w.Stats().Lost)
}

// If the answer to a reservation is lost, its jobs are released if no other worker can have the
// same name. Otherwise the locks must expire.
func TestAReservationWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	for name, history := range map[string][]string{
		"":      {"put", "popped", "popped", "done"},
		"named": {"put", "popped", "timed-out", "popped", "done"},
	} {
		e := newLiveEnv(t)
		e.Set("grace-period", "0")
		if name != "" {
			e.Set("heartbeat", "3")
		}
		w := e.worker(qless.WorkerConfig{Name: name}, nothing)
		w.beforeItHears("j", func() error { return errOffline })
		w.start()
		e.Put("q", qless.JID("j"))
		require.Equal(t, reported{"complete", "complete"}, w.ends("j"))
		require.Equal(t, history, whats(e.Read("j").History))
		if name == "" {
			w.log.await(t, "released a job whose reservation got no answer", 1)
		}
	}
}

// The server counts a worker as idle, but the worker does not know because it never received the
// answer. When paused, the worker is removed from the idle workers anyway.
func TestPauseAfterALostReserveLeavesTheIdleWorkers(t *testing.T) {
	e := newLiveEnv(t)
	w, proxy := e.proxied(qless.WorkerConfig{})
	proxy.CutBeforeReply(scripts.Sent("reserve"))
	w.once("reserve", func(send func() error) error {
		defer w.Pause()
		return send()
	})
	require.NoError(t, w.Start(context.Background()))
	w.await(t, "a lost answer", 1, unanswered("reserve"))
	require.True(t, w.Stats().Paused)
	until(t, "the server has run the reserve", func() bool {
		return e.Redis.ZScore(t.Context(), "ql:workers", w.Name()).Err() == nil
	})
	until(t, "it is not idle", func() bool {
		return !e.Redis.SIsMember(t.Context(), "ql:x:idle", w.Name()).Val()
	})
}

// The answers to a retry and to the reserve sent with it, which took the same job again, are lost.
// The retry is sent again, and concerns the earlier run.
func TestARetryWhoseAnswerWasLostSpendsOneRetry(t *testing.T) {
	e := newLiveEnv(t)
	w, proxy := e.proxied(qless.WorkerConfig{Concurrency: 1})
	handler, running, end := hold()
	w.Handle("K", handler)
	w.start()
	e.begun(running, qless.JID("j"), qless.Retries(1))
	proxy.CutBeforeReply(scripts.Sent("finish"))
	end <- qless.RetryIn(0, errors.New("again"))
	soon(t, "the second run", running)
	end <- nil
	until(t, "it is complete", func() bool { return e.Read("j").State == qless.StateComplete })
}

// A worker may request more data at once than its connection can carry in time.
func TestAnswersThatAreTooLongAreAskedForInParts(t *testing.T) {
	const jobs = 30
	e := newLiveEnv(t)
	w, proxy := e.proxied(qless.WorkerConfig{PollInterval: 100 * time.Millisecond})
	handler, ran := passes()
	w.Handle("K", handler)
	w.start()
	w.Pause()
	w.departed()
	for range jobs {
		must(e.Queue("q").Put(t.Context(), "K", strings.Repeat("x", 30_000)))(t)
	}
	proxy.LimitReplies(100_000)
	w.Resume()
	for range jobs {
		require.Equal(t, 1, soon(t, "a job", ran).Attempt, "no retry was used up")
	}
	w.log.await(t, "no answer to a question for jobs: fewer are asked for at once", 1)
}

func TestReceiveAsksForPartsOfAnAnswerThatIsTooLong(t *testing.T) {
	e := newLiveEnv(t)
	proxy := testkit.NewProxy(t, e.Server.Addr())
	client := e.NewLiveClient(newRedis(t, proxy.Addr()), qless.ClientConfig{})
	t.Cleanup(func() { _ = client.Close() })
	for range 30 {
		must(e.Queue("q").Put(t.Context(), "K", strings.Repeat("x", 30_000)))(t)
	}
	proxy.LimitReplies(100_000)
	got, err := lease.New(client).Take(t.Context(), lease.Request{Queues: []string{"q"}, Count: 10})
	require.NoError(t, err)
	require.Len(t, got, 2)
}

// Nothing reveals that a silent connection is gone: it has no end, and no reset.
func TestSubscriptionsSurviveConnectionsThatGoSilent(t *testing.T) {
	t.Parallel()
	e, w, proxy := proxiedEnv(t)
	client := e.NewClient(newRedis(t, proxy.Addr()), qless.ClientConfig{})
	heard, err := events.Listen(t.Context(), client)
	require.NoError(t, err)

	proxy.GoSilent()
	until(t, "the worker listens on another connection", func() bool {
		channel := "ql:x:wake:" + w.Name()
		return proxy.Seen(channel) == 2 && e.Redis.PubSubNumSub(t.Context(), channel).Val()[channel] == 1
	})
	require.Equal(t, events.Gap, soon(t, "the gap", heard).Kind)
	jid := e.Put("q")
	require.Equal(t, reported{"complete", "complete"}, w.outcome(jid), "an idle worker was woken")
	require.Equal(t, jid, soon(t, "an event", heard).JID)
}

func TestSubscribingToEventsHasADeadline(t *testing.T) {
	t.Parallel()
	proxy := testkit.NewProxy(t, testkit.Start(t).Addr())
	defer proxy.HoldReply("subscribe")()
	client := must(qless.New(newRedis(t, proxy.Addr()), nil))(t)
	failed := make(chan error, 1)
	go func() {
		_, err := events.Listen(t.Context(), client)
		failed <- err
	}()
	require.ErrorIs(t, soon(t, "the end of the call", failed), qless.ErrUnavailable)
}
