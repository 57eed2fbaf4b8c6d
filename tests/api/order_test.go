package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func TestPutManyJobsArePoppedInOrderAtAnyPriority(t *testing.T) {
	for _, priority := range []int{0, 1, 10, 1000, 100_000, 1 << 30, -1, -16, -1000} {
		t.Run(fmt.Sprint(priority), func(t *testing.T) {
			e := newEnv(t)
			put := e.puts("q", specs(500, qless.Priority(priority))...)
			require.Equal(t, put, jids(e.Pops("q", 500)))
		})
	}
}

func TestAHeartbeatThatIsNoNumberCountsAsNotSet(t *testing.T) {
	for value, want := range map[string]time.Duration{"soon": time.Minute, "0": 0, "-5": -5 * time.Second} {
		e := newEnv(t)
		require.NoError(t, errOf(e.Run(t.Context(), "config.set", "", "q-heartbeat", value)))
		e.Put("q", qless.JID("j"))
		job := e.Pop("q")
		require.WithinDuration(t, noon.Add(want), job.Expires, time.Second, value)
		until := must(job.Heartbeat(t.Context()))(t)
		require.WithinDuration(t, noon.Add(want), until, time.Second, value)
	}
}
