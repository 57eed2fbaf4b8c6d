package api

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/lease"
	"github.com/qless/qless-go/tests/repairs"
)

// cost returns the number of commands run by the server during a function.
func (e *env) cost(run func()) int {
	e.T.Helper()
	return len(e.Server.Commands(e.T, run))
}

// completeCost and failCost are the costs of ending a job.
func (e *env) completeCost(job *qless.Job) int {
	return e.cost(func() { require.NoError(e.T, job.Complete(e.T.Context())) })
}

func (e *env) failCost(job *qless.Job) int {
	return e.cost(func() { require.NoError(e.T, job.Fail(e.T.Context(), "g", "m")) })
}

// putCost is the cost of a put into the queue q.
func (e *env) putCost(jid string, options ...qless.PutOption) int {
	e.T.Helper()
	return e.cost(func() { e.Put("q", append(options, qless.JID(jid))...) })
}

// These are the costs of options in docs/extensions.md: the commands beyond those of a plain job.
func TestCommandsThatAnOptionCosts(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("first"))
	require.NoError(t, e.Pop("q").Complete(t.Context())) // the queue and the day are not new
	type cost struct{ put, pop, heartbeat, complete int }
	costOf := func(jid string, options ...qless.PutOption) cost {
		var job *qless.Job
		return cost{
			e.cost(func() { e.Put("q", append(options, qless.JID(jid))...) }),
			e.cost(func() { job = e.Pop("q") }),
			e.cost(func() { require.NoError(t, errOf(job.Heartbeat(t.Context()))) }),
			e.completeCost(job),
		}
	}
	plain := costOf("1j")
	require.Equal(t, cost{put: 6, pop: 12, heartbeat: 6, complete: 12}, plain, "the server's clock takes one more")
	usual := map[string]bool{ // a job with others does not take the usual steps
		"At": true, "Headers": true, "IfAbsent": true, "IfFinished": true, "IfNotRunning": true, "MaxRunTime": true,
	}
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
		if !usual[name] {
			c.more.pop, c.more.complete = c.more.pop+5, c.more.complete+2
		}
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
		return e.cost(func() { e.run("reserve", args...) })
	}
	for _, queues := range []int{1, 10, 110, 1000} {
		reserve(queues) // the first call with a list of queues enters the worker in each
	}
	few, some, many := reserve(10), reserve(110), reserve(1000)
	require.LessOrEqual(t, few, 40)
	require.LessOrEqual(t, some, 20)
	require.LessOrEqual(t, many, 20, "BENCHMARKS.md says 20")
}

// These are the costs in the first table of docs/extensions.md not checked by the tests of an
// option. No jid ends in 0, because one jid in sixteen costs two more commands to pop.

func TestCommandsThatAPolicyCosts(t *testing.T) {
	e := newEnv(t)
	e.putCost("first")
	for n := 1; n <= 3; n++ {
		var others []string
		for i := range n {
			others = append(others, fmt.Sprint(n, i, "j"))
			e.putCost(others[i])
		}
		plain := e.putCost(fmt.Sprint("plain", n), qless.DependsOn(others))
		first := e.putCost(fmt.Sprint("first", n), qless.DependsOn(others), qless.OnFailureRun)
		second := e.putCost(fmt.Sprint("second", n), qless.DependsOn(others), qless.OnFailureRun)
		require.Equal(t, 1+2*n, first-plain)
		require.Equal(t, 1+n, second-plain, "the others know that jobs with a policy wait for them")
	}
}

func TestCommandsThatAFailureCostsForEachJobThatWaits(t *testing.T) {
	e := newEnv(t)
	cost := func(policy qless.OnFailure, waiting int) int {
		queue := fmt.Sprint(policy, waiting)
		jid := e.Put(queue, qless.JID(queue+"j"))
		for i := range waiting {
			e.Put("others", qless.JID(fmt.Sprint(queue, i, "x")), qless.DependsOn{jid}, policy)
		}
		return e.failCost(e.Pop(queue))
	}
	for policy, each := range map[qless.OnFailure]int{qless.OnFailureRun: 12, qless.OnFailureFail: 19} {
		cost(policy, 1) // the group and the statistics are not new
		require.Equal(t, each, cost(policy, 9)-cost(policy, 8), policy)
	}
}

func TestCommandsThatKeepingFewFailedJobsCosts(t *testing.T) {
	e := newEnv(t)
	fail := func(jid string, options ...qless.PutOption) int {
		job := e.start("q", append(options, qless.JID(jid))...)
		return e.failCost(job)
	}
	fail("first")
	plain := fail("plain")
	require.Equal(t, plain+1, fail("keep", qless.KeepFailedFor(time.Hour)))
	require.Equal(t, plain+7, fail("none", qless.KeepFailedFor(0)))

	e.Set("jobs-failed-history-count", 5)
	require.Equal(t, plain+3, fail("count"))
	e.Set("jobs-failed-history", 3600)
	require.Equal(t, plain+5, fail("both"))
	require.Equal(t, plain+5+8, fail("sixth"), "one is deleted")
	require.NoError(t, e.Config().Unset(t.Context(), "jobs-failed-history-count"))
	require.Equal(t, plain+4, fail("history"))
}

func TestCommandsThatWaitingCosts(t *testing.T) {
	e := newEnv(t)
	for _, jid := range []string{"first", "failed", "plain", "wait", "plainf", "waitf"} {
		e.Put("q", qless.JID(jid))
	}
	await := func(jid string) int { return e.cost(func() { e.run("await", jid) }) }
	require.Equal(t, 3, await("wait"))
	require.Equal(t, 2, await("wait"), "it is marked")
	await("waitf")
	jobs := e.Pops("q", 6)
	e.completeCost(jobs[0])
	e.failCost(jobs[1])
	usual := e.completeCost(jobs[2])
	require.Equal(t, usual+2+2, e.completeCost(jobs[3]), "it does not take the usual steps")
	require.Equal(t, e.failCost(jobs[4])+2, e.failCost(jobs[5]))
}

func TestAJobThatIsForgottenCostsAWorkerOneCommand(t *testing.T) {
	e := newEnv(t)
	finish := func(prefix string, options ...qless.PutOption) int {
		args := []any{"w1"}
		for i := range 17 {
			jid := fmt.Sprint(prefix, i, "j")
			e.Put("q", append(options, qless.JID(jid))...)
			if i > 0 {
				args = append(args, "complete", jid, "q", "", 0)
			}
		}
		require.NoError(t, e.Pops("q", 17)[0].Complete(t.Context())) // the queue and the day are not new
		return e.cost(func() { e.run("finish", args...) })
	}
	require.InDelta(t, 1, float64(finish("0", qless.KeepFor(0))-finish("plain"))/16, 0.5)
}

func TestCommandsThatReceivingAndEndingCost(t *testing.T) {
	e := newEnv(t)
	for i := range 20 {
		e.Put("q", qless.JID(fmt.Sprint("j", i, "x")))
	}
	reserve := func(pairs ...any) int {
		args := append([]any{"w1", "1", "10", len(pairs)}, pairs...)
		return e.cost(func() { e.run("reserve", append(args, "q")...) })
	}
	reserve()
	require.Equal(t, reserve(), reserve("owner", "w1"))
	require.Equal(t, reserve(), reserve("owner", "w1", "lock", "60"))

	end := func(jid string, end repairs.Ending) int { return e.cost(func() { e.end(jid, end) }) }
	end("j8x", repairs.Ending{})
	job := e.Pop("q")
	plain := 1 + e.completeCost(job) // the usual steps
	other := e.Pop("q")
	require.Equal(t, plain+4, end(other.JID, repairs.Ending{}), "two of them notify the worker")
	require.Equal(t, plain+4+3, end(e.Pop("q").JID, repairs.Ending{TryAgain: 1}))
	failing := e.Pop("q")
	require.NoError(t, failing.Fail(t.Context(), "g", "m"))
	failing = e.Pop("q")
	failed := e.failCost(failing)
	require.Equal(t, failed+4, end(e.Pop("q").JID, repairs.Ending{State: qless.StateFailed, Group: "g"}))

	forget := func(jid string) int {
		return e.cost(func() { require.NoError(t, repairs.Forget(t.Context(), e.Client, jid)) })
	}
	require.Equal(t, 5, forget(other.JID))
	require.Equal(t, 11, forget(failing.JID))
	before := e.cost(func() { e.sweep() })
	require.Equal(t, before+6, e.cost(func() { e.sweep("q", "p") }))
}

// A limit costs a call that takes or ends jobs as much for two jobs as for nine, but nine slots at
// once must not become a list, which Redis changes slowly.
func TestCommandsThatALimitCosts(t *testing.T) {
	for name, c := range map[string]struct {
		config              qless.LimitConfig
		take, takeMany, end int
	}{
		"concurrency": {qless.LimitConfig{Concurrency: 100}, 3, 4, 2},
		"rate":        {qless.LimitConfig{Rate: 100, Per: time.Hour}, 6, 6, 1},
	} {
		runEnv(t, name, func(t *testing.T, e *env) {
			e.limit("api", c.config)
			e.Set("jobs-history-count", "50000") // otherwise one finish in ten looks for old jobs
			cost := func(queue string, n int, options ...qless.PutOption) (put, take, end int) {
				args := []any{"w1"}
				for i := range n {
					jid := fmt.Sprint(queue, n, "-", i, "j")
					put = e.cost(func() { e.Put(queue, append(options, qless.JID(jid))...) })
					args = append(args, "complete", jid, queue, "", 0)
				}
				take = e.cost(func() { require.Len(t, e.Pops(queue, n), n) })
				end = e.cost(func() { e.run("finish", args...) })
				return put, take, end
			}
			for _, n := range []int{1, 8} {
				cost("limited", n, qless.Limits{"api"})
				cost("plain", n)
			}
			for n, more := range map[int]int{2: c.take, 9: c.takeMany} {
				put, take, end := cost("plain", n)
				limitedPut, limitedTake, limitedEnd := cost("limited", n, qless.Limits{"api"})
				require.Equal(t, put, limitedPut)
				require.Equal(t, take+more, limitedTake, n)
				require.Equal(t, end+c.end, limitedEnd, n)
			}
		})
	}
}

func TestCommandsThatAMaxRateCosts(t *testing.T) {
	e := newEnv(t)
	for range 20 {
		e.Put("q")
	}
	e.Pops("q", 1)
	pop := func() int { return e.cost(func() { require.Len(t, e.Pops("q", 8), 8) }) }
	plain := pop()
	require.NoError(t, e.Queue("q").SetMaxRate(t.Context(), 100, time.Hour))
	require.Equal(t, plain+4, pop())
}

func TestCommandsThatParkingCosts(t *testing.T) {
	e := newEnv(t)
	e.slots("api", 1)
	e.putLimited("q", "first", "api")
	e.Pops("q", 1)
	park := func(n int) int {
		for i := range n {
			e.putLimited("q", fmt.Sprint(n, "-", i, "j"), "api")
		}
		return e.cost(func() { require.Empty(t, e.Pops("q", 100)) })
	}
	park(1)
	require.Equal(t, 6, park(11)-park(10))
}

func TestCommandsThatTheReturnOfAParkedJobCosts(t *testing.T) {
	e := newEnv(t)
	complete := func(limit string, parked int) int {
		e.slots(limit, 1)
		for i := range 1 + parked {
			e.putLimited(limit, fmt.Sprint(limit, i, "j"), limit)
		}
		jobs := e.Pops(limit, 10)
		require.Len(t, jobs, 1)
		return e.completeCost(jobs[0])
	}
	complete("first", 0)
	require.Equal(t, 15, complete("one", 1)-complete("none", 0))
	require.Equal(t, 15+9, complete("two", 2)-complete("nobody", 0), "the next one falls due in time")
}

// Each parked job of a full queue is passed over, and the queue is asked about once.
func TestCommandsThatParkedJobsOfAFullQueueCost(t *testing.T) {
	e := newEnv(t)
	complete := func(limit string, parked int) int {
		e.slots(limit, 1)
		e.putLimited(limit, limit+"-holder", limit)
		holders := e.Pops(limit, 1)
		require.Len(t, holders, 1)
		full := limit + "-full"
		for i := range parked {
			e.putLimited(full, fmt.Sprint(limit, i, "j"), limit)
		}
		require.Empty(t, e.Pops(full, parked))
		e.Put(full)
		require.Len(t, e.Pops(full, 1), 1)
		e.Set(full+"-max-concurrency", 1)
		return e.completeCost(holders[0])
	}
	complete("first", 1)
	require.Equal(t, 10*6, complete("more", 12)-complete("few", 2))
}

// These are the costs in the table of docs/inspecting.md.
func TestCommandsThatLookingCosts(t *testing.T) {
	e := newEnv(t)
	const jobs = 20
	for i := range jobs {
		e.fail("q", "g", qless.JID(fmt.Sprint("f", i, "j")))
		e.Put("q", qless.JID(fmt.Sprint("w", i, "j")))
	}
	ctx := t.Context()
	for name, c := range map[string]struct {
		want int
		run  func() error
	}{
		"list": {2 + 2*jobs, func() error {
			return errOf(e.inspect().Queue("q", inspect.Waiting).List(ctx, inspect.Range{}))
		}},
		"list with data": {2 + 4*jobs, func() error {
			return errOf(e.inspect().Queue("q", inspect.Waiting).WithData(5).List(ctx, inspect.Range{}))
		}},
		"list of failed ones": {2 + 2*jobs, func() error { return errOf(e.inspect().Failed("g").List(ctx, inspect.Range{})) }},
		"find nothing": {2 + jobs, func() error {
			return errOf(e.inspect().Queue("q", inspect.Waiting).Where(inspect.Filter{Klass: "L"}).Find(ctx, ""))
		}},
		"find all": {2 + 3*jobs, func() error {
			return errOf(e.inspect().Queue("q", inspect.Waiting).Where(inspect.Filter{Klass: "K"}).Find(ctx, ""))
		}},
		"latency":  {3 + 4, func() error { return errOf(e.inspect().Latency(ctx, "q")) }},
		"failures": {2 + jobs, func() error { return errOf(e.inspect().Failures(ctx, "g", 0)) }},
	} {
		var err error
		// The script's own EVALSHA is counted, too.
		require.InDelta(t, c.want, e.cost(func() { err = c.run() }), 1, name)
		require.NoError(t, err)
	}
}

func TestCommandsThatRepairingCosts(t *testing.T) {
	e := newEnv(t)
	cost := func(count int, run func() (inspect.Repair, error)) int {
		t.Helper()
		for i := range count {
			e.fail("q", "g", qless.JID(fmt.Sprint("f", i, "j")))
		}
		var r inspect.Repair
		var err error
		commands := e.cost(func() { r, err = run() })
		require.NoError(t, err)
		require.Equal(t, count, r.Changed)
		require.NoError(t, errOf(e.inspect().Queue("q", inspect.Waiting).Cancel(t.Context())))
		e.Clock.Advance(time.Second)
		return commands
	}
	for name, c := range map[string]struct {
		each int
		run  func() (inspect.Repair, error)
	}{
		"unfail": {9, func() (inspect.Repair, error) { return e.inspect().Failed("g").Unfail(t.Context()) }},
		"cancel": {17, func() (inspect.Repair, error) { return e.inspect().Failed("g").Cancel(t.Context()) }},
	} {
		cost(1, c.run)
		got := cost(9, c.run) - cost(8, c.run)
		require.LessOrEqual(t, got, c.each, name)
		require.Greater(t, got, c.each-4, name)
	}
}

// The allocations of the client, with those of go-redis, do not depend on the load of the machine,
// so a higher count means more work.
func TestCallsAllocateLittle(t *testing.T) {
	client := must(qless.New(testkit.Start(t).Client(t), nil))(t)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	data := map[string]int{"user": 1234}
	q := client.Queue("q")
	put := func(q *qless.Queue) { assert.NoError(t, errOf(q.Put(t.Context(), "K", data))) }
	assert.LessOrEqual(t, testing.AllocsPerRun(200, func() { put(q) }), 25.0, "Put")

	jobs := make([]qless.JobSpec, 100)
	for i := range jobs {
		jobs[i] = qless.JobSpec{Klass: "K", Data: data}
	}
	perCall := testing.AllocsPerRun(20, func() { assert.NoError(t, errOf(q.PutMany(t.Context(), jobs))) })
	assert.LessOrEqual(t, perCall, 15.5*float64(len(jobs)), "PutMany of %d jobs", len(jobs))

	taken := client.Queue("taken")
	taker := lease.New(client)
	take := lease.Request{Queues: []string{"taken"}, NoWait: true}
	perTake := testing.AllocsPerRun(200, func() {
		put(taken)
		jobs, err := taker.Take(t.Context(), take)
		if err != nil || len(jobs) != 1 {
			t.Error(len(jobs), err)
			return
		}
		assert.NoError(t, errors.Join(taker.Complete(t.Context(), "taken", jobs[0].JID)...))
	})
	assert.LessOrEqual(t, perTake, 78.0, "a put, a Take and its completion")

	// A worker idle until woken by the put.
	w := must(qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"idle"}}))(t)
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
	assert.LessOrEqual(t, perJob, 104.0, "one job at a time, from the put to the outcome")
}
