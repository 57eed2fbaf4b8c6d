package worker

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// A backlogCase is a way to have a backlog of jobs, which fills queues and changes the worker.
type backlogCase struct {
	name string
	fill func(e *env, config *qless.WorkerConfig) (jobs int)
}

var backlogCases = []backlogCase{
	{"one queue", func(e *env, _ *qless.WorkerConfig) int { return e.putBacklog("q", 200) }},
	{"nothing ahead", func(e *env, config *qless.WorkerConfig) int {
		config.Prefetch = -1
		return e.putBacklog("q", 200)
	}},
	{"round-robin", inOrderOf(qless.OrderRoundRobin)},
	{"shuffled", inOrderOf(qless.OrderShuffled)},
	{"weights", func(e *env, config *qless.WorkerConfig) int {
		config.Queues, config.Weights = []string{"q", "r"}, map[string]int{"q": 3}
		return e.putBacklog("q", 150) + e.putBacklog("r", 50)
	}},
	{"an ample max-concurrency", func(e *env, _ *qless.WorkerConfig) int {
		e.Set("q-max-concurrency", 1000)
		return e.putBacklog("q", 200)
	}},
	{"a max-concurrency of 1", func(e *env, _ *qless.WorkerConfig) int {
		e.Set("q-max-concurrency", 1)
		return e.putBacklog("q", 100)
	}},
	{"a max-rate", func(e *env, _ *qless.WorkerConfig) int {
		e.Set("q-max-rate", "100000/60")
		return e.putBacklog("q", 200)
	}},
	{"an ample limit", limitedTo(1000)},
	{"a limit of 1", limitedTo(1)},
	{"limits behind other jobs", func(e *env, _ *qless.WorkerConfig) int {
		require.NoError(e.T, e.Client.Limit("l").Set(e.T.Context(), qless.LimitConfig{Concurrency: 1000}))
		return e.putBacklog("q", 20) + e.putBacklog("q", 100, qless.Limits{"l"}) + e.putBacklog("q", 20)
	}},
	{"many queues beside an idle worker", func(e *env, config *qless.WorkerConfig) int {
		config.Queues = nil
		for i := range 101 {
			config.Queues = append(config.Queues, fmt.Sprint("q", i))
		}
		e.working(qless.WorkerConfig{Queues: []string{"elsewhere"}}, nothing)
		return e.putBacklog("q7", 100)
	}},
	{"jobs whose lives have ended", func(e *env, _ *qless.WorkerConfig) int {
		for range 10 {
			e.putBacklog("q", 100, qless.StartBy(time.Millisecond))
			e.putBacklog("q", 3)
		}
		return 30
	}},
}

func inOrderOf(order qless.Order) func(*env, *qless.WorkerConfig) int {
	return func(e *env, config *qless.WorkerConfig) int {
		config.Queues, config.Order = []string{"q", "r"}, order
		return e.putBacklog("q", 150) + e.putBacklog("r", 50)
	}
}

func limitedTo(most int) func(*env, *qless.WorkerConfig) int {
	return func(e *env, _ *qless.WorkerConfig) int {
		require.NoError(e.T, e.Client.Limit("l").Set(e.T.Context(), qless.LimitConfig{Concurrency: most}))
		return e.putBacklog("q", 100, qless.Limits{"l"})
	}
}

// putBacklog puts jobs, and returns their number.
func (e *env) putBacklog(queue string, jobs int, options ...qless.PutOption) int {
	e.T.Helper()
	specs := make([]qless.JobSpec, jobs)
	for i := range specs {
		specs[i] = qless.JobSpec{Klass: "K", Options: options}
	}
	_, err := e.Queue(queue).PutMany(e.T.Context(), specs)
	require.NoError(e.T, err)
	return jobs
}

// With a Linger of an hour, a worker that waits once never gets to the end of the backlog.
func TestABacklogIsNeverMadeToWait(t *testing.T) {
	for _, c := range backlogCases {
		for _, concurrency := range []int{1, 3, 10} {
			t.Run(fmt.Sprint(c.name, "/", concurrency), func(t *testing.T) {
				e := newLiveEnv(t)
				config := qless.WorkerConfig{
					Queues: []string{"q"}, Concurrency: concurrency, Linger: time.Hour,
				}
				wanted := int64(c.fill(e, &config))
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
