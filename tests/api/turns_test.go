package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// A call that meets a job again that it has started, because its lock has ended at once, gives the
// slot of a job without room back.
func TestAJobLostInTheCallThatTookItKeepsNoSlot(t *testing.T) {
	e := newEnv(t)
	e.limit("slow", qless.LimitConfig{Concurrency: 2, Rate: 1, Per: time.Hour})
	e.Put("b", qless.JID("limited"), qless.Limits{"slow"}, qless.Priority(1))
	e.Put("b", qless.JID("free"))
	e.Put("a", qless.JID("later"), qless.Delay(time.Hour))
	_, err := e.Do(t.Context(), "reserve", "w", 4, 60, 8, "order", "weighted", "weights", "1 1",
		"cursor", 1, "lock", 0, "a", "b")
	require.NoError(t, err)
	require.Equal(t, qless.StateScheduled, e.Read("limited").State)
	require.Empty(t, e.Redis.ZRange(t.Context(), "ql:x:limit:slow:held", 0, -1).Val())
}

// A turn that finds no job that may start goes to a queue that has one, even if that job has limits
// and was passed over as a job ahead.
func TestATurnInVainGoesToAnotherQueue(t *testing.T) {
	for _, order := range []string{"ordered", "round-robin", "weighted"} {
		t.Run(order, func(t *testing.T) {
			e := newEnv(t)
			e.limit("open", qless.LimitConfig{Concurrency: 9})
			e.limit("full", qless.LimitConfig{Concurrency: 1})
			e.Put("other", qless.Limits{"full"})
			e.Pop("other")
			for _, jid := range []string{"a1", "a2", "a3"} {
				e.Put("a", qless.JID(jid), qless.Limits{"open"})
			}
			e.Put("b", qless.JID("b1"), qless.Limits{"full"})
			pairs := []any{"order", order, "cursor", 1, "ahead", 2}
			if order == "weighted" {
				pairs = append(pairs, "weights", "1 1")
			}
			args := append([]any{"w", 2, 60, len(pairs)}, pairs...)
			reply := must(e.Do(t.Context(), "reserve", append(args, "b", "a")...))(t)
			require.Len(t, reply, 5+2, "two jobs can start")
			require.Equal(t, 1, e.Counts("a").Waiting)
		})
	}
}
