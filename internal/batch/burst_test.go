package batch_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/batch"
)

// exchangesOf returns the number of exchanges for clients that make one call after another, with
// pauses that differ between clients.
func exchangesOf(t *testing.T, clients, calls int, gather bool) (exchanges int) {
	synctest.Test(t, func(t *testing.T) {
		exchange := func() {
			exchanges++
			time.Sleep(100 * time.Microsecond)
		}
		b := batch.Batcher[int, int]{Gather: gather}
		b.Alone = func(context.Context, int) int { exchange(); return 0 }
		b.Count = func(waiting []*batch.Call[int, int]) int { return len(waiting) }
		b.Send = func(_ context.Context, all []*batch.Call[int, int]) {
			exchange()
			for _, call := range all {
				call.Answer(0)
			}
		}
		var done sync.WaitGroup
		for i := range clients {
			done.Go(func() {
				for range calls {
					_, err := b.Do(t.Context(), i)
					require.NoError(t, err)
					time.Sleep(time.Duration(100+50*(i%8)) * time.Microsecond)
				}
			})
		}
		done.Wait()
	})
	return exchanges
}

func TestCallsThatComeInBurstsShareExchanges(t *testing.T) {
	require.Greater(t, exchangesOf(t, 8, 100, false), 4*100)
	require.LessOrEqual(t, exchangesOf(t, 8, 100, true), 2*100, "as goroutines run, some are for half")
	require.LessOrEqual(t, exchangesOf(t, 64, 100, true), 64*100/16)
}

func TestACallWaitsForOthersOnlyInABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b batch.Burst
		waited := func(since time.Duration, calls int) time.Duration {
			time.Sleep(since)
			began := time.Now()
			b.Wait(nil, func() int { return calls })
			return time.Since(began)
		}
		require.Zero(t, waited(0, 1), "the first exchange")
		b.Sent(3)
		require.Equal(t, 2*time.Millisecond, waited(time.Millisecond, 2))
		require.Zero(t, waited(0, 3), "as many as before")
		require.Zero(t, waited(0, 0), "there are none")
		b.Sent(1)
		require.Zero(t, waited(0, 1), "they come one by one")
		b.Sent(100)
		require.Zero(t, waited(0, 16), "enough")
		require.Zero(t, waited(21*time.Millisecond, 1), "the burst is over")
	})
}
