package worker

import (
	"cmp"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

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
func (e *env) do(args ...any) {
	e.T.Helper()
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

// A server that refuses does answer, and its reason is more useful than the fact that it is
// reachable.
func TestAWorkerReportsWhatTheServerRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		refuse, allow func(e *env, w *testWorker)
		code          error
		word, hint    string
	}{
		"the user lacks a permission": {
			func(e *env, _ *testWorker) { e.do("acl", "setuser", "default", "-evalsha") },
			func(e *env, _ *testWorker) { e.do("acl", "setuser", "default", "+evalsha") },
			qless.ErrServer, "NOPERM", "grant the user the permissions in docs/security.md",
		},
		"the user lacks what a script needs": {
			func(e *env, _ *testWorker) { e.do("acl", "setuser", "default", "-exists") },
			func(e *env, _ *testWorker) { e.do("acl", "setuser", "default", "+exists") },
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
				e.do("replicaof", host, port)
			},
			func(e *env, _ *testWorker) { e.do("replicaof", "no", "one") },
			qless.ErrUnavailable, "", "connect to the master",
		},
		"the memory is full": {
			func(e *env, w *testWorker) {
				e.do("config", "set", "maxmemory", "1")
				w.instead("reserve", func(func() error) error { // it may need no memory itself
					return cmp.Or(e.Redis.Set(e.T.Context(), "key", "value", 0).Err(), errOffline)
				})
			},
			func(e *env, w *testWorker) {
				w.instead("reserve", nil)
				e.do("config", "set", "maxmemory", "0")
			},
			qless.ErrServer, "OOM", "free memory or raise maxmemory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLiveEnv(t)
			w := e.worker(qless.WorkerConfig{PollInterval: 50 * time.Millisecond})
			w.Handle("K", nothing)
			w.start()
			require.NoError(t, w.Healthy())
			c.refuse(e, w)
			w.log.await(t, "qless: the server refuses", 1)
			w.log.await(t, c.hint, 1)
			until(t, "it is unhealthy", func() bool { return w.Healthy() != nil })
			until(t, "it reports the server's error", func() bool {
				err := w.Healthy()
				return errors.Is(err, c.code)
			})
			require.Contains(t, requireCode(t, c.code, w.Healthy()).Message, "the server refuses: "+c.word)

			c.allow(e, w)
			w.log.await(t, "the server is back", 1)
			until(t, "it is healthy", func() bool { return w.Healthy() == nil })
			require.Equal(t, "complete", w.outcome(e.Put("q")).action)
		})
	}
}

func TestAHangingServerIsNotReportedAsRefusing(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{PollInterval: 50 * time.Millisecond}).start()
	e.Server.Kill()
	w.log.await(t, "the server does not answer", 1)
	require.Zero(t, w.log.count("the server refuses"))
	e.Server.Restart()
}

// The worker's last message may be accepted, but that says nothing about the others.
func TestAServerThatRefusesIsNotBackWhenTheWorkerStops(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{PollInterval: 50 * time.Millisecond}).start()
	w.refuseWith(func(script string, args []any) error {
		if script == "reserve" && args[7] != "0" { // it may report that it wants nothing
			return serverError("OOM command not allowed when used memory > 'maxmemory'.")
		}
		return nil
	})
	w.log.await(t, "qless: the server refuses", 1)
	w.stop()
	require.Zero(t, w.log.count("the server is back"))
	require.Zero(t, w.log.count("does not answer"))
}

func TestWhatTheServerRefusesIsSaidOnce(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{PollInterval: 50 * time.Millisecond}).start()
	refused := make(chan bool, 1000)
	w.refuseWith(func(script string, _ []any) error {
		if script != "reserve" {
			return nil
		}
		refused <- true
		return serverError("OOM command not allowed when used memory > 'maxmemory'.")
	})
	for range 6 {
		soon(t, "a refusal", refused)
	}
	require.Equal(t, 1, w.log.count("qless: the server refuses"))
}
