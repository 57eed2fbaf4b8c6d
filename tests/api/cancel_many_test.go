package api

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/lease"
	"github.com/qless/qless-go/tests/repairs"
)

// These tests cancel several jobs by Client.Cancel, which proceeds in steps.

// canceledAtOnce is the number of jobs that a script cancels. cancelCost is the number of its
// commands, for jobs that have not failed and do not depend on others, including the check of each
// of 500 jobs.
const (
	canceledAtOnce = 100
	cancelCost     = canceledAtOnce*15 + 500 + 20
)

// putAll puts jobs, and returns their jids.
func (e *env) putAll(count int, options ...qless.PutOption) []string {
	e.T.Helper()
	specs := specs(count, options...)
	var all []string
	for part := range slices.Chunk(specs, 1000) {
		all = append(all, e.puts("q", part...)...)
	}
	return all
}

// putChain puts jobs that each wait for the one before.
func (e *env) putChain(count int) []string {
	e.T.Helper()
	specs := make([]qless.JobSpec, count)
	for i := range specs {
		specs[i] = qless.NewKlass[any]("K").Spec(nil, qless.JID(fmt.Sprintf("link%04d", i)))
		if i > 0 {
			specs[i].Options = append(specs[i].Options, qless.DependsOn{fmt.Sprintf("link%04d", i-1)})
		}
	}
	return e.puts("q", specs...)
}

func TestACancelOfHundredsGoesInSteps(t *testing.T) {
	for _, count := range []int{2, 99, 100, 101, 500} {
		runEnv(t, fmt.Sprint(count), func(t *testing.T, e *env) {
			all := e.putAll(count)
			e.requireShort(cancelCost, func() { require.NoError(t, e.Cancel(t.Context(), all...)) })
			require.Equal(t, qless.QueueCounts{Name: "q"}, e.Counts("q"))
			require.Empty(t, e.Redis.Keys(t.Context(), "ql:j:*").Val())
		})
	}
}

func TestACancelOfTooManyChangesNothing(t *testing.T) {
	e := newEnv(t)
	all := e.putAll(501)
	before := e.Dump()
	err := e.Cancel(t.Context(), all...)
	requireCode(t, qless.ErrInvalid, err)
	require.ErrorContains(t, err, "501 jobs are more than 500")
	require.Equal(t, before, e.Dump())
	twice := slices.Concat(all[:500], all[:500])
	require.NoError(t, e.Cancel(t.Context(), twice...), "each is counted once")
	require.Equal(t, 1, e.Counts("q").Waiting)
}

// All jobs are checked before the first step.
func TestACancelOfHundredsIsRefusedAsAWhole(t *testing.T) {
	e := newEnv(t)
	all := e.putAll(400)
	outside := e.Put("q", qless.DependsOn{all[399]})
	before := e.Dump()
	err := e.Cancel(t.Context(), all...)
	requireCode(t, qless.ErrHasDependents, err)
	require.EqualError(t, err, fmt.Sprintf(
		"qless: cancel: %s is a dependency of %s but is not mentioned to be canceled", all[399], outside))
	require.Equal(t, before, e.Dump())
	require.NoError(t, e.Cancel(t.Context(), append(all, outside)...))
	require.Zero(t, e.Counts("q").Waiting)
}

func TestACancelOfHundredsIgnoresWhatIsGoneOrComplete(t *testing.T) {
	e := newEnv(t)
	all := e.putAll(300)
	job := e.Pop("q")
	require.NoError(t, job.Complete(t.Context()))
	require.NoError(t, e.Cancel(t.Context(), append([]string{"unknown", "unknown too"}, all...)...))
	require.Equal(t, qless.StateComplete, e.Read(job.JID).State)
	require.Zero(t, e.Counts("q").Waiting)
}

// Checking all dependencies would take too long. Dependents can be canceled first.
func TestACancelOfJobsWithVeryManyDependencies(t *testing.T) {
	e := newEnv(t)
	var all []string
	for i := range 201 {
		options := []qless.PutOption{qless.JID(fmt.Sprint("j", i))}
		if i > 0 {
			options = append(options, qless.DependsOn(all))
		}
		all = append(all, e.Put("q", options...))
	}
	before := e.Dump()
	err := e.Cancel(t.Context(), all...)
	requireCode(t, qless.ErrInvalid, err)
	require.EqualError(t, err, "qless: cancel: The jobs have more than 20000 dependents")
	require.Equal(t, before, e.Dump())
	require.NoError(t, e.Cancel(t.Context(), all[150:]...))
	require.NoError(t, e.Cancel(t.Context(), all...))
	require.Equal(t, qless.QueueCounts{Name: "q"}, e.Counts("q"))
}

// Whatever the order of the jids, no job ever waits for one that is gone.
func TestACancelThatBreaksLeavesNoJobWaitingForNothing(t *testing.T) {
	for what, arrange := range map[string]func(all []string){
		"the first comes first": func([]string) {},
		"the last comes first":  slices.Reverse[[]string],
		"mixed": func(all []string) {
			slices.SortFunc(all, func(a, b string) int { return int(a[7]) - int(b[7]) })
		},
	} {
		runEnv(t, what, func(t *testing.T, e *env) {
			all := e.putChain(400)
			given := slices.Clone(all)
			arrange(given)
			ctx, client := e.cutAfter("")
			requireCode(t, qless.ErrUnavailable, client.Cancel(ctx, given...))
			left := must(e.Jobs(t.Context(), all...))(t)
			require.Equal(t, all[:300], jids(left), "the last ones are gone")
			require.NoError(t, e.Cancel(t.Context(), given...))
			require.Equal(t, qless.QueueCounts{Name: "q"}, e.Counts("q"))
			require.Empty(t, e.Redis.Keys(t.Context(), "ql:j:*").Val())
		})
	}
}

// Jobs that wait for each other can't be ordered, but are canceled anyway.
func TestJobsThatWaitForEachOtherAreCanceled(t *testing.T) {
	e := newEnv(t)
	all := e.putChain(300)
	first := e.Put("other", qless.JID("first"))
	require.NoError(t, e.Read(all[1]).Depend(t.Context(), first))
	require.NoError(t, e.Redis.SAdd(t.Context(), "ql:j:"+all[0]+"-dependencies", all[299]).Err())
	require.NoError(t, e.Redis.SAdd(t.Context(), "ql:j:"+all[299]+"-dependents", all[0]).Err())
	require.NoError(t, e.Cancel(t.Context(), all...))
	require.Equal(t, qless.QueueCounts{Name: "q"}, e.Counts("q"))
	require.Empty(t, e.Read(first).Dependents)
}

// A job that is put between two steps, and depends on one not canceled yet, keeps that one.
func TestAJobThatComesWhileOthersAreCanceled(t *testing.T) {
	e := newEnv(t)
	all := e.putAll(400)
	calls, late := 0, ""
	client := e.observing(func(call qless.Command) {
		if calls++; calls > 1 {
			return
		}
		require.Equal(t, qless.Command{Name: "cancel.all", Count: 100},
			qless.Command{Name: call.Name, Count: call.Count})
		left := must(e.Jobs(t.Context(), all...))(t)
		require.Len(t, left, 300)
		late = e.Put("q", qless.DependsOn{left[7].JID})
	})
	err := client.Cancel(t.Context(), all...)
	requireCode(t, qless.ErrHasDependents, err)
	require.ErrorContains(t, err, late)
	require.Equal(t, 300, e.Counts("q").Waiting)
}

// None of the jobs of a large batch runs, whatever happens between the steps of its cancel.
func TestABatchOfThousandsIsCanceledInSteps(t *testing.T) {
	e := newEnv(t)
	batch := must(e.NewBatch(t.Context(), "q", qless.JobSpec{Klass: "K"}))(t)
	const thousands = 5
	for range thousands {
		require.NoError(t, errOf(batch.Add(t.Context(), "q", specs(1000))))
	}
	require.NoError(t, batch.Commit(t.Context()))
	e.Unchanged(func() { require.NoError(t, batch.Commit(t.Context()), "again") })
	require.Equal(t, thousands*1000, e.status(batch).Pending)
	e.requirePages(batch, thousands*1000)
	for _, err := range batch.Pending(t.Context()) {
		require.NoError(t, err)
		break // ends the iteration
	}
	calls := 0
	client := e.observing(func(call qless.Command) {
		if call.Name == "cancel.all" {
			calls++
			job, err := e.Job(t.Context(), batch.ID)
			if calls <= thousands { // that many members each
				require.NoError(t, err)
				require.Equal(t, qless.StateDepends, job.State)
				require.Contains(t, job.Dependencies, "x:open")
			} else {
				require.ErrorIs(t, err, qless.ErrNotFound, "it is the first to go")
			}
		}
	})
	e.requireShort(1000+2*cancelCost, func() {
		require.NoError(t, client.Batch(batch.ID).Cancel(t.Context()))
	})
	require.Greater(t, calls, thousands*1000/canceledAtOnce)
	require.Equal(t, qless.QueueCounts{Name: "q"}, e.Counts("q"))
	require.Empty(t, e.Redis.Keys(t.Context(), "ql:j:*").Val())
}

// requirePages requires that all members of a batch are found in pages.
func (e *env) requirePages(batch *qless.Batch, members int) {
	e.T.Helper()
	for _, script := range e.scriptsOf(func() {
		require.Len(e.T, slices.Compact(must(pending(e.T.Context(), batch))(e.T)), members)
	}) {
		require.LessOrEqual(e.T, membersRead(e.T, script, members), 4000)
	}
}

// singleCancelers are the ways to cancel a single job that waits for others in Go.
var singleCancelers = map[string]func(ctx context.Context, client *qless.Client, jid string) error{
	"cancel": func(ctx context.Context, client *qless.Client, jid string) error {
		return client.Cancel(ctx, jid)
	},
	"withdraw": func(ctx context.Context, client *qless.Client, jid string) error {
		return lease.New(client).Withdraw(ctx, jid)
	},
}

func TestAJobThatWaitsForManyIsCanceledInSteps(t *testing.T) {
	for what, cancel := range singleCancelers {
		runEnv(t, what, func(t *testing.T, e *env) {
			job := e.dependOnMany()
			e.Put("q", qless.JID("dependent"), qless.DependsOn{job.JID})
			before := e.Dump()
			refused := requireCode(t, qless.ErrHasDependents, cancel(t.Context(), e.Client, job.JID))
			require.Equal(t, job.JID, refused.JID)
			require.Equal(t, before, e.Dump())
			require.NoError(t, e.Cancel(t.Context(), "dependent"))

			scripts := e.scriptsOf(func() { require.NoError(t, cancel(t.Context(), e.Client, job.JID)) })
			require.Greater(t, len(scripts), manyDependencies/1000)
			for _, script := range scripts {
				require.LessOrEqual(t, len(script), 1000+30)
				require.LessOrEqual(t, membersRead(t, script, manyDependencies), 1000+20)
			}
			require.Empty(t, e.Redis.Keys(t.Context(), "ql:j:*-depend*").Val())
			require.Equal(t, qless.QueueCounts{Name: "q"}, e.Counts("q"))
			requireCode(t, qless.ErrNotFound, errOf(e.Job(t.Context(), job.JID)))
		})
	}
}

func TestAJobThatWaitsForManyIsEndedInSteps(t *testing.T) {
	for _, state := range []qless.State{qless.StateComplete, qless.StateFailed} {
		e := newEnv(t)
		job, end := e.dependOnMany(), repairs.Ending{State: state}
		if state == qless.StateFailed {
			end.Group = "g"
		}
		scripts := e.scriptsOf(func() { require.Equal(t, state, e.end(job.JID, end)) })
		require.Greater(t, len(scripts), manyDependencies/1000)
		for _, script := range scripts {
			require.LessOrEqual(t, len(script), 2*1000+40)
			require.LessOrEqual(t, membersRead(t, script, 1000), 1000+20)
		}
		require.Empty(t, e.Redis.Keys(t.Context(), "ql:j:*-depend*").Val())
		require.Equal(t, state, e.Read(job.JID).State)
	}
}

// The job waits for ever, so that it does not run until a caller continues.
func TestACallForAJobThatWaitsForManyBreaks(t *testing.T) {
	calls := maps.Clone(singleCancelers)
	calls["end"] = func(ctx context.Context, client *qless.Client, jid string) error {
		return errOf(repairs.End(ctx, client, jid, repairs.Ending{}))
	}
	for what, cancel := range calls {
		runEnv(t, what, func(t *testing.T, e *env) {
			job := e.dependOnMany()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			client := e.observing(func(call qless.Command) {
				if call.Name != "cancel" { // a refused cancel has changed nothing
					stop()
				}
			})
			requireCode(t, qless.ErrUnavailable, cancel(ctx, client, job.JID))
			require.NoError(t, job.Refresh(t.Context()))
			require.Equal(t, qless.StateDepends, job.State)
			require.Len(t, job.Dependencies, manyDependencies-1000+1)
			require.Contains(t, job.Dependencies, "x:open")
			require.NoError(t, cancel(t.Context(), e.Client, job.JID))
			require.Empty(t, e.Redis.Keys(t.Context(), "ql:j:*-depend*").Val())
		})
	}
}

func TestManyWorkersAreDeregisteredInSteps(t *testing.T) {
	e := newEnv(t)
	names := make([]string, 1200)
	for i := range names {
		names[i] = fmt.Sprint("w", i)
		require.NoError(t, e.Redis.ZAdd(t.Context(), "ql:workers", zmember(float64(noon.Unix()), names[i])).Err())
	}
	e.requireShort(500*2, func() { require.NoError(t, e.inspect().ForgetWorkers(t.Context(), names...)) })
	require.Zero(t, e.Redis.Exists(t.Context(), "ql:workers").Val())
}

// A single job is canceled by the command that other clients use.
func TestASingleJobIsCanceledAsByOtherClients(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	commands := e.scriptsOf(func() { require.NoError(t, e.Cancel(t.Context(), jid, jid)) })
	require.Len(t, commands, 1)
	require.Equal(t, testkit.Monitored{Caller: "lua", Words: []string{"srandmember", "ql:j:" + jid + "-dependents", "11"}},
		commands[0][0])
	require.NotContains(t, commands[0], testkit.Monitored{Caller: "lua", Words: []string{"scard", "ql:j:" + jid + "-dependencies"}})
}
