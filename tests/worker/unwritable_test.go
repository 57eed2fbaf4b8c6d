package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// unwritable runs a test on a server that can refuse all writes, for each way to make it do so.
func unwritable(t *testing.T, test func(t *testing.T, begin, end func(e *env))) {
	for what, commands := range map[string][2][]any{
		"a replica": {{"replicaof", "127.0.0.1", "1"}, {"replicaof", "no", "one"}},
		"a master without replicas": {
			{"config", "set", "min-replicas-to-write", "1"}, {"config", "set", "min-replicas-to-write", "0"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			do := func(args []any) func(e *env) {
				return func(e *env) { require.NoError(t, e.Redis.Do(t.Context(), args...).Err()) }
			}
			test(t, func(e *env) {
				do(commands[0])(e)
				e.needRefusals(func() { do(commands[1])(e) })
			}, do(commands[1]))
		})
	}
}

// needRefusals skips the test if the server lets scripts write anyway, like Redis 6.2.5 without
// replicas.
func (e *env) needRefusals(end func()) {
	err := e.Redis.Eval(e.T.Context(), "return redis.call('set', KEYS[1], '1')", []string{"probe"}).Err()
	if err == nil {
		end()
		e.T.Skip("scripts of this server write all the same")
	}
}

func TestScriptsOfAWorkerFailWhereNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	unwritable(t, func(t *testing.T, begin, end func(e *env)) {
		e := newEnv(t)
		e.Put("q", qless.JID("a"))
		e.Pop("q")
		e.Put("q", qless.JID("b"))
		begin(e)
		defer end(e)
		for _, call := range [][]any{
			{"finish", "w1", "complete", "a", "q", "", "0"},
			{"finish", "w1", "complete", "a", "q", "", "4", "next", "p", "depends", `["b"]`},
			{"finish", "w1", "fail", "a", "q", "", "2", "group", "message"},
			{"finish", "w1", "retry", "a", "q", "", "0"},
			{"finish", "w1", "release", "a", "q", "", "0"},
			{"renew", "w1", "a"},
			{"reserve", "w1", "1", "10", "0", "q"},
			{"reserve", "w1", "1", "10", "0", "q", "p"},
			{"reserve", "w1", "1", "10", "2", "order", "round-robin", "q", "p"},
			{"reserve", "w1", "0", "10", "0", "q"},
			{"fail", "a", "w1", "group", "message"},
			{"retry", "a", "q", "w1"},
			{"heartbeat", "a", "w1"},
		} {
			_, err := e.Run(t.Context(), call[0].(string), "", call[1:]...)
			var refused *qless.Error
			require.ErrorAs(t, err, &refused, "%v", call)
			require.Contains(t, []qless.Code{qless.ErrServer, qless.ErrUnavailable}, refused.Code, "%v: %v", call, err)
		}
	})
}

func TestAWorkerKeepsItsJobsWhileNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	unwritable(t, func(t *testing.T, begin, end func(e *env)) {
		e := newLiveEnv(t)
		e.Set("heartbeat", 12)
		w := e.worker(qless.WorkerConfig{Queues: []string{"q", "p"}, PollInterval: 50 * time.Millisecond})
		lost, finish := make(chan error, 1), make(chan error)
		w.Handle("K", func(ctx context.Context, job *qless.Job) error {
			err := <-finish
			if job.JID == "long" {
				lost <- context.Cause(ctx)
			}
			return err
		})
		w.start()
		e.Put("q", qless.JID("long"))
		e.Put("q", qless.JID("bad"))
		until(t, "both jobs run", func() bool { return len(w.Stats().Running) == 2 })
		begin(e)
		until(t, "the worker is unhealthy", func() bool { return w.Healthy() != nil })
		w.log.await(t, "could not renew locks", 1)
		finish <- qless.FailWith("group", errors.New("bad"))
		finish <- qless.FailWith("group", errors.New("bad"))
		require.NoError(t, soon(t, "the end of the long job", lost))
		end(e)
		for _, jid := range []string{"long", "bad"} {
			until(t, "the outcome of "+jid, func() bool { return e.Read(jid).State == qless.StateFailed })
		}
		require.Zero(t, w.Stats().Lost)
	})
}

func TestAReserveInTurnsReturnsWhenJobsCannotBeTaken(t *testing.T) {
	e := newEnv(t)
	e.Put("q")
	require.NoError(t, e.Redis.Do(t.Context(), "acl", "setuser", "default", "-zremrangebyrank").Err())
	reply, err := e.Run(t.Context(), "reserve", "", "w1", "1", "10", "2", "order", "round-robin", "q", "p")
	require.NoError(t, err)
	require.Len(t, reply, 4)
	require.Equal(t, 1, e.Counts("q").Waiting)
}
