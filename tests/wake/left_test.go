package wake

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/repairs"
)

// busyUntil returns a function that keeps a handler busy until the test ends.
func busyUntil(t *testing.T) func(ctx context.Context) {
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	return func(ctx context.Context) {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
}

// A worker waits for a due time in one queue, then for an earlier one in another, and is busy with
// that job. The other worker must take over the first.
func TestABusyWorkerLeavesWhatItWaitedForToOthers(t *testing.T) {
	e := newEnv(t, testkit.Start(t), "ql:")
	one := qless.WorkerConfig{Queues: []string{"q1", "q2"}, Concurrency: 1, ShutdownTimeout: time.Millisecond}
	e.workerThat(one, busyUntil(t))
	e.put("q1", "later", qless.Delay(4*time.Second))
	until(t, "it waits for the first queue", func() bool { return e.claims("q1") })
	e.put("q2", "sooner", qless.Delay(2*time.Second))
	until(t, "it waits for the second queue", func() bool { return e.claims("q2") })
	e.worker(qless.WorkerConfig{Queues: []string{"q1"}})
	e.runs("sooner")
	e.runs("later")
}

// claims reports whether a worker waits for the next due time of a queue.
func (e *env) claims(queue string) bool {
	e.T.Helper()
	count, err := e.Redis.Exists(e.T.Context(), e.Namespace()+"x:due:"+queue).Result()
	require.NoError(e.T, err)
	return count == 1
}

// A worker without free slots passes on the jobs of each of its queues, not just of the first
// queue, which may have no other worker.
func TestABusyWorkerPassesOnTheJobsOfEachQueue(t *testing.T) {
	e := newEnv(t, testkit.Start(t), "ql:")
	for _, queue := range []string{"q1", "q2"} { // a new queue would make the workers look again
		e.put(queue, "known")
		require.NoError(t, e.Cancel(t.Context(), "known"))
	}
	both := qless.WorkerConfig{Queues: []string{"q1", "q2"}, Concurrency: 1, ShutdownTimeout: time.Millisecond}
	first := e.workerThat(both, busyUntil(t))
	second := e.worker(qless.WorkerConfig{Queues: []string{"q2"}})
	for _, w := range []*qless.Worker{first, second} { // the reason for their first polls is gone
		asked := time.Now()
		w.Resume()
		until(t, "an answer", func() bool { return w.Stats().LastAnswer.After(asked) && w.Stats().Idle })
	}
	// Both at once, because the first worker may ask again when it learns that it is subscribed.
	e.silentPut("q1", "first", "q2", "of the second queue")
	e.put("q1", "second")
	e.runs("of the second queue")
}

// A worker is woken for several jobs at once, takes one, and has no slots for the others. Another
// worker must wait for the job that falls due later.
func TestABusyWorkerLeavesWhatFallsDueToOthers(t *testing.T) {
	e := newEnv(t, testkit.Start(t), "ql:")
	one := qless.WorkerConfig{Queues: []string{"q"}, Concurrency: 1, ShutdownTimeout: time.Millisecond}
	e.put("q", "so that the queue is known")
	e.workerThat(one, func(context.Context) {})
	e.runs("so that the queue is known")
	busy := busyUntil(t)
	e.workerThat(one, busy)
	e.workerThat(one, busy)
	_, err := e.Queue("q").PutMany(t.Context(), []qless.JobSpec{
		{Klass: "K", Options: []qless.PutOption{qless.JID("now")}},
		{Klass: "K", Options: []qless.PutOption{qless.JID("later"), qless.Delay(time.Second)}},
	})
	require.NoError(t, err)
	e.runs("now")
	e.runs("later")
}

// Killed workers stay marked as idle. A put skips a limited number, and finds the live one.
func TestKilledWorkersDoNotKeepOthersFromBeingWoken(t *testing.T) {
	e := newEnv(t, testkit.Start(t), "ql:")
	const killed = 100_000
	for from := 0; from < killed; from += 10_000 {
		pipe := e.Redis.Pipeline()
		for i := range 10_000 {
			name := fmt.Sprint("killed-", from+i)
			pipe.SAdd(t.Context(), "ql:x:idle", name)
			pipe.ZAdd(t.Context(), "ql:x:idle:q", redis.Z{Score: float64(time.Now().Unix() + 5), Member: name})
		}
		_, err := pipe.Exec(t.Context())
		require.NoError(t, err)
	}
	e.worker(qless.WorkerConfig{Queues: []string{"q"}})
	e.put("q", "j")
	e.runs("j")
	left, err := e.Redis.ZCard(t.Context(), "ql:x:idle:q").Result()
	require.NoError(t, err)
	require.Greater(t, left, int64(killed-1000), "one put looks at few of them")
}

// A worker that has not asked for three poll intervals is gone. Each poll of another worker removes
// some gone workers.
func TestMarksOfIdleWorkersLapse(t *testing.T) {
	e := newEnv(t, testkit.Start(t), "ql:")
	ctx := t.Context()
	var lapsed []redis.Z
	names := []any{"elsewhere"}
	for i := range 1100 {
		name := fmt.Sprint("killed-", i)
		lapsed = append(lapsed, redis.Z{Score: float64(time.Now().Unix() - 1), Member: name})
		names = append(names, name)
	}
	lapsed = append(lapsed, redis.Z{Score: 1, Member: "elsewhere"})
	require.NoError(t, e.Redis.ZAdd(ctx, "ql:x:idle:q", lapsed...).Err())
	require.NoError(t, e.Redis.SAdd(ctx, "ql:x:idle", names...).Err())
	listens := e.Redis.Subscribe(ctx, "ql:x:wake:elsewhere")
	_, err := listens.Receive(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, listens.Close()) })

	left := func() []int64 {
		return []int64{e.Redis.ZCard(ctx, "ql:x:idle:q").Val(), e.Redis.SCard(ctx, "ql:x:idle").Val()}
	}
	reserve := func() {
		e.script("reserve", "w", "1", "10", "0", "q")
	}
	reserve()
	require.Equal(t, []int64{1102, 1102}, left(), "it becomes idle")
	for _, want := range [][]int64{{602, 603}, {102, 103}, {1, 2}} {
		reserve()
		require.Equal(t, want, left(), "it polls")
	}
	require.ElementsMatch(t, []string{"w", "elsewhere"}, e.Redis.SMembers(ctx, "ql:x:idle").Val(),
		"one that listens may wait for jobs of other queues")
	score := e.Redis.ZScore(ctx, "ql:x:idle:q", "w").Val()
	require.InDelta(t, time.Now().Unix()+30, score, 20)
}

// A departing worker leaves no key behind, even if one of its jobs was timed out: for classic
// clients, that job stays in the worker's list.
func TestAWorkerThatDepartsLeavesNoKey(t *testing.T) {
	e := newEnv(t, testkit.Start(t), "ql:")
	w := e.workerThat(qless.WorkerConfig{Queues: []string{"q"}, ShutdownTimeout: time.Millisecond}, busyUntil(t))
	e.put("q", "j")
	e.runs("j")
	require.NoError(t, e.Queue("q").Pause(t.Context()))
	require.NoError(t, repairs.TimeOut(t.Context(), e.Client, "j"))
	held, err := repairs.HeldBy(t.Context(), e.Client, w.Name())
	require.NoError(t, err)
	require.Empty(t, held, "no job holds it")
	until(t, "the handler has ended", func() bool { return w.Stats().Lost == 1 })
	require.NoError(t, w.Stop(t.Context()))
	keys, err := e.Redis.Keys(t.Context(), "*"+w.Name()+"*").Result()
	require.NoError(t, err)
	require.Empty(t, keys)
	idle, err := e.Redis.Keys(t.Context(), "ql:x:idle*").Result()
	require.NoError(t, err)
	require.Empty(t, idle)
}
