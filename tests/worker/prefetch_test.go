package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// Tests that set how long jobs may be prefetched are in worker_prefetch_test.go of the library.

// overruns makes a worker with one slot run an endless job, after enough short jobs to make it
// prefetch the jobs m, z and a, unless it is slow. The returned channel ends that job.
func (e *env) overruns() chan error {
	e.T.Helper()
	for range 100 {
		e.Put("q")
	}
	for _, jid := range []string{"long", "m", "z", "a"} {
		e.Put("q", qless.JID(jid))
	}
	w := e.worker(qless.WorkerConfig{Concurrency: 1})
	handler, running, end := hold()
	w.Handle("K", func(ctx context.Context, job *qless.Job) error {
		if job.JID == "long" {
			return handler(ctx, job)
		}
		return nil
	})
	require.NoError(e.T, w.Start(e.T.Context()))
	soon(e.T, "the long job", running)
	return end
}

// Either the worker already holds the jobs when the other one becomes idle, or it does not yet.
func TestAnIdleWorkerGetsWhatAnotherHoldsAhead(t *testing.T) {
	e := newLiveEnv(t)
	end := e.overruns()
	other := e.idleWorker()
	for _, jid := range []string{"m", "z", "a"} {
		require.Equal(t, reported{"complete", "complete"}, other.outcome(jid))
	}
	end <- nil
}

// Two workers share a queue. One has an endless job, with others behind it.
func TestNoJobWaitsForALongOneInAGroup(t *testing.T) {
	e := newLiveEnv(t)
	client := e.NewLiveClient(e.Redis, qless.ClientConfig{})
	group, err := qless.NewWorkerGroup([]*qless.Client{client, client}, qless.WorkerConfig{
		Queues: []string{"q"}, Concurrency: 1, PollInterval: time.Hour,
	})
	require.NoError(t, err)
	handler, running, end := hold()
	short, ran := passes()
	group.Handle("Long", handler)
	group.Handle("K", short)
	require.NoError(t, group.Start(t.Context()))
	const rounds, before, behind = 5, 100, 30
	seen := map[string]bool{}
	for range rounds {
		specs := slices.Repeat([]qless.JobSpec{{Klass: "K"}}, before+1+behind)
		specs[before].Klass = "Long"
		must(e.Queue("q").PutMany(t.Context(), specs))(t)
		for range before + behind {
			seen[soon(t, "a job", ran).JID] = true
		}
		soon(t, "the long job", running)
		end <- nil
	}
	require.NoError(t, group.Drain(t.Context()))
	require.Len(t, seen, rounds*(before+behind), "each ran once")
	completed := 0
	for _, w := range group {
		require.NotZero(t, w.Stats().Completed)
		completed += w.Stats().Completed
	}
	require.Equal(t, rounds*(before+1+behind), completed)
}

// take calls the script reserve for a worker, and returns the jids.
func (e *env) take(count, ahead, order string, queues ...string) []string {
	e.T.Helper()
	args := []any{"w", count, "3600", "4", "order", order, "ahead", ahead}
	for _, queue := range queues {
		args = append(args, queue)
	}
	return reservedJIDs(must(e.Run(e.T.Context(), "reserve", "", args...))(e.T))
}

func TestReserveTakesJobsAheadInTheirOrder(t *testing.T) {
	for order, wanted := range map[string]string{"ordered": inOrder, "round-robin": inTurns} {
		e := newEnv(t)
		e.fill(abc)
		require.Equal(t, strings.Fields(wanted)[:5], e.take("2", "3", order, "C", "B", "A"))
		require.Len(t, e.take("0", "3", order, "C", "B", "A"), 3, "a worker without room")
		require.Len(t, e.take("1", "8", order, "C", "B", "A"), 2)
		require.Empty(t, e.take("0", "1", order, "C", "B", "A"))
		require.Empty(t, e.Redis.SMembers(t.Context(), "ql:x:idle").Val(), "it got as many jobs as it has slots")
	}
}

func TestReserveTakesNothingAheadOfAnIdleWorker(t *testing.T) {
	inOrders(t, func(t *testing.T, e *env, order string) {
		require.Empty(t, e.take("1", "3", order, "A", "B", "D"), "it is idle itself")
		e.fill(abc)
		e.reserve("other", 1, order, "0", "", "elsewhere", "D")
		e.idle("w", "A") // although it was woken
		require.Len(t, e.take("1", "3", order, "A", "B", "D"), 1)
		require.Empty(t, e.take("0", "3", order, "D", "A"))
		e.Redis.Del(t.Context(), "ql:x:idle")
		e.idle("w", "A")
		require.Len(t, e.take("1", "3", order, "A", "B", "D"), 4, "only it was idle")
		require.Empty(t, e.Redis.SMembers(t.Context(), "ql:x:idle").Val())
	})
}

// idle makes the server count a worker as idle in a queue.
func (e *env) idle(worker, queue string) {
	e.T.Helper()
	require.NoError(e.T, e.Redis.SAdd(e.T.Context(), "ql:x:idle", worker).Err())
	require.NoError(e.T, e.Redis.ZAdd(e.T.Context(), "ql:x:idle:"+queue, zmember(1, worker)).Err())
}

func TestReserveTakesAheadWhileOtherQueuesAreIdle(t *testing.T) {
	inOrders(t, func(t *testing.T, e *env, order string) {
		e.fill(abc)
		e.reserve("other", 1, order, "0", "", "elsewhere", "D")
		e.idle("busy", "A")
		e.Redis.SRem(t.Context(), "ql:x:idle", "busy")
		require.Len(t, e.take("1", "3", order, "A", "B"), 4)
		require.Len(t, e.take("0", "3", order, "A", "C"), 3)
		require.Equal(t, []string{"other"}, e.Redis.SMembers(t.Context(), "ql:x:idle").Val())
	})
}

// A reserve checks a limited number of queues and workers. If there are more, it prefetches
// nothing.
func TestReserveLooksForIdleWorkersOnlySoLong(t *testing.T) {
	e := newEnv(t)
	e.fill(map[string]int{"q": 20})
	e.idle("other", "elsewhere")
	queues := []string{"q"}
	for i := range 99 {
		queues = append(queues, fmt.Sprint("empty", i))
	}
	require.Len(t, e.take("0", "3", "ordered", queues...), 3)
	require.Empty(t, e.take("0", "3", "ordered", append(queues, "one more")...))
	var gone []redis.Z
	for i := range 100 {
		gone = append(gone, zmember(2, fmt.Sprint("gone", i)))
	}
	e.Redis.ZAdd(t.Context(), "ql:x:idle:empty0", gone...)
	e.Redis.ZAdd(t.Context(), "ql:x:idle:empty1", gone[:50]...)
	require.Len(t, e.take("0", "3", "ordered", queues...), 3)
	e.Redis.ZAdd(t.Context(), "ql:x:idle:empty2", zmember(0, "first"))
	require.Empty(t, e.take("0", "3", "ordered", queues...))
	e.Redis.ZRem(t.Context(), "ql:x:idle:empty2", "first")
	e.Redis.ZAdd(t.Context(), "ql:x:idle:empty0", zmember(3, "last"))
	require.Empty(t, e.take("0", "3", "ordered", queues...))
}

func TestReserveTakesNothingAheadIfIdlersAreUnknown(t *testing.T) {
	for _, key := range []string{"ql:x:idle", "ql:x:idle:q"} {
		e := newEnv(t)
		e.fill(map[string]int{"q": 5})
		e.idle("other", "elsewhere")
		e.Redis.ZAdd(t.Context(), "ql:x:idle:q", zmember(1, "busy"))
		require.NoError(t, e.Redis.Set(t.Context(), key, "", 0).Err())
		require.Len(t, e.take("1", "3", "ordered", "q"), 1, key)
	}
}

// A job held by a worker counts as running. Jobs of later queues must not overtake it.
func TestReserveTakesNothingAheadFromAMaxConcurrencyOn(t *testing.T) {
	inOrders(t, func(t *testing.T, e *env, order string) {
		e.Set("B-max-concurrency", 2)
		e.fill(abc)
		require.Equal(t, []string{"B1"}, e.take("1", "5", order, "B"))
		require.Empty(t, e.take("0", "5", order, "B"))
		require.Equal(t, []string{"B2"}, e.take("1", "5", order, "B", "A"))
		require.Len(t, e.take("1", "2", order, "A", "C"), 3)
	})
}

func TestReserveAheadCostsNoMoreCommands(t *testing.T) {
	e := newEnv(t)
	e.fill(map[string]int{"q": 20})
	e.take("1", "0", "ordered", "q") // the first call of a day costs more
	cost := func(count, ahead string) int {
		return len(e.Server.Commands(t, func() { e.take(count, ahead, "ordered", "q") }))
	}
	alone := cost("1", "0")
	require.Equal(t, alone, cost("0", "1"))
	require.Equal(t, cost("5", "0"), cost("1", "4"))
}

// This is the cost in the header of reserve.
func TestCommandsThatLookingForIdleWorkersCosts(t *testing.T) {
	e := newEnv(t)
	e.fill(map[string]int{"q": 20})
	e.idle("other", "elsewhere")
	e.take("1", "0", "ordered", "q") // the first call of a day costs more
	cost := func(ahead string, queues ...string) int {
		return len(e.Server.Commands(t, func() { e.take("1", ahead, "ordered", queues...) }))
	}
	const job = 3
	alone := cost("0", "q")
	require.Equal(t, alone+job+1, cost("1", "q"))
	e.Redis.ZAdd(t.Context(), "ql:x:idle:q", zmember(1, "busy"))
	several := cost("0", "q", "b", "c")
	e.Redis.ZAdd(t.Context(), "ql:x:idle:q", zmember(1, "busy"))
	require.Equal(t, several+job+3+1, cost("1", "q", "b", "c"))
}

func TestReleasedJobsKeepTheirPlaces(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("low"), qless.Priority(-1))
	for _, jid := range []string{"m", "z", "a", "first"} {
		e.Put("q", qless.JID(jid), qless.Priority(5000000))
	}
	require.Len(t, e.Pops("q", 5), 5)
	e.Put("q", qless.JID("new"), qless.Priority(5000000))
	args := []any{"w1"}
	for _, release := range [][2]string{{"m", "1"}, {"z", "2"}, {"a", "1000"}, {"low", "4"}} {
		args = append(args, "release", release[0], "q", "", "2", "place", release[1])
	}
	args = append(args, "release", "first", "q", "", "0")
	reply := must(e.Run(t.Context(), "finish", "", args...))(t)
	require.Equal(t, []any{"5", "5", "5", "5", "5"}, reply)
	e.Clock.Advance(time.Second)
	require.Equal(t, []string{"first", "m", "z", "a", "new", "low"}, jids(e.Pops("q", 10)))
}

// A backlog fills queues, changes the config of a worker, and returns the number of jobs.
type backlog func(e *env, config *qless.WorkerConfig) (jobs int)

var backlogs = map[string]backlog{
	"one queue": func(e *env, _ *qless.WorkerConfig) int { return e.putBacklog("q", 200) },
	"nothing ahead": func(e *env, config *qless.WorkerConfig) int {
		config.Prefetch = -1
		return e.putBacklog("q", 200)
	},
	"round-robin": inOrderOf(qless.OrderRoundRobin),
	"shuffled":    inOrderOf(qless.OrderShuffled),
	"weights": func(e *env, config *qless.WorkerConfig) int {
		config.Queues, config.Weights = []string{"q", "r"}, map[string]int{"q": 3}
		return e.putBacklog("q", 150) + e.putBacklog("r", 50)
	},
	"an ample max-concurrency": func(e *env, _ *qless.WorkerConfig) int {
		e.Set("q-max-concurrency", 1000)
		return e.putBacklog("q", 200)
	},
	"a max-concurrency of 1": func(e *env, _ *qless.WorkerConfig) int {
		e.Set("q-max-concurrency", 1)
		return e.putBacklog("q", 100)
	},
	"a max-rate": func(e *env, _ *qless.WorkerConfig) int {
		e.Set("q-max-rate", "100000/60")
		return e.putBacklog("q", 200)
	},
	"an ample limit": limitedTo(1000),
	"a limit of 1":   limitedTo(1),
	"limits behind other jobs": func(e *env, _ *qless.WorkerConfig) int {
		require.NoError(e.T, e.Client.Limit("l").Set(e.T.Context(), qless.LimitConfig{Concurrency: 1000}))
		return e.putBacklog("q", 20) + e.putBacklog("q", 100, qless.Limits{"l"}) + e.putBacklog("q", 20)
	},
	"many queues beside an idle worker": func(e *env, config *qless.WorkerConfig) int {
		config.Queues = nil
		for i := range 101 {
			config.Queues = append(config.Queues, fmt.Sprint("q", i))
		}
		e.working(qless.WorkerConfig{Queues: []string{"elsewhere"}}, nothing)
		return e.putBacklog("q7", 100)
	},
	"jobs whose lives have ended": func(e *env, _ *qless.WorkerConfig) int {
		for range 10 {
			e.putBacklog("q", 100, qless.StartBy(time.Millisecond))
			e.putBacklog("q", 3)
		}
		return 30
	},
}

func inOrderOf(order qless.Order) backlog {
	return func(e *env, config *qless.WorkerConfig) int {
		config.Queues, config.Order = []string{"q", "r"}, order
		return e.putBacklog("q", 150) + e.putBacklog("r", 50)
	}
}

func limitedTo(most int) backlog {
	return func(e *env, _ *qless.WorkerConfig) int {
		require.NoError(e.T, e.Client.Limit("l").Set(e.T.Context(), qless.LimitConfig{Concurrency: most}))
		return e.putBacklog("q", 100, qless.Limits{"l"})
	}
}

// putBacklog puts jobs, and returns their number.
func (e *env) putBacklog(queue string, jobs int, options ...qless.PutOption) int {
	e.T.Helper()
	specs := slices.Repeat([]qless.JobSpec{{Klass: "K", Options: options}}, jobs)
	must(e.Queue(queue).PutMany(e.T.Context(), specs))(e.T)
	return jobs
}

// With a Linger of an hour, a worker that waits once never gets to the end of the backlog.
func TestABacklogIsNeverMadeToWait(t *testing.T) {
	for name, fill := range backlogs {
		for _, concurrency := range []int{1, 3, 10} {
			t.Run(fmt.Sprint(name, "/", concurrency), func(t *testing.T) {
				e := newLiveEnv(t)
				config := qless.WorkerConfig{
					Queues: []string{"q"}, Concurrency: concurrency, Linger: time.Hour,
				}
				wanted := int64(fill(e, &config))
				var ran atomic.Int64
				end := make(chan bool)
				e.working(config, func(context.Context, *qless.Job) error {
					if ran.Add(1) == wanted {
						close(end)
					}
					return nil
				})
				soon(t, "the last job", end)
			})
		}
	}
}
