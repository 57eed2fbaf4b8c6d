package worker

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/tests/repairs"
)

func TestNoMoreJobsRunAtOnceThanTheConcurrencySays(t *testing.T) {
	const jobs = 100
	for _, concurrency := range []int{1, 7} {
		e := newLiveEnv(t)
		w := e.worker(qless.WorkerConfig{Concurrency: concurrency})
		var now, tooMany atomic.Int32
		full, done := make(chan bool, jobs), make(chan bool, jobs)
		w.Handle("K", func(context.Context, *qless.Job) error {
			switch n := int(now.Add(1)); {
			case n > concurrency:
				tooMany.Add(1)
			case n == concurrency:
				full <- true
			}
			now.Add(-1)
			done <- true
			return nil
		})
		for range jobs {
			e.Put("q")
		}
		require.NoError(t, w.Start(t.Context()))
		for range jobs {
			soon(t, "a job", done)
		}
		require.Zero(t, tooMany.Load())
	}
}

func TestAWorkerFillsAllItsSlots(t *testing.T) {
	e := newLiveEnv(t)
	for range 12 {
		e.Put("q")
	}
	w := e.worker(qless.WorkerConfig{Concurrency: 7})
	handler, running, end := hold()
	w.Handle("K", handler)
	require.NoError(t, w.Start(t.Context()))
	for range 7 {
		soon(t, "a job", running)
	}
	require.Len(t, w.Stats().Running, 7)
	require.Equal(t, 5, e.Counts("q").Waiting)
	end <- nil
	soon(t, "the next job", running)
	require.Equal(t, 4, e.Counts("q").Waiting)
}

func TestAnOutcomeAndTheNextReservationGoTogether(t *testing.T) {
	t.Parallel()
	e := newLiveEnv(t)
	e.Put("q")
	e.Put("q")
	w := e.worker(qless.WorkerConfig{Concurrency: 1})
	w.Handle("K", nothing)
	w.start()
	for n := range 2 {
		require.Equal(t, "finish reserve", w.await(t, "an outcome", n+1, of("finish")).trip)
	}
}

func TestAJobIsDoneOnlyWhenTheServerSaidSo(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	w.Handle("K", nothing)
	w.start()
	asked, answer := w.gate("finish", true)
	jid := e.Put("q")
	soon(t, "an outcome", asked)
	require.Equal(t, qless.StateComplete, e.Read(jid).State)
	require.Zero(t, w.Stats().Completed)
	answer()
	until(t, "it is counted", func() bool { return w.Stats().Completed == 1 })
}

// While one outcome is being sent, others arise. They are sent together, each independently.
func TestOneLostLockDoesNotSpoilABatch(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	handler, running, end := hold()
	w.Handle("K", handler)
	w.start()
	for _, jid := range []string{"first", "a", "lost", "b"} {
		e.Put("q", qless.JID(jid))
		soon(t, "a job", running)
	}
	w.Pause() // it would take the lost job again
	asked, answer := w.gate("finish", false)
	end <- nil
	soon(t, "an outcome", asked)
	for range 3 {
		end <- nil
	}
	until(t, "all have ended", func() bool { return len(w.Stats().Running) == 0 })
	require.NoError(t, e.Cancel(t.Context(), "lost"))
	answer()
	outcomes := map[string]reported{}
	for _, jid := range []string{"first", "a", "lost", "b"} {
		outcomes[jid] = w.outcome(jid)
	}
	w.stop()
	require.Equal(t, 2, w.count(of("finish")), "three go out together")
	for jid, got := range outcomes {
		require.Equal(t, "complete", got.action)
		if jid == "lost" {
			require.Contains(t, got.answer, "does not exist")
		} else {
			require.Equal(t, "complete", got.answer)
		}
	}
	require.Equal(t, 3, w.Stats().Completed)
	require.Equal(t, 1, w.Stats().Canceled)
	require.Zero(t, w.Stats().Lost)
}

func TestRefusedOutcomeDoesNotSpoilABatch(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	end, running := make(chan bool), make(chan bool, 10)
	w.Handle("K", func(_ context.Context, job *qless.Job) error {
		running <- true
		if job.JID != "first" {
			<-end
		}
		if job.JID == "deep" { // deeper than the server reads
			job.Data = raw(strings.Repeat("[", 5000) + strings.Repeat("]", 5000))
		}
		return nil
	})
	w.start()
	asked, answer := w.gate("finish", false)
	for _, jid := range []string{"a", "deep", "b", "first"} {
		e.Put("q", qless.JID(jid))
		soon(t, "a job", running)
	}
	soon(t, "an outcome", asked)
	close(end)
	until(t, "all have ended", func() bool { return len(w.Stats().Running) == 0 })
	answer()
	for _, jid := range []string{"first", "a", "b"} {
		require.Equal(t, reported{"complete", "complete"}, w.outcome(jid))
	}
	got := w.outcome("deep")
	if got.action == "complete" {
		require.Equal(t, qless.StateComplete, e.Read("deep").State, "it is not too deep for this server")
	} else {
		require.Equal(t, "fail", got.action)
		require.Equal(t, qless.StateFailed, e.Read("deep").State)
	}
}

func TestAJobThatTheServerCannotReadDoesNotSpoilABatch(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	handler, running, end := hold()
	w.Handle("K", handler)
	w.start()
	for _, jid := range []string{"a", "damaged", "b"} {
		e.Put("q", qless.JID(jid))
		soon(t, "a job", running)
	}
	require.NoError(t, e.Redis.Set(t.Context(), "ql:j:damaged", "no hash", 0).Err())
	w.Pause()
	for range 3 {
		end <- nil
	}
	for _, jid := range []string{"a", "b"} {
		w.outcome(jid)
		require.Equal(t, qless.StateComplete, e.Read(jid).State)
	}
	require.Contains(t, w.outcome("damaged").answer, "WRONGTYPE")
	require.NoError(t, e.Redis.Del(t.Context(), "ql:j:damaged").Err())
	until(t, "it is sent again, and the job is gone by then", func() bool { return w.Stats().Canceled == 1 })
}

func TestFinishEndsEachJobInItsOwnWay(t *testing.T) {
	e := newEnv(t)
	for _, jid := range []string{"done", "on", "bad", "again", "back", "theirs", "twice"} {
		e.Put("q", qless.JID(jid))
	}
	require.Len(t, e.Pops("q", 7), 7)
	require.NoError(t, repairs.TimeOut(t.Context(), e.Client, "theirs"))
	_, err := e.As("w2").Queue("q").Pop(t.Context(), 1)
	require.NoError(t, err)
	reply, err := e.Run(t.Context(), "finish", "", "w1",
		"complete", "done", "q", `"saved"`, "0",
		"complete", "theirs", "q", `"not saved"`, "0",
		"complete", "on", "q", "", "4", "next", "b", "delay", "5",
		"fail", "bad", "q", "", "4", "group", "g", "message", "m",
		"retry", "again", "q", `"saved"`, "4", "group", "g", "message", "m",
		"release", "back", "q", "", "2", "delay", "60",
		"complete", "twice", "q", "", "0",
		"complete", "twice", "q", "", "0",
		"complete", "nobody", "q", "", "0")
	require.NoError(t, err)
	answers := reply.([]any)
	require.Equal(t, "complete", answers[0])
	require.Contains(t, answers[1], "!lock_lost 6 41 theirs has been handed out to another worker: w2")
	require.Equal(t, []any{"scheduled", "5", "4", "5", "complete"}, answers[2:7])
	require.Contains(t, answers[7], "!not_running 5 34 twice is not currently running")
	require.Contains(t, answers[8], "!not_found 6 14 nobody does not exist")
	require.Equal(t, `"saved"`, string(e.Read("done").Data))
	require.Equal(t, "{}", string(e.Read("theirs").Data))
	require.Equal(t, "b", e.Read("on").Queue)
	require.Equal(t, qless.StateFailed, e.Read("bad").State)
	require.Equal(t, `"saved"`, string(e.Read("again").Data))
	require.Equal(t, qless.StateScheduled, e.Read("back").State)
	require.Equal(t, 5, e.Read("back").Remaining)
}
