package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/tests/repairs"
)

func TestWorkersReportWhatTheyHold(t *testing.T) {
	e := newEnv(t)
	e.Set("slow-heartbeat", time.Hour)
	short, long := e.Put("q"), e.Put("slow")
	e.Pop("q")
	e.Pop("slow")
	e.Clock.Advance(time.Second)
	require.NoError(t, errOf(e.As("w2").Queue("q").Pop(t.Context(), 1)))

	workers := must(e.inspect().Workers(t.Context()))(t)
	require.Equal(t, []inspect.WorkerStatus{{Name: "w2"}, {Name: "w1", Jobs: 2}}, workers)
	e.Clock.Advance(2 * time.Minute)
	workers = must(e.inspect().Workers(t.Context()))(t)
	require.Equal(t, []inspect.WorkerStatus{{Name: "w2"}, {Name: "w1", Jobs: 1, Stalled: 1}}, workers)
	held := must(repairs.HeldBy(t.Context(), e.Client, "w1"))(t)
	require.Equal(t, []string{short, long}, held)
	held = must(repairs.HeldBy(t.Context(), e.Client, "unknown"))(t)
	require.Empty(t, held)
}
