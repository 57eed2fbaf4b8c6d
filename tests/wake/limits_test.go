package wake

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/testbed"
)

// A job throttled by its handler is the only job of its queue, and of several.
func TestAThrottledJobRunsAgainWhenTheHoldEnds(t *testing.T) {
	server := testkit.Start(t)
	for name, queues := range map[string][]string{"one:": {"q"}, "two:": {"q", "another"}, "many:": many(40)} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, server, name)
			w, err := qless.NewWorker(e.client(name), qless.WorkerConfig{Queues: queues, PollInterval: poll})
			require.NoError(t, err)
			runs := 0
			w.Handle("*", func(_ context.Context, job *qless.Job) error {
				if runs++; runs == 1 {
					return qless.Throttled(soon)
				}
				e.ran <- job.JID
				return nil
			})
			require.NoError(t, w.Start(t.Context()))
			t.Cleanup(func() { require.NoError(t, w.Stop(context.Background())) })
			e.idle(w)
			e.put("q", "j", qless.Limits{"api"})
			e.runs("j")
		})
	}
}

// A worker waits for the jobs added by the call itself to a queue with nothing but work: the caller
// if idle, and otherwise another worker.
func TestWhatAReserveAddsToAQuietQueueIsWaitedFor(t *testing.T) {
	cases := []struct {
		name string
		put  func(e *env)
	}{
		{"a parked job", func(e *env) {
			must(e, e.Limit("api").Hold(e.T.Context(), 5*time.Second))
			e.put("q", "parked", qless.Limits{"api"}, qless.Priority(1))
			e.put("q", "plain")
		}},
		{"a lock", func(e *env) { e.put("q", "locked", qless.LockTime(5*time.Second)) }},
	}
	for _, c := range cases {
		for _, busy := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				e := newEnv(t, testkit.Start(t), "ql:")
				listens := e.Redis.Subscribe(t.Context(), "ql:x:wake:other")
				_, err := listens.Receive(t.Context())
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, listens.Close()) })
				c.put(e)
				if !busy {
					wait, _ := e.reserveAs("w", "9", "0", "q")
					require.InDelta(t, 5, wait, 1)
					require.True(t, e.claims("q"))
					return
				}
				must(e, e.Redis.SAdd(t.Context(), "ql:x:idle", "other").Err())
				must(e, e.Redis.ZAdd(t.Context(), "ql:x:idle:q", testbed.Member(float64(time.Now().Unix()+60), "other")).Err())
				_, jobs := e.brief("w", "1", "q")
				require.Positive(t, jobs)
				require.Zero(t, e.Redis.SCard(t.Context(), "ql:x:idle").Val(), "the other one is woken")
			})
		}
	}
}
