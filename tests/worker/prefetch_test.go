package worker

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// Tests that set how long jobs may be held ahead are in worker_prefetch_test.go of the library.

// overruns has a worker of one slot run a job that does not end, after so many short ones that it
// took the jobs m, z and a ahead.
func (e *env) overruns() (w *testWorker, end chan error) {
	e.t.Helper()
	for range 100 {
		e.put("q")
	}
	for _, jid := range []string{"long", "m", "z", "a"} {
		e.put("q", qless.JID(jid))
	}
	w = e.worker(qless.WorkerConfig{Concurrency: 1})
	handler, running, end := hold()
	w.Handle("K", func(ctx context.Context, job *qless.Job) error {
		if job.JID == "long" {
			return handler(ctx, job)
		}
		return nil
	})
	require.NoError(e.t, w.Start(e.t.Context()))
	soon(e.t, "the long job", running)
	return w, end
}

func TestAHandlerThatOverrunsGivesBackWhatWasTakenAhead(t *testing.T) {
	e := newLiveEnv(t)
	w, end := e.overruns()
	for _, jid := range []string{"m", "z", "a"} {
		require.Equal(t, reported{"release", "5"}, w.outcome(jid))
	}
	e.put("q", qless.JID("new"))
	e.put("q", qless.JID("urgent"), qless.Priority(1))
	require.Equal(t, []string{"urgent", "m", "z", "a", "new"}, jids(e.pops("q", 10)))
	end <- nil
	require.Equal(t, reported{"complete", "complete"}, w.outcome("long"))
}

func TestAnIdleWorkerGetsWhatAnotherHoldsAhead(t *testing.T) {
	e := newLiveEnv(t)
	_, end := e.overruns()
	other := e.idleWorker()
	for _, jid := range []string{"m", "z", "a"} {
		require.Equal(t, reported{"complete", "complete"}, other.outcome(jid))
	}
	end <- nil
}

// take calls the script reserve for a worker, and returns the jids.
func (e *env) take(count, ahead, order string, queues ...string) []string {
	e.t.Helper()
	args := []any{"w", count, order, "0", "3600", "", ahead}
	for _, queue := range queues {
		args = append(args, queue)
	}
	reply, err := e.Run(e.t.Context(), "reserve", "", args...)
	require.NoError(e.t, err)
	return reservedJIDs(reply)
}

func TestReserveTakesJobsAheadInTheirOrder(t *testing.T) {
	for order, wanted := range map[string]string{"ordered": inOrder, "round-robin": inTurns} {
		e := newEnv(t)
		e.fill(abc)
		require.Equal(t, strings.Fields(wanted)[:5], e.take("2", "3", order, "C", "B", "A"))
		require.Len(t, e.take("0", "3", order, "C", "B", "A"), 3, "a worker without room")
		require.Len(t, e.take("1", "8", order, "C", "B", "A"), 2)
		require.Empty(t, e.take("0", "1", order, "C", "B", "A"))
		require.Empty(t, e.rdb.SMembers(t.Context(), "ql:x:idle").Val(), "it got what it has room for")
	}
}

func TestReserveTakesNothingAheadOfAnIdleWorker(t *testing.T) {
	for _, order := range []string{"ordered", "round-robin"} {
		e := newEnv(t)
		require.Empty(t, e.take("1", "3", order, "A", "B"), "it is idle itself")
		e.fill(abc)
		e.reserve("other", 1, order, "0", "", "elsewhere")
		e.rdb.SAdd(t.Context(), "ql:x:idle", "w") // though it was woken
		require.Len(t, e.take("1", "3", order, "A", "B"), 1)
		require.Empty(t, e.take("0", "3", order, "A", "B"))
		e.rdb.Del(t.Context(), "ql:x:idle")
		e.rdb.SAdd(t.Context(), "ql:x:idle", "w")
		require.Len(t, e.take("1", "3", order, "A", "B"), 4, "only it was idle")
		require.Empty(t, e.rdb.SMembers(t.Context(), "ql:x:idle").Val())
	}
}

// A job that a worker holds counts as running. Jobs of later queues must not overtake it.
func TestReserveTakesNothingAheadFromAMaxConcurrencyOn(t *testing.T) {
	for _, order := range []string{"ordered", "round-robin"} {
		e := newEnv(t)
		e.set("B-max-concurrency", 2)
		e.fill(abc)
		require.Equal(t, []string{"B1"}, e.take("1", "5", order, "B"))
		require.Empty(t, e.take("0", "5", order, "B"))
		require.Equal(t, []string{"B2"}, e.take("1", "5", order, "B", "A"))
		require.Len(t, e.take("1", "2", order, "A", "C"), 3)
	}
}

func TestReserveAheadCostsNoMoreCommands(t *testing.T) {
	e := newEnv(t)
	e.fill(map[string]int{"q": 20})
	e.take("1", "0", "ordered", "q") // the first of a day costs more
	cost := func(count, ahead string) int {
		return len(e.server.Commands(t, func() { e.take(count, ahead, "ordered", "q") }))
	}
	alone := cost("1", "0")
	require.Equal(t, alone, cost("0", "1"))
	require.Equal(t, cost("5", "0"), cost("1", "4"))
}

func TestReleasedJobsKeepTheirPlaces(t *testing.T) {
	e := newEnv(t)
	e.put("q", qless.JID("low"), qless.Priority(-1))
	for _, jid := range []string{"m", "z", "a", "first"} {
		e.put("q", qless.JID(jid), qless.Priority(5000000))
	}
	require.Len(t, e.pops("q", 5), 5)
	e.put("q", qless.JID("new"), qless.Priority(5000000))
	args := []any{"w1"}
	for _, release := range [][2]string{{"m", "1"}, {"z", "2"}, {"a", "1000"}, {"low", "4"}} {
		args = append(args, "release", release[0], "q", "", "3", "0", "", release[1])
	}
	args = append(args, "release", "first", "q", "", "1", "0")
	reply, err := e.Run(t.Context(), "finish", "", args...)
	require.NoError(t, err)
	require.Equal(t, []any{"5", "5", "5", "5", "5"}, reply)
	e.clock.Advance(time.Second)
	require.Equal(t, []string{"first", "m", "z", "a", "new", "low"}, jids(e.pops("q", 10)))
}
