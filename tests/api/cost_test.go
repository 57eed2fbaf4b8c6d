package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// The cost of a job to the server is the number of commands that scripts run, so they are all
// counted here, both with the env's clock and with the server's, which takes one more.
var costs = []struct {
	what  string
	exact int // the cost with the server's clock
	limit int // an upper limit of the cost
	set   func(t *testing.T, q *qless.Queue) *qless.Job
	run   func(t *testing.T, q *qless.Queue, job *qless.Job)
}{
	{"a put of a new job", 7, 8, nil, putOne},
	{"an empty pop", 6, 8, nil, popAll(1, 0)},
	{"a pop of one job", 16, 18, putSome(1), popAll(1, 1)},
	{"a pop of eleven jobs", 18 + 10*5, 18 + 10*7, putSome(11), popAll(11, 11)},
	{"a heartbeat", 7, 7, popOne, func(t *testing.T, _ *qless.Queue, job *qless.Job) {
		require.NoError(t, errOf(job.Heartbeat(t.Context())))
	}},
	{"a complete", 14, 16, popOne, func(t *testing.T, _ *qless.Queue, job *qless.Job) {
		require.NoError(t, job.Complete(t.Context()))
	}},
}

func putOne(t *testing.T, q *qless.Queue, _ *qless.Job) {
	require.NoError(t, errOf(q.Put(t.Context(), "K", nil)))
}

func putSome(count int) func(t *testing.T, q *qless.Queue) *qless.Job {
	return func(t *testing.T, q *qless.Queue) *qless.Job {
		for i := range count { // one random jid in sixteen would cost two more commands
			_, err := q.Put(t.Context(), "K", nil, qless.JID(fmt.Sprint(q.Name(), i, "j")))
			require.NoError(t, err)
		}
		return nil
	}
}

func popAll(count, want int) func(t *testing.T, q *qless.Queue, _ *qless.Job) {
	return func(t *testing.T, q *qless.Queue, _ *qless.Job) {
		require.Len(t, must(q.Pop(t.Context(), count))(t), want)
	}
}

func popOne(t *testing.T, q *qless.Queue) *qless.Job {
	putOne(t, q, nil)
	return must(q.Pop(t.Context(), 1))(t)[0]
}

func TestCommandsThatAnOperationCostsTheServer(t *testing.T) {
	for _, c := range costs {
		t.Run(c.what, func(t *testing.T) {
			require.LessOrEqual(t, c.exact, c.limit)
			e := newEnv(t)
			for queue, client := range map[string]*qless.Client{"q": e.Client, "real": e.NewLiveClient(e.Redis, qless.ClientConfig{})} {
				q := client.Queue(queue)
				require.NoError(t, popOne(t, q).Complete(t.Context())) // the queue and the day are not new
				var job *qless.Job
				if c.set != nil {
					job = c.set(t, q)
				}
				want := c.exact
				if client == e.Client {
					want--
				}
				commands := e.Server.Commands(t, func() { c.run(t, q, job) })
				require.Len(t, commands, want, "%v", commands)
			}
		})
	}
}

// These are the costs of options in docs/extensions.md: the commands beyond those of a plain job.
func TestCommandsThatAnOptionCosts(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("first"))
	require.NoError(t, e.Pop("q").Complete(t.Context())) // the queue and the day are not new
	type cost struct{ put, pop, heartbeat, complete int }
	costOf := func(jid string, options ...qless.PutOption) cost {
		count := func(run func()) int { return len(e.Server.Commands(t, run)) }
		var job *qless.Job
		return cost{
			count(func() { e.Put("q", append(options, qless.JID(jid))...) }),
			count(func() { job = e.Pop("q") }),
			count(func() { require.NoError(t, errOf(job.Heartbeat(t.Context()))) }),
			count(func() { require.NoError(t, job.Complete(t.Context())) }),
		}
	}
	plain := costOf("1j")
	for name, c := range map[string]struct {
		option qless.PutOption
		more   cost
	}{
		"At":            {qless.At(noon), cost{}},
		"Fair":          {qless.Fair("a"), cost{put: 4, pop: 2}},
		"Headers":       {qless.Headers{"a": "1"}, cost{}},
		"IfAbsent":      {qless.IfAbsent, cost{}},
		"IfFinished":    {qless.IfFinished, cost{}},
		"IfNotRunning":  {qless.IfNotRunning, cost{}},
		"KeepFailedFor": {qless.KeepFailedFor(time.Hour), cost{put: 1}},
		"KeepFor":       {qless.KeepFor(time.Hour), cost{put: 1, complete: 1}},
		"KeepFor none":  {qless.KeepFor(0), cost{put: 1}},
		"LockTime":      {qless.LockTime(time.Minute), cost{heartbeat: -1}},
		"MaxRunTime":    {qless.MaxRunTime(time.Hour), cost{}},
		"OnLost":        {qless.OnLostInPlace, cost{}},
		"StartBy":       {qless.StartBy(time.Hour), cost{put: 2}},
		"TTL":           {qless.TTL(time.Hour), cost{put: 2}},
		"Unique":        {qless.Unique("k"), cost{put: 3, complete: 2}},
	} {
		got := costOf(name+"j", c.option)
		require.Equal(t, c.more, cost{got.put - plain.put, got.pop - plain.pop,
			got.heartbeat - plain.heartbeat, got.complete - plain.complete}, name)
	}
	e.Put("q", qless.JID("there"))
	require.Len(t, e.Server.Commands(t, func() {
		requireCode(t, qless.ErrExists, errOf(e.Queue("q").Put(t.Context(), "K", nil, qless.JID("there"), qless.IfAbsent)))
	}), 6, "EXISTS for all keys, idle workers, tracked jobs, empty queues and the job; its state")
}

// These are the costs of workers with many queues in BENCHMARKS.md.
func TestCommandsThatAWakeUpCostsForEachQueue(t *testing.T) {
	e := newEnv(t)
	reserve := func(queues int) int {
		args := []any{"w1", "1", "10", "0"}
		for i := range queues {
			args = append(args, fmt.Sprint("q", i))
		}
		return len(e.Server.Commands(t, func() {
			require.NoError(t, errOf(e.Run(t.Context(), "reserve", "", args...)))
		}))
	}
	for _, queues := range []int{1, 10, 110, 1000} {
		reserve(queues) // the first call with a list of queues enters the worker in each
	}
	few, some, many := reserve(10), reserve(110), reserve(1000)
	require.LessOrEqual(t, few, 40)
	require.LessOrEqual(t, some, 20)
	require.LessOrEqual(t, many, 20, "BENCHMARKS.md says 20")
}
