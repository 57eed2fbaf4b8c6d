package worker

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// A reserve finds the first of its queues empty. In the last queue, it finds a job without retries
// whose lock has ended, for which a job of the first queue waits.
func TestReserveThatFailsAJobFindsItsOnFailureRun(t *testing.T) {
	t.Parallel()
	for _, order := range []qless.Order{qless.OrderStrict, qless.OrderRoundRobin, qless.OrderShuffled} {
		for _, between := range []int{0, 300} {
			t.Run(fmt.Sprint(order, " ", between), func(t *testing.T) {
				e := newLiveEnv(t)
				e.Set("grace-period", "0")
				e.Set("last-heartbeat", "0.3")
				lost := e.Put("last", qless.Retries(0))
				require.Len(t, e.Pops("last", 1), 1)
				next := e.Put("first", qless.DependsOn{lost}, qless.OnFailureRun)
				queues := []string{"first"}
				for i := range between {
					queues = append(queues, fmt.Sprint("between", i))
				}
				w := e.worker(qless.WorkerConfig{Queues: append(queues, "last"), Order: order})
				w.Handle("K", nothing)
				w.start()
				require.Equal(t, "complete", w.outcome(next).action)
			})
		}
	}
}
