package worker

import (
	"runtime"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

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
