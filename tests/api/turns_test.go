package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

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
			reply, err := e.Do(t.Context(), "reserve", append(args, "b", "a")...)
			require.NoError(t, err)
			require.Len(t, reply, 5+2, "two jobs can start")
			require.Equal(t, 1, e.Counts("a").Waiting)
		})
	}
}
