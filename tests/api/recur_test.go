package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// recur creates a recurring job called r.
func (e *env) recur(every time.Duration, options ...qless.RecurOption) *qless.RecurringJob {
	e.T.Helper()
	jid := must(e.Queue("q").Recur(e.T.Context(), "K", raw(`{ "n": 1 }`), every, append(options, qless.JID("r"))...))(e.T)
	return e.recurring(jid)
}

func (e *env) recurring(jid string) *qless.RecurringJob {
	e.T.Helper()
	return must(e.RecurringJob(e.T.Context(), jid))(e.T)
}

// updates reads a recurring job, and returns a function that changes a copy and writes the changes.
func (e *env) updates(jid string) func(change func(r *qless.RecurringJob)) error {
	e.T.Helper()
	read := e.recurring(jid)
	return func(change func(r *qless.RecurringJob)) error {
		changed := *read
		change(&changed)
		return changed.Update(e.T.Context())
	}
}

// A recurring job that its queue has lost recurs again.
func TestRecurOfARecurringJobThatIsNeverDueStartsOver(t *testing.T) {
	e := newEnv(t)
	e.recur(time.Hour)
	e.Pop("q")
	require.NoError(t, e.Redis.ZRem(t.Context(), "ql:q:q-recur", "r").Err())
	e.recur(time.Hour)
	require.Equal(t, "r-2", e.Pop("q").JID)
}

// Clients in other languages change the time of the next recurrence with each call.
func TestTheCommandRecurOfOtherClientsStartsOver(t *testing.T) {
	e := newEnv(t)
	stock := func() { e.run("recur", "q", "r", "K", "{}", "interval", "3600", "60") }
	stock()
	e.Clock.Advance(59 * time.Second)
	stock()
	e.Clock.Advance(59 * time.Second)
	require.Empty(t, e.Pops("q", 5))
	e.Clock.Advance(time.Second)
	require.Equal(t, "r-1", e.Pop("q").JID)
}

func TestFailedMoveLeavesTheRecurringJobInItsQueue(t *testing.T) {
	e := newEnv(t)
	e.recur(time.Hour)
	require.NoError(t, e.Redis.Set(t.Context(), "ql:q:damaged-recur", "no sorted set", 0).Err())
	e.Unchanged(func() {
		_, err := e.Queue("damaged").Recur(t.Context(), "K", nil, time.Hour, qless.JID("r"))
		requireCode(t, qless.ErrServer, err)
	})
}

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
	require.NoError(t, e.start("q", qless.JID("done"), qless.Priority(1)).Complete(t.Context()))
	require.Equal(t, qless.StateWaiting, e.Read("waiting").State)
	require.Empty(t, e.all(e.inspect().Completed()))
}

func TestRecurringJobsOfAnyIntervalAreDueExactly(t *testing.T) {
	for _, every := range []time.Duration{
		100 * time.Millisecond, 500 * time.Millisecond, 1500 * time.Millisecond, 2500 * time.Millisecond, time.Second,
	} {
		runEnv(t, every.String(), func(t *testing.T, e *env) {
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
	e.run("queue.forget", "q")
	require.NoError(t, errOf(e.Do(t.Context(), "recur.update", "r", "queue", "q")))
	require.Len(t, must(e.Queues(t.Context()))(t), 1)
}
