package worker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// asked returns the number of jobs asked for by each request that names a queue.
func (w *testWorker) asked(queue string) (counts []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		if c.script != "reserve" || c.args[1] == "0" {
			continue
		}
		pairs, err := strconv.Atoi(c.args[3])
		require.NoError(w.t, err)
		if slices.Contains(c.args[4+pairs:], queue) {
			counts = append(counts, c.args[1])
		}
	}
	return counts
}

// capped starts a worker of the queues q and p whose klass K is capped at a number of jobs. They
// are held until the test ends them.
func (e *env) capped(most int) (w *testWorker, running chan *qless.Job, end chan error) {
	e.T.Helper()
	w = e.worker(qless.WorkerConfig{Queues: []string{"q", "p"}})
	handler, running, end := hold()
	w.Handle("K", handler, qless.Concurrency(most))
	w.Handle("Other", nothing)
	return w.start(), running, end
}

func (e *env) putKlass(queue, klass string, options ...qless.PutOption) string {
	e.T.Helper()
	jid, err := e.Queue(queue).Put(e.T.Context(), klass, nil, options...)
	require.NoError(e.T, err)
	return jid
}

func TestAKlassRunsNoMoreThanItsConcurrency(t *testing.T) {
	e := newLiveEnv(t)
	var now, most atomic.Int32
	w := e.worker(qless.WorkerConfig{Queues: []string{"q", "p"}})
	w.Handle("K", func(context.Context, *qless.Job) error {
		n := now.Add(1)
		defer now.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		time.Sleep(time.Millisecond)
		return nil
	}, qless.Concurrency(2))
	w.Handle("Other", nothing)
	for i := range 100 {
		e.putKlass("q", "K", qless.JID(fmt.Sprint("k", i)), qless.Retries(1))
		e.putKlass("q", "Other")
		e.putKlass("p", "Other")
	}
	w.start()
	until(t, "all jobs are complete", func() bool { return w.Stats().Completed == 300 })
	require.LessOrEqual(t, most.Load(), int32(2))
	for i := range 100 {
		require.Equal(t, 1, e.Read(fmt.Sprint("k", i)).Remaining, "no retry was used up")
	}
}

func TestAJobOverTheConcurrencyGoesToAnotherWorker(t *testing.T) {
	e := newLiveEnv(t)
	w, running, _ := e.capped(1)
	first := e.putKlass("q", "K", qless.JID("first"))
	require.Equal(t, first, soon(t, "the first job", running).JID)
	other := e.idleWorker("q")
	for i := range 5 {
		jid := e.putKlass("q", "K", qless.JID(fmt.Sprint(i)))
		require.Equal(t, "complete", other.outcome(jid).action)
	}
	require.Zero(t, w.Stats().Completed)
}

func TestAJobOverTheConcurrencyKeepsItsPlace(t *testing.T) {
	e := newLiveEnv(t)
	var waiting []string
	for i := range 8 {
		waiting = append(waiting, e.putKlass("q", "K", qless.JID(fmt.Sprint("j", i))))
	}
	w, running, end := e.capped(2)
	for range 2 {
		soon(t, "a job that runs", running)
	}
	require.Equal(t, "release", w.outcome("j7").action)
	jobs, err := e.Queue("q").Peek(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, waiting[2:], jids(jobs))
	for _, jid := range waiting[2:] {
		end <- nil
		require.Equal(t, jid, soon(t, "the next job", running).JID)
	}
}

func TestAFullKlassIsNotAskedFor(t *testing.T) {
	e := newLiveEnv(t)
	for i := range 8 {
		e.putKlass("q", "K", qless.JID(fmt.Sprint("j", i)))
	}
	w, running, end := e.capped(2)
	for range 2 {
		soon(t, "a job that runs", running)
	}
	w.outcome("j7")
	asked := w.asked("q")
	for range 10 {
		require.Equal(t, "complete", w.outcome(e.putKlass("p", "Other")).action)
	}
	require.Equal(t, asked, w.asked("q"), "p alone was asked")

	released := w.Stats().Released
	for range 4 {
		end <- nil
		soon(t, "the next job", running)
	}
	require.Equal(t, released, w.Stats().Released, "none was handed back again")
	for _, count := range w.asked("q")[len(asked):] {
		require.Equal(t, "1", count, "no more than have room")
	}
}

// Idle for p, the worker is still listed in q, and is the first to be woken for its jobs.
func TestAWorkerPassesOnAWakeUpForAFullKlass(t *testing.T) {
	e := newLiveEnv(t)
	w, running, _ := e.capped(1)
	e.putKlass("q", "K")
	soon(t, "the job that runs", running)
	e.putKlass("q", "K", qless.JID("over"))
	require.Equal(t, "release", w.outcome("over").action)
	other := e.idleWorker("q")
	require.Equal(t, "complete", other.outcome("over").action)
	for i := range 5 {
		jid := e.putKlass("q", "Other", qless.JID(fmt.Sprint(i)))
		require.Equal(t, "complete", other.outcome(jid).action)
		require.Equal(t, "complete", w.outcome(e.putKlass("p", "Other")).action)
	}
}

func TestAPausedWorkerLeavesTheQueueOfAFullKlass(t *testing.T) {
	e := newLiveEnv(t)
	w, running, end := e.capped(1)
	e.putKlass("q", "K")
	soon(t, "the job that runs", running)
	e.putKlass("q", "K", qless.JID("over"))
	require.Equal(t, "release", w.outcome("over").action)
	w.Pause()
	end <- nil
	require.Equal(t, "complete", e.idleWorker("q").outcome("over").action)
}

func TestConcurrencyOfAPatternIsForAllItsKlasses(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	handler, running, end := hold()
	w.Handle("Img::*", handler, qless.Concurrency(1))
	w.start()
	e.putKlass("q", "Img::A", qless.JID("a"))
	soon(t, "a job that runs", running)
	e.putKlass("q", "Img::B", qless.JID("b"))
	require.Equal(t, "release", w.outcome("b").action)
	end <- nil
	require.Equal(t, "b", soon(t, "the other one", running).JID)
	end <- nil
}

func TestValuesOfConcurrency(t *testing.T) {
	e := newLiveEnv(t)
	require.PanicsWithValue(t, `qless: Handle("K"): negative Concurrency -1`, func() {
		e.worker(qless.WorkerConfig{}).Handle("K", nothing, qless.Concurrency(-1))
	})
	for _, most := range []qless.Concurrency{0, 3, 100} {
		w := e.worker(qless.WorkerConfig{Concurrency: 3})
		handler, running, end := hold()
		w.Handle("K", handler, most)
		w.start()
		for range 3 {
			e.Put("q")
		}
		for range 3 {
			soon(t, "a job that runs", running)
		}
		for range 3 {
			end <- nil
		}
		until(t, "all are complete", func() bool { return w.Stats().Completed == 3 })
		w.stop()
	}
}
