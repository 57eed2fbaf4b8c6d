package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/tests/repairs"
)

// staying are the keys, after the prefix ql:, that may exist forever after all jobs have ended and
// all workers are gone. None contains the name of a queue, a job, a tenant, a key or a worker.
var staying = map[string]bool{
	"completed": true, "config": true, "queues": true, "x:limits": true, "x:until": true,
	"x:schedule-ids": true, "x:schedules": true, "x:schedule:nightly": true,
}

// Queues, tenants, limits, unique keys and workers come and go, however their jobs end.
func TestNothingIsLeftOfNamesThatComeAndGo(t *testing.T) {
	e, ctx := newEnv(t), t.Context()
	e.Set("jobs-history", 0)
	e.slots("slots", 1)
	e.limit("rates", qless.LimitConfig{Rate: 2, Per: time.Second})
	require.NoError(t, errOf(e.Run(ctx, "schedule.register", "", "nightly", "digest", "@daily", "skip", "q", "K", "", "{}", "")))
	ends := []func(c *qless.Client, jid string) error{
		func(c *qless.Client, jid string) error { return c.Cancel(ctx, jid) },
		func(c *qless.Client, jid string) error { return errOf(repairs.End(ctx, c, jid, repairs.Ending{})) },
		func(c *qless.Client, jid string) error {
			if err := errOf(repairs.End(ctx, c, jid, repairs.Ending{State: qless.StateFailed, Group: jid})); err != nil {
				return err
			}
			return repairs.Forget(ctx, c, jid)
		},
		func(c *qless.Client, jid string) error {
			e.Clock.Advance(time.Hour)
			return errOf(inspect.New(c).Sweep(ctx))
		},
	}
	for i := range 24 {
		worker := fmt.Sprint("w", i)
		c := e.As(worker)
		var all []string
		for n := range 6 {
			name := fmt.Sprint(i, "-", n)
			all = append(all, e.Put(fmt.Sprint("q", i), qless.JID("j"+name), qless.Fair(name), qless.Priority(n%2),
				qless.Unique(name), qless.TTL(time.Hour), qless.Limits{"slots/" + name[:len(name)-1], "rates/" + name}))
		}
		require.NoError(t, errOf(e.Run(ctx, "schedule.last", "", "nightly", worker, "digest")))
		require.EqualValues(t, 1, e.addRates(worker, 1, 0, "q", "K", "1,0,0||"))
		popped := must(c.Queue(fmt.Sprint("q", i)).Pop(ctx, 1+i%4))(t)
		if i%2 == 0 && len(popped) > 0 {
			require.NoError(t, popped[0].Complete(ctx))
			all = append(all[:0], difference(all, popped[0].JID)...)
		}
		for n, jid := range all {
			if i%4 == 3 && n > 0 {
				break // one sweep ends all lives
			}
			require.NoError(t, ends[i%4](c, jid))
		}
		require.NoError(t, errOf(e.Run(ctx, "queue.forget", "", fmt.Sprint("q", i))))
		require.NoError(t, e.inspect().ForgetWorkers(ctx, worker))
	}
	e.Put("last", qless.JID("last"))
	require.NoError(t, e.Pop("last").Complete(ctx))
	require.NoError(t, e.inspect().ForgetWorkers(ctx, "w1"))
	for _, key := range e.Redis.Keys(ctx, "ql:*").Val() {
		if e.Redis.TTL(ctx, key).Val() == -1 { // -2 if it has just expired
			require.True(t, staying[strings.TrimPrefix(key, "ql:")], "%s stays for ever", key)
		}
	}
}

// difference returns the other names.
func difference(names []string, name string) (others []string) {
	for _, other := range names {
		if other != name {
			others = append(others, other)
		}
	}
	return others
}
