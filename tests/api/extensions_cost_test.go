package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/tests/repairs"
)

// These are the costs in the first table of docs/extensions.md that the tests of an option don't
// check. No jid ends in 0, because one jid in sixteen costs two more commands to pop.

func TestCommandsThatAPolicyCosts(t *testing.T) {
	e := newEnv(t)
	put := func(jid string, options ...qless.PutOption) int {
		return len(e.Server.Commands(t, func() { e.Put("q", append(options, qless.JID(jid))...) }))
	}
	put("first")
	for n := 1; n <= 3; n++ {
		var others []string
		for i := range n {
			others = append(others, fmt.Sprint(n, i, "j"))
			put(others[i])
		}
		plain := put(fmt.Sprint("plain", n), qless.DependsOn(others))
		first := put(fmt.Sprint("first", n), qless.DependsOn(others), qless.OnFailureRun)
		second := put(fmt.Sprint("second", n), qless.DependsOn(others), qless.OnFailureRun)
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
		job := e.Pop(queue)
		return len(e.Server.Commands(t, func() { require.NoError(t, job.Fail(t.Context(), "g", "m")) }))
	}
	for policy, each := range map[qless.OnFailure]int{qless.OnFailureRun: 12, qless.OnFailureFail: 19} {
		cost(policy, 1) // the group and the statistics are not new
		require.Equal(t, each, cost(policy, 9)-cost(policy, 8), policy)
	}
}

func TestCommandsThatKeepingFewFailedJobsCosts(t *testing.T) {
	e := newEnv(t)
	fail := func(jid string, options ...qless.PutOption) int {
		e.Put("q", append(options, qless.JID(jid))...)
		job := e.Pop("q")
		return len(e.Server.Commands(t, func() { require.NoError(t, job.Fail(t.Context(), "g", "m")) }))
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
	count := func(run func()) int { return len(e.Server.Commands(t, run)) }
	for _, jid := range []string{"first", "failed", "plain", "wait", "plainf", "waitf"} {
		e.Put("q", qless.JID(jid))
	}
	await := func(jid string) int { return count(func() { e.run("await", jid) }) }
	require.Equal(t, 3, await("wait"))
	require.Equal(t, 2, await("wait"), "it is marked")
	await("waitf")
	jobs := e.Pops("q", 6)
	complete := func(job *qless.Job) int {
		return count(func() { require.NoError(t, job.Complete(t.Context())) })
	}
	fail := func(job *qless.Job) int {
		return count(func() { require.NoError(t, job.Fail(t.Context(), "g", "m")) })
	}
	complete(jobs[0])
	fail(jobs[1])
	require.Equal(t, complete(jobs[2])+2, complete(jobs[3]))
	require.Equal(t, fail(jobs[4])+2, fail(jobs[5]))
}

func TestAProgressCostsACommandToRead(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("j"))
	job := e.Pop("q")
	read := func() int { return len(e.Server.Commands(t, func() { e.Read("j") })) }
	before := read()
	e.sets(job, 1, 2, "")
	require.Equal(t, before+1, read())
}

func TestAFairPutForgetsAtMostTwoTenants(t *testing.T) {
	e := newEnv(t)
	put := func(jid string, options ...qless.PutOption) int {
		return len(e.Server.Commands(t, func() { e.Put("q", append(options, qless.JID(jid))...) }))
	}
	put("first")
	plain := put("plain")
	e.Pops("q", 2)
	for i := range 5 {
		put(fmt.Sprint("many", i, "j"), qless.Fair("many"))
	}
	for _, tenant := range []string{"a", "b", "c"} {
		put(tenant, qless.Fair(tenant))
	}
	e.Pops("q", 5) // theirs, and two of many
	var more []int
	for i := range 3 {
		more = append(more, put(fmt.Sprint("more", i, "j"), qless.Fair("many"))-plain)
	}
	require.Equal(t, []int{5, 5, 4}, more)
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
		jobs := e.Pops("q", 17)
		require.NoError(t, jobs[0].Complete(t.Context())) // the queue and the day are not new
		return len(e.Server.Commands(t, func() { e.run("finish", args...) }))
	}
	require.InDelta(t, 1, float64(finish("0", qless.KeepFor(0))-finish("plain"))/16, 0.5)
}

func TestCommandsThatReceivingAndEndingCost(t *testing.T) {
	e := newEnv(t)
	count := func(run func()) int { return len(e.Server.Commands(t, run)) }
	for i := range 20 {
		e.Put("q", qless.JID(fmt.Sprint("j", i, "x")))
	}
	reserve := func(pairs ...any) int {
		return count(func() { e.run("reserve", append(append([]any{"w1", "1", "10", len(pairs)}, pairs...), "q")...) })
	}
	reserve()
	require.Equal(t, reserve(), reserve("owner", "w1"))
	require.Equal(t, reserve(), reserve("owner", "w1", "lock", "60"))

	end := func(jid string, end repairs.Ending) int {
		return count(func() { require.NoError(t, errOf(repairs.End(t.Context(), e.Client, jid, end))) })
	}
	end("j8x", repairs.Ending{})
	job := e.Pop("q")
	plain := count(func() { require.NoError(t, job.Complete(t.Context())) })
	other := e.Pop("q")
	require.Equal(t, plain+4, end(other.JID, repairs.Ending{}), "two of them notify the worker")
	require.Equal(t, plain+4+3, end(e.Pop("q").JID, repairs.Ending{TryAgain: 1}))
	failing := e.Pop("q")
	require.NoError(t, failing.Fail(t.Context(), "g", "m"))
	failing = e.Pop("q")
	failed := count(func() { require.NoError(t, failing.Fail(t.Context(), "g", "m")) })
	require.Equal(t, failed+4, end(e.Pop("q").JID, repairs.Ending{State: qless.StateFailed, Group: "g"}))

	forget := func(jid string) int {
		return count(func() { require.NoError(t, repairs.Forget(t.Context(), e.Client, jid)) })
	}
	require.Equal(t, 5, forget(other.JID))
	require.Equal(t, 11, forget(failing.JID))
	before := count(func() { e.swept() })
	require.Equal(t, before+6, count(func() { e.swept("q", "p") }))
}

// A limit costs a call that takes or ends jobs as much for two jobs as for nine, except that nine
// slots at once must not become a list, which Redis changes slowly.
func TestCommandsThatALimitCosts(t *testing.T) {
	for name, c := range map[string]struct {
		config              qless.LimitConfig
		take, takeMany, end int
	}{
		"concurrency": {qless.LimitConfig{Concurrency: 100}, 3, 4, 2},
		"rate":        {qless.LimitConfig{Rate: 100, Per: time.Hour}, 6, 6, 1},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.limit("api", c.config)
			e.Set("jobs-history-count", "50000") // otherwise one finish in ten looks for old jobs
			count := func(run func()) int { return len(e.Server.Commands(t, run)) }
			cost := func(queue string, n int, options ...qless.PutOption) (put, take, end int) {
				args := []any{"w1"}
				for i := range n {
					jid := fmt.Sprint(queue, n, "-", i, "j")
					put = count(func() { e.Put(queue, append(options, qless.JID(jid))...) })
					args = append(args, "complete", jid, queue, "", 0)
				}
				take = count(func() { require.Len(t, e.Pops(queue, n), n) })
				end = count(func() { require.NoError(t, errOf(e.Run(t.Context(), "finish", "", args...))) })
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
	pop := func() int { return len(e.Server.Commands(t, func() { require.Len(t, e.Pops("q", 8), 8) })) }
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
		return len(e.Server.Commands(t, func() { require.Empty(t, e.Pops("q", 100)) }))
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
		return len(e.Server.Commands(t, func() { require.NoError(t, jobs[0].Complete(t.Context())) }))
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
		return len(e.Server.Commands(t, func() { require.NoError(t, holders[0].Complete(t.Context())) }))
	}
	complete("first", 1)
	require.Equal(t, 10*6, complete("more", 12)-complete("few", 2))
}
