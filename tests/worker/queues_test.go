package worker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// know makes queues without jobs known to the server.
func (e *env) know(queues int) {
	e.T.Helper()
	p := e.Redis.Pipeline()
	for i := range queues {
		p.ZAdd(e.T.Context(), "ql:queues", zmember(float64(i), fmt.Sprint("old", i)))
	}
	require.NoError(e.T, errOf(p.Exec(e.T.Context())))
}

// reserves returns the number of workers' requests for jobs.
func reserves(workers []*testWorker) int {
	sum := 0
	for _, w := range workers {
		sum += w.count(of("reserve"))
	}
	return sum
}

func TestANewQueueDisturbsNoWorkerThatDoesNotWantIt(t *testing.T) {
	e := newLiveEnv(t)
	var all []*testWorker
	for _, queues := range []string{"q", "other !q", "q other", "q mail-* !mail-slow", "q mail-*"} {
		all = append(all, e.worker(qless.WorkerConfig{Queues: strings.Fields(queues)}).start())
	}
	require.EqualValues(t, 2, e.subscribers("ql:x:queues"), "those with patterns")
	before := reserves(all)
	for i := range 30 {
		e.Put(fmt.Sprint("new", i))
	}
	for _, w := range all { // each worker receives this after that
		require.NoError(t, e.Redis.Publish(t.Context(), "ql:x:wake:"+w.Name(), "").Err())
	}
	until(t, "each has asked", func() bool { return reserves(all) >= before+len(all) })
	require.LessOrEqual(t, reserves(all), before+2*len(all), "two may have begun to relay")
}

// sent returns the number of bytes that the server has sent.
func (e *env) sent() int {
	e.T.Helper()
	bytes := must(strconv.Atoi(e.Redis.InfoMap(e.T.Context(), "stats").Item("Stats", "total_net_output_bytes")))(e.T)
	return bytes
}

func TestANewQueueIsWorkedWithoutReadingTheListOfAll(t *testing.T) {
	const workers, queues, appear = 20, 5000, 10
	e := newLiveEnv(t)
	e.know(queues)
	var lists atomic.Int32
	watch := qless.ClientConfig{Observer: func(_ context.Context, call qless.Command) {
		if call.Name == "queues" {
			lists.Add(1)
		}
	}}
	handler, done := passes()
	var all []*testWorker
	for range workers {
		w := e.workerAt(e.Server.Addr(), qless.WorkerConfig{Queues: []string{"q", "new-*"}}, watch)
		w.Handle("K", handler)
		all = append(all, w.start())
	}
	e.settle(all...)
	before := e.sent()
	for i := range appear {
		queue := fmt.Sprint("new-", i)
		e.Put(queue)
		require.Equal(t, queue, soon(t, "a job", done).Queue)
	}
	for _, w := range all {
		until(t, "it asks the queues", func() bool { return len(w.Stats().Queues) == 1+appear })
	}
	require.EqualValues(t, workers, lists.Load(), "each at its start")
	t.Logf("%d bytes a worker and queue", (e.sent()-before)/workers/appear)
}

// settle makes workers check for messages missed before they listened.
func (e *env) settle(workers ...*testWorker) {
	e.T.Helper()
	for range 2 { // the first check may have been under way
		for _, w := range workers {
			asked := w.count(of("reserve"))
			require.NoError(e.T, e.Redis.Publish(e.T.Context(), "ql:x:wake:"+w.Name(), "").Err())
			until(e.T, "it asks", func() bool { return w.count(of("reserve")) > asked })
		}
	}
}

// Of the workers that are notified of a new queue, one polls all of their queues, and the others
// rely on it.
func TestOneWorkerLooksAtANewQueueForAllOthers(t *testing.T) {
	e, w := workerEnv(t, qless.WorkerConfig{Queues: []string{"q", "new-*"}}, nothing)
	e.settle(w.start())
	require.Equal(t, "complete", w.outcome(e.Put("new-0")).action)
	first := w.await(t, "it asks", 1, func(c tapped) bool {
		return of("reserve")(c) && slices.Contains(c.args, "new-0")
	})
	require.Contains(t, first.args, "polls")
}

// unannouncedPut puts a job like a client that does not announce new queues.
func (e *env) unannouncedPut(queue, jid string) {
	e.T.Helper()
	e.quietPut(queue, jid)
	e.Redis.ZAdd(e.T.Context(), "ql:queues", zmember(1, queue))
}

func TestANewQueueOfAnotherClientIsFoundByThePoll(t *testing.T) {
	e := newLiveEnv(t)
	e.know(100)
	w := e.worker(qless.WorkerConfig{Queues: []string{"*-new"}, PollInterval: 100 * time.Millisecond})
	w.Handle("K", nothing)
	require.NoError(t, w.Start(t.Context()))
	for i := range 3 {
		e.Put(fmt.Sprint(i, "-other"))
		e.unannouncedPut(fmt.Sprint(i, "-new"), fmt.Sprint("j", i))
		require.Equal(t, "complete", w.outcome(fmt.Sprint("j", i)).action)
	}
	require.NoError(t, e.ForgetQueue(t.Context(), "0-new"))
	until(t, "it is no longer asked", func() bool { return len(w.Stats().Queues) == 2 })
}

// A worker also waits for the queues of its last turn: it is woken for them, and asks them.
func TestAWorkerThatIsWokenForAQueueAsksIt(t *testing.T) {
	e := newLiveEnv(t)
	e.know(1500)
	w := e.worker(qless.WorkerConfig{Queues: []string{"*"}}, nothing)
	require.NoError(t, w.Start(t.Context()))
	until(t, "it waits", func() bool { return len(w.Stats().Queues) == 1000 })
	asked, queue := w.Stats().Queues, ""
	for i := range 1500 {
		if name := fmt.Sprint("old", i); !slices.Contains(asked, name) {
			queue = name
		}
	}
	e.Redis.ZAdd(t.Context(), "ql:x:idle:"+queue, zmember(0, w.Name()))
	w.idle(1)
	require.Equal(t, "complete", w.outcome(e.Put(queue)).action)
	w.log.await(t, "the patterns match more queues than a worker asks at once", 1)
}
