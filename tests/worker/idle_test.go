package worker

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/tests/repairs"
)

// A sleeper imitates an idle worker: it can be woken, but does nothing.
type sleeper struct {
	e      *env
	name   string
	wakes  <-chan *redis.Message
	pubsub *redis.PubSub
}

// sleeper creates an idle worker of some queues, listening for wake-ups.
func (e *env) sleeper(name string, queues ...string) *sleeper {
	e.T.Helper()
	pubsub := e.listen("ql:x:wake:" + name)
	s := &sleeper{e: e, name: name, wakes: pubsub.Channel(), pubsub: pubsub}
	s.rest(queues...)
	return s
}

// listen subscribes to a channel until the test ends.
func (e *env) listen(channel string) *redis.PubSub {
	e.T.Helper()
	pubsub := e.Redis.Subscribe(e.T.Context(), channel)
	e.T.Cleanup(func() { _ = pubsub.Close() })
	must(pubsub.Receive(e.T.Context()))(e.T)
	return pubsub
}

// rest makes the sleeper idle again.
func (s *sleeper) rest(queues ...string) reservation {
	s.e.T.Helper()
	r := s.e.reserve(s.name, 1, "ordered", "0", "", queues...)
	require.Empty(s.e.T, r.jids)
	return r
}

// woken requires that the sleeper was woken for a queue.
func (s *sleeper) woken(queue string) {
	s.e.T.Helper()
	require.Equal(s.e.T, queue, soon(s.e.T, "a wake-up of "+s.name, s.wakes).Payload)
}

// asleep requires that the sleeper was not woken: a message sent now is the first to arrive.
func (s *sleeper) asleep() {
	s.e.T.Helper()
	require.NoError(s.e.T, s.e.Redis.Publish(s.e.T.Context(), "ql:x:wake:"+s.name, "nothing").Err())
	s.woken("nothing")
}

// waits puts the job j into a queue, and runs also pops it.
func waits(e *env, queue string) { e.Put(queue, qless.JID("j")) }

func runs(e *env, queue string) { waits(e, queue); e.Pop(queue) }

// fills makes the queue q run as many jobs as it may, while another job waits.
func fills(e *env) {
	e.Set("q-max-concurrency", 1)
	runs(e, "q")
	e.Put("q")
}

// Every way of making a job ready wakes one worker of its queue: the longest idle worker.
// tests/wake has more ways, and workers that run the jobs.
func TestWhatWakesAWorker(t *testing.T) {
	ctx := t.Context()
	onJob := func(act func(job *qless.Job) error) func(e *env) error {
		return func(e *env) error { return act(e.Read("j")) }
	}
	cancel := onJob(func(job *qless.Job) error { return job.Cancel(ctx) })
	complete := onJob(func(job *qless.Job) error { return job.Complete(ctx) })
	fail := onJob(func(job *qless.Job) error { return job.Fail(ctx, "g", "m") })
	next := onJob(func(job *qless.Job) error { return job.Next(ctx, "q") })
	retry := onJob(func(job *qless.Job) error { return errOf(job.Retry(ctx, 0, "", "")) })
	moveTo := func(queue string) func(e *env) error {
		return onJob(func(job *qless.Job) error { return job.Move(ctx, queue) })
	}
	nothing := func(*env) {}
	waitsElsewhere := func(e *env) { waits(e, "other") }
	runsElsewhere := func(e *env) { runs(e, "other") }
	runsHere := func(e *env) { runs(e, "q") }
	for name, c := range map[string]struct {
		before func(e *env)
		act    func(e *env) error
	}{
		"put": {nothing, func(e *env) error { e.Put("q"); return nil }},
		"put with a short delay": {nothing, func(e *env) error {
			e.Put("q", qless.Delay(30*time.Second))
			return nil
		}},
		"recur": {nothing, func(e *env) error {
			return errOf(e.Queue("q").Recur(ctx, "K", nil, time.Minute))
		}},
		"unpause": {nothing, func(e *env) error { return e.Queue("q").Resume(ctx) }},
		"a client whose script wakes no workers": {nothing, func(e *env) error {
			return errOf(e.Run(ctx, "wake", "", "q", "other"))
		}},
		"unfail": {func(e *env) {
			runs(e, "other")
			require.NoError(e.T, e.Read("j").Fail(ctx, "g", "m"))
		}, func(e *env) error { return errOf(repairs.UnfailInto(ctx, e.Client, "q", "g", 5)) }},
		"move":           {waitsElsewhere, moveTo("q")},
		"a job moves on": {runsElsewhere, next},
		"retry":          {runsHere, retry},
		"timeout":        {runsHere, func(e *env) error { return repairs.TimeOut(ctx, e.Client, "j") }},
		"a dependency completes": {func(e *env) {
			waits(e, "other")
			e.Put("q", qless.DependsOn{"j"})
			e.Pop("other")
		}, complete},
		"a dependency ends": {func(e *env) {
			e.Put("other", qless.JID("k"))
			e.Put("q", qless.JID("j"), qless.DependsOn{"k"})
		}, onJob(func(job *qless.Job) error { return job.Undepend(ctx, "k") })},
		"a slot is free by complete": {fills, complete},
		"a slot is free by fail":     {fills, fail},
		"a slot is free by cancel":   {fills, cancel},
		"a slot is free by a move":   {fills, moveTo("other")},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			c.before(e)
			one, two := e.sleeper("one", "q"), e.sleeper("two", "q")
			elsewhere := e.sleeper("elsewhere", "another")
			require.NoError(t, c.act(e))
			one.woken("q")
			two.asleep()
			elsewhere.asleep()
		})
	}
}

func TestEachJobWakesTheNextWorker(t *testing.T) {
	e := newEnv(t)
	var sleepers []*sleeper
	for i := range 50 {
		sleepers = append(sleepers, e.sleeper(fmt.Sprint("w", i), "q"))
	}
	for i, s := range sleepers[:10] {
		e.Put("q")
		s.woken("q")
		for _, other := range sleepers[i+1:] {
			other.asleep()
		}
	}
}

func TestAWakeUpPassesOverWorkersThatAreGone(t *testing.T) {
	e := newEnv(t)
	gone, busy, here := e.sleeper("gone", "q"), e.sleeper("busy", "q"), e.sleeper("here", "q")
	require.NoError(t, gone.pubsub.Close())
	e.awaitNoSubscribers("gone")
	e.reserve("busy", 0, "ordered", "0", "", "q")
	e.Put("q")
	here.woken("q")
	busy.asleep()
}

// subscribers returns the number of connections that are subscribed to a channel.
func (e *env) subscribers(channel string) int64 {
	e.T.Helper()
	return e.Redis.PubSubNumSub(e.T.Context(), channel).Val()[channel]
}

// awaitNoSubscribers waits until the server knows that a worker's connection has ended.
func (e *env) awaitNoSubscribers(worker string) {
	e.T.Helper()
	until(e.T, "it is gone", func() bool { return e.subscribers("ql:x:wake:"+worker) == 0 })
}

func TestFullWorkerWakesAnotherForTheRest(t *testing.T) {
	for name, fill := range map[string]func(e *env){
		"waiting":   func(e *env) { e.Put("q") },
		"scheduled": func(e *env) { e.Put("q", qless.Delay(time.Second)) },
		"recurring": func(e *env) {
			must(e.Queue("q").Recur(t.Context(), "K", nil, time.Hour, qless.Offset(time.Second)))(t)
		},
		"lost": func(e *env) {
			e.Set("grace-period", 0)
			e.Set("q-heartbeat", 1)
			e.Put("q")
			e.Pop("q")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inOrders(t, func(t *testing.T, e *env, order string) {
				fill(e)
				fill(e)
				e.Redis.Del(t.Context(), "ql:x:idle")
				e.idle("other", "q")
				wakes := e.listen("ql:x:wake:other").Channel()
				e.Clock.Advance(2 * time.Second)
				require.Len(t, e.reserve("w", 1, order, "0", "", "q").jids, 1)
				require.Equal(t, "q", soon(t, "a wake-up", wakes).Payload)
			})
		})
	}
}

// A worker may be woken, and then be paused or stopped before it asks.
func TestAWorkerNoLongerIdlePassesOnItsWakeUp(t *testing.T) {
	e := newEnv(t)
	one, two := e.sleeper("one", "q"), e.sleeper("two", "q")
	e.Put("q")
	one.woken("q")
	e.reserve("one", 0, "ordered", "0", "", "q")
	two.woken("q")
}

func TestOneIdleWorkerWaitsForWhatFallsDue(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.Delay(30*time.Second))
	one := e.reserve("one", 1, "ordered", "0", "", "q")
	require.InDelta(t, 30, one.wait, 0.001)
	require.Equal(t, "q", one.claim)
	two := e.reserve("two", 1, "ordered", "0", "", "q")
	require.InDelta(t, 3600, two.wait, 0.001, "the other one need not")
	require.Empty(t, two.claim)

	e.Put("q", qless.Delay(10*time.Second))
	two = e.reserve("two", 1, "ordered", "0", "", "q")
	require.InDelta(t, 10, two.wait, 0.001, "no worker waits for the earlier due time")
	require.Equal(t, "q", two.claim)
}

func TestAnotherWorkerWaitsWhenTheFirstLeaves(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.Delay(30*time.Second))
	require.Equal(t, "q", e.reserve("one", 1, "ordered", "0", "", "q").claim)
	two := e.sleeper("two", "q")
	e.reserve("one", 0, "ordered", "0", "q", "q")
	two.woken("q")
	require.Equal(t, "q", two.rest("q").claim)
}

func TestAWorkerWaitsForTheEndOfLocks(t *testing.T) {
	e := newEnv(t)
	e.Set("grace-period", 5)
	e.Put("q")
	e.Pop("q")
	r := e.reserve("one", 1, "ordered", "0", "", "q")
	require.InDelta(t, 60, r.wait, 0.001)
	e.Clock.Advance(61 * time.Second)
	r = e.reserve("one", 1, "ordered", "0", r.claim, "q")
	require.Empty(t, r.jids)
	require.InDelta(t, 5, r.wait, 0.001, "the grace period")
	e.Clock.Advance(6 * time.Second)
	require.Len(t, e.reserve("one", 1, "ordered", "0", r.claim, "q").jids, 1)
}
