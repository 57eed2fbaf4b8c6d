package worker

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/stacks"
)

// blockHere and blockThere are named in the stacks of jobs.
func blockHere(end <-chan bool)  { <-end }
func blockThere(end <-chan bool) { <-end }

// stack asks a worker for the stack of a job.
func (e *env) stack(w *qless.Worker, jid string) stacks.Answer {
	e.T.Helper()
	answer, err := stacks.Ask(e.T.Context(), e.Client, jid, "running", w.Name())
	require.NoError(e.T, err)
	return answer
}

func TestAWorkerTellsTheStackOfAJob(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{Stacks: true})
	end, begun := make(chan bool), make(chan bool)
	for klass, block := range map[string]func(<-chan bool){"Here": blockHere, "There": blockThere} {
		w.Handle(klass, func(context.Context, *qless.Job) error {
			begun <- true
			block(end)
			return nil
		})
	}
	w.handles = true
	w.start()
	here, err := e.Queue("q").Put(t.Context(), "Here", nil)
	require.NoError(t, err)
	there, err := e.Queue("q").Put(t.Context(), "There", nil)
	require.NoError(t, err)
	for range 2 {
		soon(t, "the jobs run", begun)
	}

	answer := e.stack(w.Worker, here)
	require.Contains(t, answer.Stack, "worker.blockHere(")
	require.NotContains(t, answer.Stack, "blockThere")
	answer = e.stack(w.Worker, there)
	require.Contains(t, answer.Stack, "worker.blockThere(")
	require.NotContains(t, answer.Stack, "blockHere")
	require.Equal(t, "the worker does not run the job now", e.stack(w.Worker, "other").Problem)
	require.Empty(t, e.Redis.Keys(t.Context(), "*stack*").Val(), "nothing stays")

	close(end)
	until(t, "the jobs have ended", func() bool { return len(w.Stats().Running) == 0 })
	require.Equal(t, "the worker does not run the job now", e.stack(w.Worker, here).Problem)
	require.NoError(t, w.Stop(t.Context()))
	require.Contains(t, e.stack(w.Worker, here).Problem, "does not listen")
	other := e.Redis.Subscribe(t.Context(), "ql:w:"+w.Name())
	defer func() { _ = other.Close() }()
	require.NoError(t, errOf(other.Receive(t.Context())))
	require.Contains(t, e.stack(w.Worker, here).Problem, "has not answered within 2s")
}

func TestAWorkerTellsNoStackUnlessAllowed(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	end, begun := make(chan bool), make(chan bool)
	w.Handle("K", func(context.Context, *qless.Job) error {
		begun <- true
		blockHere(end)
		return nil
	})
	w.start()
	jid := e.Put("q")
	soon(t, "the job runs", begun)
	require.Equal(t, stacks.Answer{Problem: "the worker does not tell stacks: its WorkerConfig has no Stacks"},
		e.stack(w.Worker, jid))
	close(end)
}

func TestTheStackOfAMemberIsThatOfItsCall(t *testing.T) {
	e := newLiveEnv(t)
	w := e.bulk(qless.WorkerConfig{Stacks: true}, qless.Bulk{Max: 2})
	w.put(0, 2)
	w.begin()
	soon(t, "the call", w.calls)
	for _, jid := range []string{"0", "1"} {
		require.Contains(t, e.stack(w.Worker, jid).Stack, "(*env).bulk.func1(")
	}
	w.end <- nil
}
