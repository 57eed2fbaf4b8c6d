package wake

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/scripts"
)

// brief asks for jobs like a worker that has recently counted the relays. It returns the reply's
// numbers of relays and of jobs.
func (e *env) brief(worker, count string, queues ...string) (listeners int64, jobs int) {
	e.T.Helper()
	args := []any{worker, count, "10", "2", "brief", "1"}
	for _, queue := range queues {
		args = append(args, queue)
	}
	reply, err := scripts.Run(e.T.Context(), e.Redis, e.Namespace(), time.Now(), "reserve", args...)
	require.NoError(e.T, err)
	items := reply.([]any)
	return items[3].(int64), max(0, len(items)-5)
}

// A brief reserve counts no relays until a relay departs: then all reserves count them, and this
// one does not listen.
func TestABriefReserveCountsAfterARelayDeparts(t *testing.T) {
	for _, queues := range [][]string{{"q"}, many(5), many(40)} {
		e := newEnv(t, testkit.Start(t), "ql:")
		listeners, _ := e.brief("w", "1", queues...)
		require.EqualValues(t, 2, listeners)
		require.True(t, e.Redis.SIsMember(t.Context(), "ql:x:idle", "w").Val())
		require.Zero(t, e.Redis.ZCard(t.Context(), "ql:workers").Val())

		e.script("depart", "relay", "", "0", "elsewhere")
		listeners, _ = e.brief("w", "1", queues...)
		require.EqualValues(t, 2, listeners, "it did not relay")

		e.script("depart", "relay", "", "1", "elsewhere")
		listeners, _ = e.brief("w", "1", queues...)
		require.EqualValues(t, -1, listeners)
		require.EqualValues(t, 1, e.Redis.ZCard(t.Context(), "ql:workers").Val())
	}
}

// If a queue has only waiting jobs, a reserve and a put check for little else.
func TestTheUsualStateOfAQueueCostsFewCommands(t *testing.T) {
	e := newEnv(t, testkit.Start(t), "ql:")
	listens := e.Redis.Subscribe(t.Context(), "ql:x:wake:w")
	_, err := listens.Receive(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, listens.Close()) })
	e.put("q", "first")
	e.brief("w", "2", "q")
	e.script("finish", "w", "complete", "first", "q", "", "0")
	for _, jid := range []string{"a", "b", "c"} {
		cost := len(e.Server.Commands(t, func() { e.put("q", jid) }))
		require.LessOrEqual(t, cost, 11+1, "with the call itself")
		require.False(t, e.Redis.SIsMember(t.Context(), "ql:x:idle", "w").Val(), "it was woken")
		cost = len(e.Server.Commands(t, func() {
			_, jobs := e.brief("w", "10", "q")
			require.Equal(t, 1, jobs)
		}))
		require.LessOrEqual(t, cost, 13+1)
		e.script("finish", "w", "complete", jid, "q", "", "0")
	}
}

// A put that finds the entry of a busy worker removes it, and wakes the next worker.
func TestEntriesOfBusyWorkersArePassedOver(t *testing.T) {
	e := newEnv(t, testkit.Start(t), "ql:")
	ctx := t.Context()
	listens := e.Redis.Subscribe(ctx, "ql:x:wake:one", "ql:x:wake:two")
	for range 2 {
		_, err := listens.Receive(ctx)
		require.NoError(t, err)
	}
	t.Cleanup(func() { require.NoError(t, listens.Close()) })
	e.reserveAs("one", "1", "0", "q")
	e.reserveAs("two", "1", "0", "q")
	e.put("q", "a")
	require.ElementsMatch(t, []string{"two"}, e.Redis.SMembers(ctx, "ql:x:idle").Val())
	e.put("q", "b")
	require.Empty(t, e.Redis.SMembers(ctx, "ql:x:idle").Val())
	for _, worker := range []string{"one", "two"} {
		message, err := listens.ReceiveMessage(ctx)
		require.NoError(t, err)
		require.Equal(t, "ql:x:wake:"+worker, message.Channel)
	}
}

// A lock that expires before the worker asks again is claimed, even in an otherwise empty queue.
func TestAQuietQueueWithShortLocks(t *testing.T) {
	e := newEnv(t, testkit.Start(t), "ql:")
	require.NoError(t, e.Redis.HSet(t.Context(), "ql:config", "q-heartbeat", "5").Err())
	e.put("q", "j")
	e.brief("w", "2", "q")
	require.True(t, e.claims("q"))
}
