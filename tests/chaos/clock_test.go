package chaos

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// The clock jumps back and forth, by up to an hour, while jobs are put, delayed and run. Locks then
// expire early or late, so jobs may run again, but none is lost or left over.
func TestAClockThatJumps(t *testing.T) {
	server := testkit.Start(t)
	var ahead atomic.Int64
	client, err := qless.New(server.Client(t), &qless.ClientConfig{
		Clock:  func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
		Logger: testkit.Quiet(),
	})
	require.NoError(t, err)
	defer func() { _ = client.Close() }()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{
		Queues: []string{"q"}, Concurrency: 5, PollInterval: 100 * time.Millisecond,
	})
	require.NoError(t, err)
	var mu sync.Mutex
	runs := map[string]int{}
	worker.Handle("K", func(_ context.Context, job *qless.Job) error {
		mu.Lock()
		defer mu.Unlock()
		runs[job.JID]++
		return nil
	})
	require.NoError(t, worker.Start(context.Background()))
	defer func() { _ = worker.Stop(context.Background()) }()

	var jids []string
	done := func() bool {
		jobs, err := client.Jobs(t.Context(), jids...)
		for _, job := range jobs {
			if job.State != qless.StateComplete {
				return false
			}
		}
		return err == nil && len(jobs) == len(jids)
	}
	put := func(delays ...time.Duration) {
		for i := range 50 {
			delay := qless.Delay(delays[i%len(delays)])
			jid, err := client.Queue("q").Put(t.Context(), "K", nil, delay, qless.Retries(1000))
			require.NoError(t, err)
			jids = append(jids, jid)
		}
	}
	for _, jump := range []time.Duration{
		time.Hour, -time.Hour, -30 * time.Second, -time.Hour, time.Hour, 30 * time.Second,
	} {
		put(0, 100*time.Millisecond)
		if jump < 0 { // delayed jobs would become due that much later
			testkit.Until(t, "all are complete before the jump", done)
			put(0)
		}
		ahead.Add(int64(jump))
		put(0)
		testkit.Until(t, "all are complete", done)
	}
	mu.Lock()
	defer mu.Unlock()
	again := 0
	for _, n := range runs {
		again += n - 1
	}
	t.Logf("%d jobs, %d further runs", len(runs), again)
}
