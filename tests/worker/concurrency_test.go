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

// asked returns the number of jobs requested by each request for a queue.
func (w *testWorker) asked(queue string) (counts []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		if c.script != "reserve" || c.args[1] == "0" {
			continue
		}
		pairs := must(strconv.Atoi(c.args[3]))(w.t)
		if slices.Contains(c.args[4+pairs:], queue) {
			counts = append(counts, c.args[1])
		}
	}
	return counts
}

// capped starts a worker of the queues q and p with a cap on jobs of klass K. Jobs are held until
// ended by the test.
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
	return must(e.Queue(queue).Put(e.T.Context(), klass, nil, options...))(e.T)
}

func TestNoMoreJobsRunAtOnceThanAllowed(t *testing.T) {
	const jobs = 100
	for name, c := range map[string]struct {
		most    int
		workers int
		slots   int // of each
		set     func(e *env)
		handle  []qless.HandleOption
		put     []qless.PutOption
	}{
		"a worker with a slot":     {most: 1, workers: 1, slots: 1},
		"a worker with some slots": {most: 7, workers: 1, slots: 7},
		"a klass":                  {most: 2, workers: 1, slots: 10, handle: []qless.HandleOption{qless.Concurrency(2)}},
		"a limit": {
			most: 2, workers: 3, slots: 3, put: []qless.PutOption{qless.Limits{"api"}},
			set: func(e *env) {
				require.NoError(t, e.Limit("api").Set(t.Context(), qless.LimitConfig{Concurrency: 2}))
			},
		},
		"a max-concurrency": {
			most: 3, workers: 3, slots: 4, set: func(e *env) { e.Set("q-max-concurrency", 3) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLiveEnv(t)
			if c.set != nil {
				c.set(e)
			}
			var running, tooMany, again, ended atomic.Int32
			for range c.workers {
				w := e.worker(qless.WorkerConfig{Queues: []string{"q", "p"}, Concurrency: c.slots})
				w.Handle("K", func(_ context.Context, job *qless.Job) error {
					if running.Add(1) > int32(c.most) {
						tooMany.Add(1)
					}
					if job.Attempt > 1 {
						again.Add(1)
					}
					time.Sleep(time.Millisecond)
					running.Add(-1)
					ended.Add(1)
					return nil
				}, c.handle...)
				w.Handle("Other", nothing)
				require.NoError(t, w.Start(t.Context()))
			}
			for range jobs {
				e.Put("q", c.put...)
				if c.handle != nil {
					e.putKlass("q", "Other")
					e.putKlass("p", "Other")
				}
			}
			until(t, "all have run without a poll", func() bool { return ended.Load() == jobs })
			require.Zero(t, tooMany.Load())
			require.Zero(t, again.Load(), "no retry was used up")
		})
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
	require.Equal(t, waiting[2:], jids(must(e.Queue("q").Peek(t.Context(), 10))(t)))
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
	e.begun(running)
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
	e.begun(running)
	e.putKlass("q", "K", qless.JID("over"))
	require.Equal(t, "release", w.outcome("over").action)
	w.Pause()
	end <- nil
	require.Equal(t, "complete", e.idleWorker("q").outcome("over").action)
}

func TestConcurrencyOfAPatternIsForAllItsKlasses(t *testing.T) {
	e, w := workerEnv(t, qless.WorkerConfig{})
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
		handler, running, end := hold()
		w := e.working(qless.WorkerConfig{Concurrency: 3}, handler, most)
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

// started returns when a running job was taken, by the server's clock.
func (e *env) started(jid string) time.Duration {
	e.T.Helper()
	text := must(e.Redis.HGet(e.T.Context(), "ql:j:"+jid, "time").Result())(e.T)
	seconds := must(strconv.ParseFloat(text, 64))(e.T)
	return time.Duration(seconds * 1e9)
}

func TestWorkersStartNoMoreJobsThanTheRateAllows(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]func(e *env) []qless.PutOption{
		"limit": func(e *env) []qless.PutOption {
			require.NoError(e.T, e.Limit("api").Set(e.T.Context(), qless.LimitConfig{Rate: 3, Per: 400 * time.Millisecond}))
			return []qless.PutOption{qless.Limits{"api"}}
		},
		"max-rate": func(e *env) []qless.PutOption {
			require.NoError(e.T, e.Queue("q").SetMaxRate(e.T.Context(), 3, 400*time.Millisecond))
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLiveEnv(t)
			options := limit(e)
			const jobs = 12
			started := make(chan time.Duration, jobs)
			for range 2 {
				w := e.worker(qless.WorkerConfig{Concurrency: 4})
				w.Handle("K", func(_ context.Context, job *qless.Job) error {
					started <- e.started(job.JID)
					return nil
				})
				require.NoError(t, w.Start(t.Context()))
			}
			for range jobs {
				e.Put("q", options...)
			}
			var starts []time.Duration
			for range jobs {
				starts = append(starts, soon(t, "a start without a poll", started))
			}
			slices.Sort(starts)
			for i := 3; i < jobs; i++ {
				require.GreaterOrEqual(t, starts[i]-starts[i-3], 400*time.Millisecond-time.Microsecond)
			}
		})
	}
}

func TestAThrottledJobIsTheNextOfItsLimit(t *testing.T) {
	e := newLiveEnv(t)
	const hold = 300 * time.Millisecond
	runs := make(chan string, 10)
	times := make(chan time.Duration, 10)
	throttled := false
	w := e.worker(qless.WorkerConfig{Concurrency: 1})
	w.Handle("K", func(_ context.Context, job *qless.Job) error {
		times <- e.started(job.JID)
		runs <- job.JID
		if !throttled {
			throttled = true
			job.Data = []byte(`{"seen":true}`)
			return qless.Throttled(hold, "api")
		}
		return nil
	})
	e.Put("q", qless.JID("first"), qless.Limits{"api", "other"})
	e.Put("q", qless.JID("second"), qless.Limits{"api"})
	require.NoError(t, w.Start(t.Context()))
	until(t, "all runs have begun", func() bool { return len(runs) == 3 })
	require.Equal(t, []string{"first", "first", "second"}, []string{<-runs, <-runs, <-runs})
	first, again := <-times, <-times
	require.GreaterOrEqual(t, again-first, hold)
	until(t, "both are complete", func() bool { return e.Read("second").State == qless.StateComplete })
	require.Equal(t, 5, e.Read("first").Remaining)
	require.JSONEq(t, `{"seen":true}`, string(e.Read("first").Data))
	require.Equal(t, 1, w.Stats().Released)
}
