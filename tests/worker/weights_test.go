package worker

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// reserveWeighted reserves jobs from the queues a, b and c with the weights 6, 3 and 1, and counts
// them by queue. The jids begin with the name of the queue.
func (e *env) reserveWeighted(count, cursor int) map[string]int {
	e.T.Helper()
	reply, err := e.Run(e.T.Context(), "reserve", "", "w", fmt.Sprint(count), "3600", "6",
		"order", "weighted", "weights", "6 3 1", "cursor", fmt.Sprint(cursor), "a", "b", "c")
	require.NoError(e.T, err)
	counts := map[string]int{}
	for _, jid := range reservedJIDs(reply) {
		counts[jid[:1]]++
	}
	return counts
}

func (e *env) putInto(queue string, count int) {
	e.T.Helper()
	specs := make([]qless.JobSpec, count)
	for i := range specs {
		specs[i] = qless.JobSpec{Klass: "K", Options: []qless.PutOption{qless.JID(fmt.Sprint(queue, i))}}
	}
	_, err := e.Queue(queue).PutMany(e.T.Context(), specs)
	require.NoError(e.T, err)
}

// The cursors are fixed, and thus the draws.
func TestQueuesGiveJobsByTheirWeights(t *testing.T) {
	for _, count := range []int{1, 7, 50} {
		e := newEnv(t)
		for _, queue := range []string{"a", "b", "c"} {
			e.putInto(queue, 1200)
		}
		sum := map[string]int{}
		for i := 0; i < 1000; i += count {
			for queue, jobs := range e.reserveWeighted(count, 1_000_003*(i+1)%2147483647) {
				sum[queue] += jobs
			}
		}
		require.InDelta(t, 600, sum["a"], 60, "%v", sum)
		require.InDelta(t, 300, sum["b"], 60, "%v", sum)
		require.InDelta(t, 100, sum["c"], 40, "%v", sum)
	}
}

func TestWeightsOfQueuesWithoutJobsDoNotCount(t *testing.T) {
	e := newEnv(t)
	require.Empty(t, e.reserveWeighted(5, 1))
	e.putInto("c", 4)
	e.putInto("a", 2)
	require.NoError(t, e.Queue("b").Pause(t.Context()))
	e.putInto("b", 2)
	require.Equal(t, map[string]int{"a": 2, "c": 4}, e.reserveWeighted(10, 1))
	require.NoError(t, e.Queue("b").Resume(t.Context()))
	require.Equal(t, map[string]int{"b": 2}, e.reserveWeighted(10, 1), "of queues known to be empty")
}

func TestWeightsRespectMaxConcurrency(t *testing.T) {
	e := newEnv(t)
	e.Set("a-max-concurrency", 3)
	e.putInto("a", 20)
	e.putInto("c", 20)
	require.Equal(t, map[string]int{"a": 3, "c": 7}, e.reserveWeighted(10, 1))
}

func TestAReserveRefusesWeightsThatDoNotFit(t *testing.T) {
	e := newEnv(t)
	for weights, message := range map[string]string{
		"":      `Arg "weights" has 0 for 2 queues`,
		"1":     `Arg "weights" has 1 for 2 queues`,
		"1 2 3": `Arg "weights" has 3 for 2 queues`,
		"1 0":   `Arg "weights" not positive: 0`,
		"1 -1":  `Arg "weights" not positive: -1`,
		"1 x":   `Arg "weights" not a number: x`,
	} {
		_, err := e.Run(t.Context(), "reserve", "", "w", "1", "10", "4", "order", "weighted",
			"weights", weights, "a", "b")
		require.ErrorContains(t, err, message)
	}
}

// While a and b-1 have jobs, nineteen of twenty come from a.
func TestAWorkerDrawsQueuesByWeight(t *testing.T) {
	e := newLiveEnv(t)
	e.putInto("a", 400)
	e.putInto("b-1", 400)
	var mu sync.Mutex
	first, full := map[string]int{}, make(chan bool)
	w := e.worker(qless.WorkerConfig{
		Queues: []string{"a", "b-*"}, Weights: map[string]int{"a": 19}, Concurrency: 2,
	})
	w.Handle("K", func(_ context.Context, job *qless.Job) error {
		mu.Lock()
		defer mu.Unlock()
		if n := first["a"] + first["b-1"]; n < 200 {
			first[job.Queue]++
			if n == 199 {
				close(full)
			}
		}
		return nil
	})
	w.start()
	testkit.Soon(t, "200 jobs", full)
	mu.Lock()
	require.Less(t, first["b-1"], 60, "%v", first) // 10 are expected; 60 occur once in 10^25 runs
	mu.Unlock()
	until(t, "all are complete", func() bool { return w.Stats().Completed == 800 })
}

// A worker of its own keeps slots for a queue while the other worker is full.
func TestAGroupKeepsSlotsForAQueue(t *testing.T) {
	e := newLiveEnv(t)
	var group qless.WorkerGroup
	for _, config := range []qless.WorkerConfig{
		{Queues: []string{"critical"}, Concurrency: 1},
		{Queues: []string{"critical", "low"}, Concurrency: 2},
	} {
		w, err := qless.NewWorker(e.Client, config)
		require.NoError(t, err)
		group = append(group, w)
	}
	running, end := make(chan string, 10), make(chan bool)
	group.Handle("K", func(_ context.Context, job *qless.Job) error {
		running <- job.Queue
		<-end
		return nil
	})
	require.NoError(t, group.Start(t.Context()))
	defer func() { require.NoError(t, group.Stop(context.Background())) }()
	defer close(end)
	e.putInto("low", 5)
	require.Equal(t, "low", testkit.Soon(t, "a job", running))
	require.Equal(t, "low", testkit.Soon(t, "a job", running))
	e.putInto("critical", 1)
	require.Equal(t, "critical", testkit.Soon(t, "a job", running))
}
