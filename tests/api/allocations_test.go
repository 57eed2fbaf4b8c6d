package api

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// The allocations of the client, with those of go-redis, do not depend on the load of the machine,
// so a higher count means more work.
func TestCallsAllocateLittle(t *testing.T) {
	client, err := qless.New(testkit.Start(t).Client(t), nil)
	require.NoError(t, err)
	data := map[string]int{"user": 1234}
	q := client.Queue("q")
	put := func(q *qless.Queue) {
		if _, err := q.Put(t.Context(), "K", data); err != nil {
			t.Error(err)
		}
	}
	assert.LessOrEqual(t, testing.AllocsPerRun(200, func() { put(q) }), 27.0, "Put")

	jobs := make([]qless.JobSpec, 100)
	for i := range jobs {
		jobs[i] = qless.JobSpec{Klass: "K", Data: data}
	}
	perCall := testing.AllocsPerRun(20, func() {
		if _, err := q.PutMany(t.Context(), jobs); err != nil {
			t.Error(err)
		}
	})
	assert.LessOrEqual(t, perCall, 15.5*float64(len(jobs)), "PutMany of %d jobs", len(jobs))

	// A worker that is idle until the put wakes it.
	w, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"idle"}})
	require.NoError(t, err)
	done := make(chan struct{})
	w.Handle("K", func(context.Context, *qless.Job) error {
		done <- struct{}{}
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	perJob := testing.AllocsPerRun(500, func() {
		put(client.Queue("idle"))
		<-done
	})
	stop()
	<-ended
	assert.LessOrEqual(t, perJob, 140.0, "one job at a time, from the put to the outcome")
}
