package worker

import (
	"cmp"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

func TestAWorkerIsUnhealthyWhileTheServerDoesNotAnswer(t *testing.T) {
	for name, c := range map[string]struct{ lose, find func(e *env) }{
		"it hangs":   {func(e *env) { e.Server.Suspend() }, func(e *env) { e.Server.Resume() }},
		"it is gone": {func(e *env) { e.Server.Kill() }, func(e *env) { e.Server.Restart() }},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLiveEnv(t)
			w := e.worker(qless.WorkerConfig{PollInterval: 50 * time.Millisecond}).start()
			require.NoError(t, w.Healthy())
			answered := w.Stats().LastAnswer
			c.lose(e)
			defer c.find(e)
			w.unhealthy()
			err := requireCode(t, qless.ErrUnavailable, w.Healthy())
			require.Contains(t, err.Message, "has not answered")
			w.log.await(t, "the server does not answer", 1)
			require.Zero(t, w.log.count("the server refuses"))
			c.find(e)
			w.healthy()
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
	e.begun(running)
	healthyFor(5) // it has no free slots

	asked, answer := w.gate("finish", false)
	end <- nil
	soon(t, "an outcome", asked)
	require.NoError(t, w.Healthy(), "the server may take its time")
	w.unhealthy()
	answer()
	w.healthy()

	w.Pause()
	w.departed()
	healthyFor(5)
}

func TestOnlyARunningWorkerIsHealthy(t *testing.T) {
	_, w := workerEnv(t, qless.WorkerConfig{})
	stopped := qless.ErrStopped
	require.Contains(t, requireCode(t, stopped, w.Healthy()).Message, "not started")
	w.start()
	require.NoError(t, w.Healthy())
	w.stop()
	require.Contains(t, requireCode(t, stopped, w.Healthy()).Message, "was stopped")
}

func TestStatsTellWhatRuns(t *testing.T) {
	e, w, running, end := busyEnv(t, qless.WorkerConfig{Queues: []string{"q", "mail-*"}})
	before := time.Now()
	for _, jid := range []string{"b", "a"} {
		e.begun(running, qless.JID(jid))
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
	done := e.begun(running)
	w.instead("finish", func(func() error) error { return errOffline })
	end <- nil
	eighth := w.await(t, "a try", 8, unanswered("finish"))
	ninth := w.await(t, "a try", 9, unanswered("finish"))
	require.Greater(t, ninth.at.Sub(eighth.at), 500*time.Millisecond, "it does not spin")

	e.Server.Kill()
	w.instead("finish", nil)
	e.Server.Restart()
	require.Equal(t, reported{"complete", "complete"}, w.outcome(done))
	e.begun(running)
	w.log.await(t, "the server is back", 1)
	require.Equal(t, 1, w.log.count("the server does not answer"))
}

// setPassword makes the server require a password, and closes all connections but its own.
func (e *env) setPassword(password string) {
	e.T.Helper()
	conn := e.Redis.Conn()
	defer conn.Close()
	for _, command := range [][]any{
		{"config", "set", "requirepass", password},
		{"client", "kill", "type", "normal", "skipme", "yes"},
		{"client", "kill", "type", "pubsub"},
	} {
		require.NoError(e.T, conn.Do(e.T.Context(), command...).Err())
	}
}

// do runs a command that must succeed.
func (e *env) do(command string) {
	e.T.Helper()
	var args []any
	for _, word := range strings.Fields(command) {
		args = append(args, word)
	}
	require.NoError(e.T, e.Redis.Do(e.T.Context(), args...).Err())
}

// dropPassword lets all clients in again.
func (e *env) dropPassword(password string) {
	e.T.Helper()
	options := testkit.Options(e.Server.Addr())
	options.Password = password
	rdb := redis.NewClient(options)
	defer rdb.Close()
	require.NoError(e.T, rdb.ConfigSet(e.T.Context(), "requirepass", "").Err())
}

// A refusing server does answer, and the reason is more useful than the fact that the server is
// reachable.
func TestAWorkerReportsWhatTheServerRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		refuse, allow func(e *env, w *testWorker)
		code          error
		word, hint    string
	}{
		"the user lacks a permission": {
			func(e *env, _ *testWorker) { e.do("acl setuser default -evalsha") },
			func(e *env, _ *testWorker) { e.do("acl setuser default +evalsha") },
			qless.ErrServer, "NOPERM", "grant the user the permissions in docs/security.md",
		},
		"the user lacks what a script needs": {
			func(e *env, _ *testWorker) { e.do("acl setuser default -exists") },
			func(e *env, _ *testWorker) { e.do("acl setuser default +exists") },
			qless.ErrServer, "", "grant the user the permissions in docs/security.md",
		},
		"the password was changed": {
			func(e *env, _ *testWorker) { e.setPassword("secret") },
			func(e *env, _ *testWorker) { e.dropPassword("secret") },
			qless.ErrServer, "", "give the client the server's password",
		},
		"it is a replica": {
			func(e *env, _ *testWorker) {
				host, port, _ := net.SplitHostPort(testkit.Start(e.T).Addr())
				e.do("replicaof " + host + " " + port)
			},
			func(e *env, _ *testWorker) { e.do("replicaof no one") },
			qless.ErrUnavailable, "", "connect to the master",
		},
		"the memory is full": {
			func(e *env, w *testWorker) {
				e.do("config set maxmemory 1")
				w.instead("reserve", func(func() error) error { // it may need no memory itself
					return cmp.Or(e.Redis.Set(e.T.Context(), "key", "value", 0).Err(), errOffline)
				})
			},
			func(e *env, w *testWorker) {
				w.instead("reserve", nil)
				e.do("config set maxmemory 0")
			},
			qless.ErrServer, "OOM", "free memory or raise maxmemory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, w := workingEnv(t, qless.WorkerConfig{PollInterval: 50 * time.Millisecond}, nothing)
			require.NoError(t, w.Healthy())
			c.refuse(e, w)
			w.log.await(t, "qless: the server refuses", 1)
			w.log.await(t, c.hint, 1)
			until(t, "it reports the server's error", func() bool { return errors.Is(w.Healthy(), c.code) })
			require.Contains(t, requireCode(t, c.code, w.Healthy()).Message, "the server refuses: "+c.word)

			c.allow(e, w)
			w.log.await(t, "the server is back", 1)
			w.healthy()
			require.Equal(t, "complete", w.outcome(e.Put("q")).action)
		})
	}
}

// The worker's last message may be accepted, but that says nothing about the others.
func TestARefusalIsSaidOnceAndNotBackAtTheStop(t *testing.T) {
	w := newLiveEnv(t).worker(qless.WorkerConfig{PollInterval: 50 * time.Millisecond}).start()
	refused := w.refuseIf(func(script string, args []any) bool {
		return script == "reserve" && args[7] != "0" // it may report that it wants nothing
	}, serverError("OOM command not allowed when used memory > 'maxmemory'."))
	for range 6 {
		soon(t, "a refusal", refused)
	}
	require.Equal(t, 1, w.log.count("qless: the server refuses"))
	w.stop()
	require.Zero(t, w.log.count("the server is back"))
	require.Zero(t, w.log.count("does not answer"))
}

// If the queue runs one job at a time, a reserve that overtakes an outcome finds nothing.
func TestOutcomesAreSentFirstAfterScriptsWereFlushed(t *testing.T) {
	for _, when := range []string{"before its start", "idle", "busy"} {
		t.Run(when, func(t *testing.T) {
			e := newLiveEnv(t)
			e.Set("q-max-concurrency", 1)
			forget := func(now string) {
				if now == when {
					require.NoError(t, e.Redis.ScriptFlush(t.Context()).Err())
				}
			}
			forget("before its start")
			w, running, end := e.busyWorker(qless.WorkerConfig{Concurrency: 1})
			forget("idle")
			first := e.begun(running)
			e.Put("q")
			forget("busy")
			asked := w.count(of("reserve"))
			end <- nil
			soon(t, "the next job", running)
			require.Equal(t, reported{"complete", "complete"}, w.outcome(first))
			require.Equal(t, asked+1, w.count(of("reserve")))
		})
	}
}

// needRefusals skips the test if the server lets scripts write anyway, like Redis 6.2.5 without
// replicas.
func (e *env) needRefusals() {
	err := e.Redis.Eval(e.T.Context(), "return redis.call('set', KEYS[1], '1')", []string{"probe"}).Err()
	if err == nil {
		e.T.Skip("scripts of this server write all the same")
	}
}

func TestAWorkerKeepsItsJobsWhileNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ begin, end string }{
		"a replica": {"replicaof 127.0.0.1 1", "replicaof no one"},
		"a master without replicas": {
			"config set min-replicas-to-write 1", "config set min-replicas-to-write 0",
		},
	} {
		t.Run(what, func(t *testing.T) {
			e := newLiveEnv(t)
			e.Set("heartbeat", 12)
			lost, finish := make(chan error, 1), make(chan error)
			config := qless.WorkerConfig{
				Queues: []string{"q", "p"}, PollInterval: 50 * time.Millisecond,
			}
			w := e.working(config, func(ctx context.Context, job *qless.Job) error {
				err := <-finish
				if job.JID == "long" {
					lost <- context.Cause(ctx)
				}
				return err
			})
			e.Put("q", qless.JID("long"))
			e.Put("q", qless.JID("bad"))
			until(t, "both jobs run", func() bool { return len(w.Stats().Running) == 2 })
			e.do(c.begin)
			defer e.do(c.end) // the worker is stopped after that
			e.needRefusals()
			w.unhealthy()
			w.log.await(t, "could not renew locks", 1)
			finish <- qless.FailWith("group", errors.New("bad"))
			finish <- qless.FailWith("group", errors.New("bad"))
			require.NoError(t, soon(t, "the end of the long job", lost))
			e.do(c.end)
			for _, jid := range []string{"long", "bad"} {
				until(t, "the outcome of "+jid, func() bool { return e.Read(jid).State == qless.StateFailed })
			}
			require.Zero(t, w.Stats().Lost)
		})
	}
}

func TestAReserveInTurnsReturnsWhenJobsCannotBeTaken(t *testing.T) {
	e := newEnv(t)
	e.Put("q")
	e.do("acl setuser default -zremrangebyrank")
	reply := must(e.Run(t.Context(), "reserve", "", "w1", "1", "10", "2", "order", "round-robin", "q", "p"))(t)
	require.Len(t, reply, 4)
	require.Equal(t, 1, e.Counts("q").Waiting)
}
