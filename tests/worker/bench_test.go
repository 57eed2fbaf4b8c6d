package worker

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// BenchmarkPickUp measures the time from a put to the handler while workers are idle:
// go test -run - -bench PickUp -benchtime 2000x
func BenchmarkPickUp(b *testing.B) {
	for _, idle := range []int{1, 16} {
		b.Run(fmt.Sprintf("idle=%d", idle), func(b *testing.B) { benchmarkPickUp(b, idle) })
	}
}

func benchmarkPickUp(b *testing.B, idle int) {
	client := must(qless.New(testkit.Start(b).Client(b), nil))(b)
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
		must(client.Queue("q").Put(b.Context(), "K", nil))(b)
		waits = append(waits, (<-taken).Sub(put))
	}
	slices.Sort(waits)
	b.ReportMetric(float64(waits[len(waits)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds()), "p99-us")
}

// BenchmarkWork measures the cost of a job in the worker's process:
// go test -run - -bench Work -benchtime 20000x -benchmem
func BenchmarkWork(b *testing.B) {
	for _, concurrency := range []int{1, 16, 100} {
		b.Run(fmt.Sprintf("concurrency=%d", concurrency), func(b *testing.B) {
			benchmarkWork(b, concurrency)
		})
	}
}

func benchmarkWork(b *testing.B, concurrency int) {
	client := must(qless.New(testkit.Start(b).Client(b), nil))(b)
	jobs := make([]qless.JobSpec, b.N)
	for i := range jobs {
		jobs[i] = qless.JobSpec{Klass: "K", Data: i}
	}
	must(client.Queue("q").PutMany(b.Context(), jobs))(b)
	worker, err := qless.NewWorker(client, qless.WorkerConfig{
		Queues: []string{"q"}, Concurrency: concurrency,
	})
	require.NoError(b, err)
	var ended atomic.Int64
	all := make(chan struct{})
	worker.Handle("K", func(context.Context, *qless.Job) error {
		if ended.Add(1) == int64(b.N) {
			close(all)
		}
		return nil
	})
	var before, after syscall.Rusage
	b.ReportAllocs()
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &before))
	b.ResetTimer()
	require.NoError(b, worker.Start(b.Context()))
	<-all
	require.NoError(b, worker.Stop(context.Background()))
	b.StopTimer()
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &after))
	spent := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	b.ReportMetric(float64(spent)/1e3/float64(b.N), "cpu-us/op")
}

// heap returns the size of the heap in use.
func heap() int {
	var stats runtime.MemStats
	for range 3 { // pools are emptied in two steps
		runtime.GC()
	}
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

func TestAnIdleWorkerTakesLittleMemory(t *testing.T) {
	const warm, workers = 50, 100
	e := newLiveEnv(t)
	options := testkit.Options(e.Server.Addr())
	options.PoolSize, options.PipelinePoolSize = 4, 4
	rdb := redis.NewClient(options)
	t.Cleanup(func() { _ = rdb.Close() })
	client := e.NewLiveClient(rdb, qless.ClientConfig{})
	idle := func(n int64) func() bool {
		return func() bool { return e.Redis.SCard(t.Context(), "ql:x:idle").Val() == n }
	}
	start := func() {
		w := newWorker(t, client, qless.WorkerConfig{Queues: []string{"q"}})
		w.Handle("K", nothing)
		require.NoError(t, w.Start(t.Context()))
		t.Cleanup(func() { _ = w.Stop(t.Context()) })
	}
	for range warm { // creates shared objects
		start()
	}
	until(t, "they are idle", idle(warm))
	before := heap()
	for range workers {
		start()
	}
	until(t, "all are idle", idle(warm+workers))
	perWorker := (heap() - before) / workers
	t.Logf("%d bytes a worker", perWorker)
	require.Less(t, perWorker, 40<<10)
}
