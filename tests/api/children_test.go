package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

func TestRemadeRecurringJobLeavesItsEarlierJobsAlone(t *testing.T) {
	e := newEnv(t)
	r := e.recur(time.Hour)
	running := e.Pop("q")
	require.Equal(t, "r-1", running.JID)
	require.NoError(t, r.Cancel(t.Context()))
	e.recur(time.Hour)

	other := must(e.As("w2").Queue("q").Pop(t.Context(), 5))(t)
	require.Equal(t, []string{"r-2"}, jids(other), "r-1 runs already")
	require.NoError(t, running.Complete(t.Context()))
}

func TestANumberThatAJobHasIsSkipped(t *testing.T) {
	e := newEnv(t)
	e.Put("p", qless.JID("r-1"), qless.Tags{"mine"})
	e.Put("p", qless.JID("r-3"))
	e.recur(time.Minute)
	e.Clock.Advance(2 * time.Minute)
	require.Equal(t, []string{"r-2", "r-4", "r-5"}, jids(e.Pops("q", 5)))
	require.Equal(t, qless.Tags{"mine"}, e.Read("r-1").Tags)
	require.Equal(t, "p", e.Read("r-3").Queue)
	require.Equal(t, 5, must(e.RecurringJob(t.Context(), "r"))(t).Count)
}

func TestManyNumbersThatAreTakenAreSkippedInLongerSteps(t *testing.T) {
	e := newEnv(t)
	var jobs []qless.JobSpec
	for i := range 1000 {
		jid := fmt.Sprintf("r-%d", i+1)
		jobs = append(jobs, qless.JobSpec{Klass: "K", Options: []qless.PutOption{qless.JID(jid)}})
	}
	require.NoError(t, errOf(e.Queue("p").PutMany(t.Context(), jobs)))
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

func TestTheJobsOfAFractionalIntervalAreThatFarApart(t *testing.T) {
	e := newEnv(t)
	e.recur(1500 * time.Millisecond)
	e.Clock.Advance(6 * time.Second)
	require.Len(t, e.Pops("q", 10), 5)
	due := must(e.Redis.ZScore(t.Context(), "ql:q:q-recur", "r").Result())(t)
	require.InDelta(t, float64(noon.Unix())+7.5, due, 0.01)
}

func TestRecurringJobMovedToItsOwnQueueMakesItKnown(t *testing.T) {
	e := newEnv(t)
	e.recur(time.Hour)
	require.NoError(t, errOf(e.Run(t.Context(), "queue.forget", "", "q")))
	require.NoError(t, errOf(e.Do(t.Context(), "recur.update", "r", "queue", "q")))
	require.Len(t, must(e.Queues(t.Context()))(t), 1)
}
