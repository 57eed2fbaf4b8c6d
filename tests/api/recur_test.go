package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
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

func TestRecurReadsBack(t *testing.T) {
	e := newEnv(t)
	job := e.recur(90*time.Second, qless.Priority(3), qless.Retries(2), qless.Tags{"b", "a"}, qless.Backlog(4))
	require.Equal(t, "r", job.JID)
	require.Equal(t, "K", job.Klass)
	require.Equal(t, "q", job.Queue)
	require.Equal(t, `{ "n": 1 }`, string(job.Data))
	require.Equal(t, 90*time.Second, job.Interval)
	require.Equal(t, 3, job.Priority)
	require.Equal(t, 2, job.Retries)
	require.Equal(t, qless.Tags{"b", "a"}, job.Tags)
	require.Equal(t, 4, job.Backlog)
	require.Zero(t, job.Count)
}

func TestRecurDefaults(t *testing.T) {
	e := newEnv(t)
	jid := must(e.Queue("q").Recur(t.Context(), "K", nil, time.Hour))(t)
	require.Regexp(t, "^[0-9a-f]{32}$", jid)
	job := e.recurring(jid)
	require.Equal(t, "{}", string(job.Data))
	require.Equal(t, 5, job.Retries)
	require.Zero(t, job.Priority)
	require.Zero(t, job.Backlog)
	require.Empty(t, job.Tags)
}

func TestRecurringJobPutsJobsAtItsInterval(t *testing.T) {
	e := newEnv(t)
	e.recur(time.Minute, qless.Priority(3), qless.Retries(2), qless.Tags{"b", "a"})
	job := e.Pop("q")
	require.Equal(t, "r-1", job.JID)
	require.Equal(t, "r", job.SpawnedFrom)
	require.Equal(t, "K", job.Klass)
	require.Equal(t, `{ "n": 1 }`, string(job.Data))
	require.Equal(t, 3, job.Priority)
	require.Equal(t, 2, job.Retries)
	require.Equal(t, 2, job.Remaining)
	require.Equal(t, qless.Tags{"b", "a"}, job.Tags)
	require.Empty(t, e.Pops("q", 5))

	e.Clock.Advance(time.Minute)
	require.Equal(t, "r-2", e.Pop("q").JID)
	require.Equal(t, 2, e.recurring("r").Count)
	tagged := must(e.inspect().Tagged("a").JIDs(t.Context(), inspect.Range{}))(t)
	require.Equal(t, []string{"r-1", "r-2"}, tagged.Items)
}

func TestRecurWaitsForItsOffset(t *testing.T) {
	e := newEnv(t)
	e.recur(time.Minute, qless.Offset(10*time.Minute))
	require.Empty(t, e.Pops("q", 5))
	e.Clock.Advance(10 * time.Minute)
	require.Equal(t, "r-1", e.Pop("q").JID)
}

// Nothing is lost if the server's clock is set back, but recurring jobs, and the jobs of dead
// workers, wait until it has caught up.
func TestAClockThatIsSetBackDelaysJobs(t *testing.T) {
	e := newEnv(t)
	e.Set("grace-period", 0)
	e.recur(time.Minute)
	e.Pop("q") // by a worker that dies
	e.Clock.Advance(-time.Hour)
	require.Empty(t, e.Pops("q", 5))
	e.Clock.Advance(time.Hour)
	require.Empty(t, e.Pops("q", 5))
	e.Clock.Advance(time.Minute)
	require.Equal(t, "r-1", e.Pop("q").JID)
	require.Equal(t, "r-2", e.Pop("q").JID)
}

func TestMissedJobsAreAllPut(t *testing.T) {
	e := newEnv(t)
	e.recur(time.Minute)
	e.Clock.Advance(3 * time.Minute)
	peeked := must(e.Queue("q").Peek(t.Context(), 10))(t)
	require.Equal(t, []string{"r-1", "r-2", "r-3", "r-4"}, jids(peeked))
	for i, job := range e.Pops("q", 10) {
		require.Equal(t, fmt.Sprintf("r-%d", i+1), job.JID)
		require.Equal(t, noon.Add(time.Duration(i)*time.Minute).Local(), job.History[0].When)
	}
}

func TestBacklogCapsMissedJobs(t *testing.T) {
	e := newEnv(t)
	e.recur(time.Minute, qless.Backlog(2))
	e.Clock.Advance(10*time.Minute + 30*time.Second)
	require.Len(t, e.Pops("q", 20), 2)
	e.Clock.Advance(time.Minute)
	require.Len(t, e.Pops("q", 20), 1)
}

func TestPopPutsOnlyAsManyRecurringJobsAsAreWanted(t *testing.T) {
	e := newEnv(t)
	e.recur(time.Minute)
	e.Clock.Advance(10 * time.Minute)
	require.Len(t, e.Pops("q", 2), 2)
	require.Equal(t, 2, e.recurring("r").Count)
	require.Len(t, e.Pops("q", 20), 9)
}

func TestRecurOfAnExistingRecurringJobChangesIt(t *testing.T) {
	e := newEnv(t)
	e.recur(time.Minute, qless.Tags{"a"})
	e.Pop("q")
	_, err := e.Queue("other").Recur(t.Context(), "K2", raw("[]"), time.Hour, qless.JID("r"), qless.Offset(time.Minute))
	require.NoError(t, err)
	job := e.recurring("r")
	require.Equal(t, "other", job.Queue)
	require.Equal(t, "K2", job.Klass)
	require.Equal(t, time.Hour, job.Interval)
	require.Equal(t, 1, job.Count, "its jids continue")
	require.Empty(t, job.Tags)
	require.Zero(t, e.Counts("q").Recurring)
	e.Clock.Advance(time.Minute)
	require.Empty(t, e.Pops("q", 5))
	require.Equal(t, "r-2", e.Pop("other").JID)
}

func TestEachFieldOfARecurringJobCanBeChanged(t *testing.T) {
	e := newEnv(t)
	job := e.recur(time.Hour)
	e.Pop("q")
	job.Klass, job.Data, job.Queue, job.Tags = "K2", raw(`[ 12345678901234567890 ]`), "other", []string{"a", "c"}
	job.Priority, job.Retries, job.Backlog, job.Interval = -7, 0, 9, time.Minute
	require.NoError(t, job.Update(t.Context()))

	require.NoError(t, job.Refresh(t.Context()))
	require.Equal(t, "K2", job.Klass)
	require.Equal(t, `[ 12345678901234567890 ]`, string(job.Data))
	require.Equal(t, -7, job.Priority)
	require.Equal(t, 0, job.Retries)
	require.Equal(t, 9, job.Backlog)
	require.Equal(t, time.Minute, job.Interval)
	require.Equal(t, "other", job.Queue)
	require.Equal(t, qless.Tags{"a", "c"}, job.Tags)
	require.Equal(t, 1, job.Count)
	require.Equal(t, e.recurring("r"), job)

	require.Equal(t, "K", e.Read("r-1").Klass, "a job already put stays unchanged")
	e.Clock.Advance(time.Minute)
	require.Empty(t, e.Pops("q", 5))
	child := e.Pop("other")
	require.Equal(t, "r-2", child.JID)
	require.Equal(t, "K2", child.Klass)
	require.Equal(t, `[ 12345678901234567890 ]`, string(child.Data))
	require.Equal(t, qless.Tags{"a", "c"}, child.Tags)
	require.Equal(t, "other", must(e.Queues(t.Context()))(t)[1].Name)
}

func TestCancelEndsARecurringJob(t *testing.T) {
	e := newEnv(t)
	job := e.recur(time.Minute)
	e.Pop("q")
	require.NoError(t, job.Cancel(t.Context()))
	require.NoError(t, job.Cancel(t.Context()), "twice is fine")
	e.Clock.Advance(time.Hour)
	require.Empty(t, e.Pops("q", 5), "its last job is being run")
	require.Equal(t, qless.StateRunning, e.Read("r-1").State)
	_, err := e.RecurringJob(t.Context(), "r")
	require.Equal(t, "r", requireCode(t, qless.ErrNotFound, err).JID)
}

func TestChangesOfARecurringJobThatIsGone(t *testing.T) {
	e := newEnv(t)
	job := e.recur(time.Minute)
	require.NoError(t, job.Cancel(t.Context()))
	e.Unchanged(func() {
		for _, change := range []func(job *qless.RecurringJob){
			func(job *qless.RecurringJob) { job.Klass = "x" },
			func(job *qless.RecurringJob) { job.Data = raw("1") },
			func(job *qless.RecurringJob) { job.Priority = 1 },
			func(job *qless.RecurringJob) { job.Retries = 1 },
			func(job *qless.RecurringJob) { job.Backlog = 1 },
			func(job *qless.RecurringJob) { job.Interval = time.Second },
			func(job *qless.RecurringJob) { job.Queue = "x" },
			func(job *qless.RecurringJob) { job.Tags = []string{"x"} },
		} {
			changed := *job
			change(&changed)
			for range 2 {
				require.Equal(t, "r", requireCode(t, qless.ErrNotFound, changed.Update(t.Context())).JID)
			}
		}
		require.NoError(t, job.Update(t.Context()), "nothing was changed")
	})
}

// popAndComplete pops and completes the next job of the queue q, which must have the given jid.
func (e *env) popAndComplete(jid string) {
	e.T.Helper()
	job := e.Pop("q")
	require.Equal(e.T, jid, job.JID)
	require.NoError(e.T, job.Complete(e.T.Context()))
}

func TestRecurAtEveryStartOfAProgramChangesNothing(t *testing.T) {
	e := newEnv(t)
	start := func() {
		e.recur(time.Hour, qless.Priority(3), qless.Tags{"a"}, qless.Backlog(2), qless.Offset(time.Minute))
	}
	start()
	e.Clock.Advance(time.Minute)
	e.popAndComplete("r-1")
	for range 5 {
		e.Clock.Advance(time.Minute)
		e.Unchanged(start)
		require.Empty(t, e.Pops("q", 5), "it is not due")
	}
	e.Clock.Advance(time.Hour - 5*time.Minute)
	require.Equal(t, "r-2", e.Pop("q").JID)
	require.Empty(t, e.Pops("q", 5))
}

func TestRecurAgainKeepsTheTimeOfTheSameInterval(t *testing.T) {
	e := newEnv(t)
	e.recur(time.Hour, qless.Priority(3))
	e.popAndComplete("r-1")
	e.Clock.Advance(50 * time.Minute)
	job := e.recur(time.Hour, qless.Retries(7), qless.Tags{"b"}, qless.Offset(5*time.Hour))
	require.Equal(t, 7, job.Retries)
	require.Zero(t, job.Priority)
	require.Equal(t, qless.Tags{"b"}, job.Tags)
	e.Clock.Advance(10 * time.Minute)
	e.popAndComplete("r-2") // it keeps its time

	e.recur(90*time.Minute, qless.Offset(time.Minute))
	require.Empty(t, e.Pops("q", 5))
	e.Clock.Advance(time.Minute)
	e.popAndComplete("r-3") // it starts over
	e.Clock.Advance(time.Hour)
	require.Empty(t, e.Pops("q", 5))
	e.Clock.Advance(30 * time.Minute)
	require.Equal(t, "r-4", e.Pop("q").JID)
}

func TestRecurOfAFractionKeepsItsTime(t *testing.T) {
	e := newEnv(t)
	e.recur(1500 * time.Millisecond)
	e.Pop("q")
	e.Unchanged(func() { e.recur(1500 * time.Millisecond) })
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
	stock := func() {
		_, err := e.Run(t.Context(), "recur", "r", "q", "r", "K", "{}", "interval", "3600", "60")
		require.NoError(t, err)
	}
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
