package wake

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/scripts"
)

// many returns the names of count queues, including q.
func many(count int) []string {
	queues := []string{"q"}
	for i := range count - 1 {
		queues = append(queues, fmt.Sprint("many", i))
	}
	slices.Sort(queues)
	return queues
}

// A worker with many queues has one entry in a list instead of one in each queue.
func TestWhateverMakesAJobReadyWakesAWorkerOfManyQueues(t *testing.T) {
	server := testkit.Start(t)
	for _, order := range []qless.Order{qless.OrderStrict, qless.OrderShuffled} {
		eachWay(t, server, func(e *env) {
			e.worker(qless.WorkerConfig{Queues: many(40), Order: order})
		}, func(*env) {})
	}
}

// Each worker is woken in turn, and again once idle again.
func TestWorkersOfManyQueuesShareAnEntry(t *testing.T) {
	e := newEnv(t, testkit.Start(t), "ql:")
	config := qless.WorkerConfig{Queues: many(40), Concurrency: 1}
	for range 3 {
		e.worker(config)
	}
	require.EqualValues(t, 1, e.Redis.ZCard(t.Context(), "ql:x:idle:q").Val())
	require.Len(t, e.Redis.Keys(t.Context(), "ql:x:list:*").Val(), 1)
	busy := make(chan struct{})
	e.workerThat(config, func(context.Context) { <-busy })
	t.Cleanup(func() { close(busy) })
	for i := range 10 {
		e.put("q", fmt.Sprint(i))
		e.runs(fmt.Sprint(i))
	}
}

// reserveAs asks for jobs of queues as a worker. It returns the longest time to wait, and the
// number of jobs.
func (e *env) reserveAs(worker, count, polls string, queues ...string) (wait float64, jobs int) {
	e.T.Helper()
	args := []any{worker, count, "10", "2", "polls", polls}
	for _, queue := range queues {
		args = append(args, queue)
	}
	reply, err := scripts.Run(e.T.Context(), e.Redis, e.Namespace(), time.Now(), "reserve", args...)
	require.NoError(e.T, err)
	items := reply.([]any)
	wait, err = strconv.ParseFloat(items[1].(string), 64)
	require.NoError(e.T, err)
	return wait, max(0, len(items)-5)
}

// A put that finds no idle worker of a list removes the list's entry from the queue, and notes
// that.
func TestListHasNoEntryWhileAllItsWorkersAreBusy(t *testing.T) {
	e := newEnv(t, testkit.Start(t), "ql:")
	ctx, queues := t.Context(), many(40)
	entries := func() int64 { return e.Redis.ZCard(ctx, "ql:x:idle:q").Val() }
	e.reserveAs("w", "1", "0", queues...)
	e.reserveAs("other", "1", "0", "elsewhere")
	require.EqualValues(t, 1, entries())
	e.reserveAs("w", "0", "0", queues...)
	e.put("q", "j")
	require.Zero(t, entries())
	wait, jobs := e.reserveAs("w", "2", "0", queues...)
	require.Equal(t, 1, jobs)
	require.Positive(t, wait)
	require.EqualValues(t, 1, entries(), "it is idle again")
	listens := e.Redis.Subscribe(ctx, "ql:x:wake:w")
	_, err := listens.Receive(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, listens.Close()) })
	e.put("q", "k")
	require.False(t, e.Redis.SIsMember(ctx, "ql:x:idle", "w").Val(), "it was woken")
	require.EqualValues(t, 1, entries(), "for others")
}

// Killed workers of a list prevent neither wake-ups of the others nor the end of the list.
func TestKilledWorkersOfManyQueues(t *testing.T) {
	e := newEnv(t, testkit.Start(t), "ql:")
	ctx, queues := t.Context(), many(40)
	for i := range 50 {
		e.reserveAs(fmt.Sprint("killed", i), "1", "0", queues...)
	}
	w := e.worker(qless.WorkerConfig{Queues: queues})
	e.put("q", "j")
	e.runs("j")
	e.idle(w)
	require.LessOrEqual(t, e.Redis.SCard(ctx, "ql:x:idle").Val(), int64(1))
	require.NoError(t, w.Stop(ctx))
	for _, pattern := range []string{"ql:x:idle*", "ql:x:list*"} {
		require.Empty(t, e.Redis.Keys(ctx, pattern).Val())
	}
}

// A worker that only polls does not check its queues right after another worker has.
func TestAPollTrustsTheLookOfAnother(t *testing.T) {
	for _, queues := range [][]string{{"q"}, many(5), many(40)} {
		e := newEnv(t, testkit.Start(t), "ql:")
		ctx := t.Context()
		for _, worker := range []string{"one", "two"} {
			e.reserveAs(worker, "1", "0", queues...)
		}
		until(t, "the checks of queues are remembered", func() bool {
			e.reserveAs("one", "1", "1", queues...)
			looked := e.Redis.Keys(ctx, "ql:x:looked:*").Val()
			return len(looked) == 1 && e.Redis.Persist(ctx, looked[0]).Val()
		})
		wait, _ := e.reserveAs("two", "1", "1", queues...)
		require.Less(t, wait, 10.0, "it asks again before the other one does")
		require.GreaterOrEqual(t, wait, 9.0)
		cost := len(e.Server.Commands(t, func() { e.reserveAs("two", "1", "1", queues...) }))
		require.LessOrEqual(t, cost, 7+min(len(queues), 5), "with the call itself")

		e.silentPut("q", "unheard")
		_, jobs := e.reserveAs("two", "1", "1", queues...)
		require.Zero(t, jobs)
		_, jobs = e.reserveAs("three", "1", "1", queues...)
		require.Equal(t, 1, jobs, "one that was not idle looks")
		e.put("q", "heard")
		_, jobs = e.reserveAs("two", "1", "1", queues...)
		require.Equal(t, 1, jobs, "one that was woken looks")
	}
}

// Any worker's poll finds the job, at the latest a poll interval after the last check.
func TestPollsFindUnannouncedJobs(t *testing.T) {
	for _, queues := range [][]string{{"q"}, many(40)} {
		e := newEnv(t, testkit.Start(t), "ql:")
		for range 3 {
			w, err := qless.NewWorker(e.client("ql:"), qless.WorkerConfig{
				Queues: queues, PollInterval: 200 * time.Millisecond,
			})
			require.NoError(t, err)
			w.Handle("*", func(_ context.Context, job *qless.Job) error {
				e.ran <- job.JID
				return nil
			})
			require.NoError(t, w.Start(context.Background()))
			t.Cleanup(func() { require.NoError(t, w.Stop(context.Background())) })
			e.idle(w)
		}
		for i := range 5 {
			e.silentPut("q", fmt.Sprint(i))
			e.runs(fmt.Sprint(i))
		}
	}
}

// However many queues there are, a poll costs few commands for empty ones, and finds the jobs of
// others.
func TestAPollOfAThousandQueues(t *testing.T) {
	e := newEnv(t, testkit.Start(t), "ql:")
	queues := many(1000)
	e.reserveAs("w", "1", "0", queues...)
	for _, polls := range []string{"0", "1"} {
		cost := len(e.Server.Commands(t, func() { e.reserveAs("w", "1", polls, queues...) }))
		require.LessOrEqual(t, cost, 20+1, "with the call itself")
	}
	for _, i := range []int{0, 1, 4, 5, 20, 21, 84, 85, 340, 341, 840, 841, 998, 999} {
		e.silentPut(queues[i], fmt.Sprint("j", i))
	}
	for range 14 {
		_, jobs := e.reserveAs("w", "1", "0", queues...)
		require.Equal(t, 1, jobs)
	}
	wait, jobs := e.reserveAs("w", "1", "0", queues...)
	require.Zero(t, jobs)
	require.Positive(t, wait)
}

// Many jobs that arrive at once wake several workers, to keep the last job from waiting for a chain
// of wake-ups.
func TestManyJobsWakeSeveralWorkers(t *testing.T) {
	for jobs, want := range map[int]int64{1: 1, 10: 1, 11: 2, 100: 10, 500: 16} {
		e := newEnv(t, testkit.Start(t), "ql:")
		ctx := t.Context()
		const workers = 20
		listens := e.Redis.Subscribe(ctx)
		t.Cleanup(func() { require.NoError(t, listens.Close()) })
		for i := range workers {
			name := fmt.Sprint("w", i)
			require.NoError(t, listens.Subscribe(ctx, "ql:x:wake:"+name))
			_, err := listens.Receive(ctx)
			require.NoError(t, err)
			e.reserveAs(name, "1", "0", "q")
		}
		specs := make([]qless.JobSpec, jobs)
		for i := range specs {
			specs[i].Klass = "K"
		}
		_, err := e.Queue("q").PutMany(ctx, specs)
		require.NoError(t, err)
		require.Equal(t, want, workers-e.Redis.SCard(ctx, "ql:x:idle").Val(), "%d jobs", jobs)
	}
}

// Redis stores small sets as lists, in which each change scans all members.
func TestManyIdleWorkersAreNoList(t *testing.T) {
	e := newEnv(t, testkit.Start(t), "ql:")
	ctx := t.Context()
	for i := range 6 {
		e.reserveAs(fmt.Sprint("one", i), "1", "0", "q")
		e.reserveAs(fmt.Sprint("many", i), "1", "0", many(40)...)
	}
	lists := e.Redis.Keys(ctx, "ql:x:list:*").Val()
	require.Len(t, lists, 1)
	for key, members := range map[string]int64{"ql:x:idle:q": 7, lists[0]: 6, "ql:workers": 12} {
		require.Equal(t, "skiplist", e.Redis.ObjectEncoding(ctx, key).Val(), key)
		require.Equal(t, members, e.Redis.ZCard(ctx, key).Val(), key)
	}
}
