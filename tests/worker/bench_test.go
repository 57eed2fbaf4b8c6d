package worker

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// BenchmarkPickUp measures how long a job waits from its put to its handler when workers are
// idle: go test -run - -bench PickUp -benchtime 2000x
func BenchmarkPickUp(b *testing.B) {
	for _, idle := range []int{1, 16} {
		b.Run(fmt.Sprintf("idle=%d", idle), func(b *testing.B) { benchmarkPickUp(b, idle) })
	}
}

func benchmarkPickUp(b *testing.B, idle int) {
	server := testkit.Start(b)
	client, err := qless.New(server.Client(b))
	require.NoError(b, err)
	taken := make(chan time.Time, 1)
	for range idle {
		worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"q"}, Concurrency: 1})
		require.NoError(b, err)
		worker.Handle("K", func(context.Context, *qless.Job) error {
			taken <- time.Now()
			return nil
		})
		require.NoError(b, worker.Start(b.Context()))
		b.Cleanup(func() { _ = worker.Stop(context.Background()) })
	}
	var waits []time.Duration
	for b.Loop() {
		put := time.Now()
		_, err := client.Queue("q").Put(b.Context(), "K", nil)
		require.NoError(b, err)
		waits = append(waits, (<-taken).Sub(put))
	}
	slices.Sort(waits)
	b.ReportMetric(float64(waits[len(waits)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds()), "p99-us")
}
