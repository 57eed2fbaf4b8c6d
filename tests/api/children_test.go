package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

func TestManyNumbersThatAreTakenAreSkippedInLongerSteps(t *testing.T) {
	e := newEnv(t)
	var jobs []qless.JobSpec
	for i := range 1000 {
		jid := fmt.Sprintf("r-%d", i+1)
		jobs = append(jobs, spec(qless.JID(jid)))
	}
	e.puts("p", jobs...)
	e.recur(time.Hour)
	commands := e.Server.Commands(t, func() { require.Len(t, e.Pops("q", 5), 1) })
	require.Less(t, len(commands), 1000, "not every number is looked at")
}

func TestACleanupDeletesCompleteJobsOnly(t *testing.T) {
	e := newEnv(t)
	e.Set("jobs-history-count", 0)
	e.Put("q", qless.JID("waiting"))
	require.NoError(t, e.Redis.ZAdd(t.Context(), "ql:completed", zmember(1, "waiting")).Err())
	e.Put("q", qless.JID("done"), qless.Priority(1))
	require.NoError(t, e.Pop("q").Complete(t.Context()))
	require.Equal(t, qless.StateWaiting, e.Read("waiting").State)
	require.Empty(t, must(e.inspect().Completed().JIDs(t.Context(), inspect.Range{}))(t).Items)
}

func TestRecurringJobsOfAnyIntervalAreDueExactly(t *testing.T) {
	for _, every := range []time.Duration{
		100 * time.Millisecond, 500 * time.Millisecond, 1500 * time.Millisecond, 2500 * time.Millisecond, time.Second,
	} {
		t.Run(every.String(), func(t *testing.T) {
			e := newEnv(t)
			e.recur(every)
			count := len(e.Pops("q", 10))
			for range 240 { // a minute, in steps that divide no interval
				e.Clock.Advance(250 * time.Millisecond)
				count += len(e.Pops("q", 1000))
			}
			require.InDelta(t, float64(time.Minute/every)+1, count, 1)
		})
	}
}

func TestRecurringJobMovedToItsOwnQueueMakesItKnown(t *testing.T) {
	e := newEnv(t)
	e.recur(time.Hour)
	require.NoError(t, errOf(e.Run(t.Context(), "queue.forget", "", "q")))
	require.NoError(t, errOf(e.Do(t.Context(), "recur.update", "r", "queue", "q")))
	require.Len(t, must(e.Queues(t.Context()))(t), 1)
}
