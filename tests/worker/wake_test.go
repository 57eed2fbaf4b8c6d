package worker

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// The workers of these tests ask again only after an hour, unless woken.

// idleWorker starts a worker that completes all jobs, by default of the queue q, and waits until it
// is idle.
func (e *env) idleWorker(queues ...string) *testWorker {
	e.T.Helper()
	w := e.worker(qless.WorkerConfig{Queues: queues})
	w.Handle("*", nothing)
	return w.start()
}

func TestAnIdleWorkerWakesForWhatFallsDue(t *testing.T) {
	e := newLiveEnv(t)
	w := e.idleWorker()
	before := time.Now()
	require.Equal(t, "complete", w.outcome(e.Put("q", qless.Delay(200*time.Millisecond))).action)
	require.GreaterOrEqual(t, time.Since(before), 200*time.Millisecond)

	must(e.Queue("q").Recur(t.Context(), "K", nil, time.Second, qless.JID("r"), qless.Offset(200*time.Millisecond)))(t)
	require.Equal(t, "complete", w.outcome("r-1").action)
	require.Equal(t, "complete", w.outcome("r-2").action)
}

func TestIdleWorkerWakesForAnEarlierLongDelay(t *testing.T) {
	e := newLiveEnv(t)
	e.Put("q", qless.JID("j"), qless.Delay(300*time.Millisecond))
	require.Equal(t, "complete", e.idleWorker().outcome("j").action)
}

// quietPut puts a job like another client's script, but publishes nothing. The functions run before
// that, in the same step of the server.
func (e *env) quietPut(queue, jid string, before ...func(pipe redis.Pipeliner)) {
	e.T.Helper()
	ctx := e.T.Context()
	e.Put("elsewhere", qless.JID(jid))
	_, err := e.Redis.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, do := range before {
			do(pipe)
		}
		pipe.ZRem(ctx, "ql:q:elsewhere-work", jid)
		pipe.HSet(ctx, "ql:j:"+jid, "queue", queue)
		pipe.ZAdd(ctx, "ql:q:"+queue+"-work", zmember(0, jid))
		return nil
	})
	require.NoError(e.T, err)
}

// foreignPut closes some connections, and puts a job like other clients' scripts, which wake no
// worker, but publish to the log before the job exists.
func (e *env) foreignPut(queue, jid string, kill ...string) {
	e.T.Helper()
	e.quietPut(queue, jid, func(pipe redis.Pipeliner) {
		for _, id := range kill {
			pipe.ClientKillByFilter(e.T.Context(), "id", id)
		}
		told := fmt.Sprintf(`{"jid":%q,"event":"put","queue":%q}`, jid, queue)
		pipe.Publish(e.T.Context(), "ql:log", told)
	})
}

func TestAWorkerWaitingForADueJobNoticesOtherClients(t *testing.T) {
	e := newLiveEnv(t)
	e.Put("q", qless.Delay(10*time.Minute))
	w := e.idleWorker()
	e.relaysAre(1)
	e.foreignPut("q", "j")
	require.Equal(t, "complete", w.outcome("j").action)
}

// relaysAre waits until n workers relay.
func (e *env) relaysAre(n int64) {
	e.T.Helper()
	until(e.T, fmt.Sprint(n, " workers relay"), func() bool {
		return e.subscribers("ql:x:listen") == n
	})
}

// Of many workers that start together, most find that others relay. They do not wait for their turn
// to find that out.
func TestWorkerThatWaitsToRelayLooksForOtherRelays(t *testing.T) {
	e := newLiveEnv(t)
	ctx := t.Context()
	require.NoError(t, e.Redis.Set(ctx, "ql:x:relay", "another", 0).Err())
	w := e.worker(qless.WorkerConfig{})
	var claims atomic.Int32 // attempts to become a relay
	var others atomic.Int64 // the number of relays counted by the worker
	w.onAnswer(func(cmd redis.Cmder) {
		if counted, is := cmd.(*redis.MapStringIntCmd); is {
			others.Store(counted.Val()["ql:x:listen"])
		} else if cmd.Name() == "set" && cmd.Args()[1] == "ql:x:relay" {
			claims.Add(1)
		}
	})
	w.Handle("*", nothing)
	w.start()
	until(t, "it waits for its turn", func() bool { return claims.Load() > 2 })
	for range 2 {
		e.listen("ql:x:listen")
	}
	until(t, "it looks whether others relay", func() bool { return others.Load() == 2 })
	before := claims.Load()
	require.NoError(t, e.Redis.Del(ctx, "ql:x:relay").Err())
	require.Equal(t, "complete", w.outcome(e.Put("q")).action)
	require.Equal(t, before, claims.Load())
}

// relayed starts two workers of another queue, which relay, and then a worker of the queue q, which
// does not. The queue is known.
func (e *env) relayed() (relays [2]*testWorker, w *testWorker) {
	e.T.Helper()
	for i := range relays {
		relays[i] = e.idleWorker("other")
		e.relaysAre(int64(i) + 1)
	}
	w = e.idleWorker()
	before := time.Now()
	require.Equal(e.T, "complete", w.outcome(e.Put("q")).action)
	w.await(e.T, "an idle worker", 1, func(c tapped) bool { return c.idle && c.at.After(before) })
	e.relaysAre(2)
	return relays, w
}

func TestTwoWorkersHearOtherClientsForAll(t *testing.T) {
	e := newLiveEnv(t)
	relays, w := e.relayed()
	e.foreignPut("q", "j1")
	require.Equal(t, "complete", w.outcome("j1").action)

	relays[0].stop()
	e.foreignPut("q", "j2")
	require.Equal(t, "complete", w.outcome("j2").action, "the other one receives it")
	e.relaysAre(2)
	relays[1].stop()
	e.foreignPut("q", "j3")
	require.Equal(t, "complete", w.outcome("j3").action)
}

func TestOneRelayMayDie(t *testing.T) {
	e := newLiveEnv(t)
	relays, w := e.relayed()
	e.foreignPut("q", "j1", e.subscriptions(relays[1])...)
	require.Equal(t, "complete", w.outcome("j1").action)
}

// Jobs put while no relay was subscribed wake a worker when a relay subscribes again.
func TestAJobThatNoRelayNoticedWakesAWorker(t *testing.T) {
	e := newLiveEnv(t)
	relays, w := e.relayed()
	for i := range 1200 { // these precede the queue of the job
		queue := redis.Z{Score: 1, Member: fmt.Sprint("other", i)}
		require.NoError(t, e.Redis.ZAdd(t.Context(), "ql:queues", queue).Err())
	}
	e.foreignPut("q", "j", e.subscriptions(relays[:]...)...)
	require.Equal(t, "complete", w.outcome("j").action)
}

// subscriptions returns the ids of the workers' listening connections.
func (e *env) subscriptions(workers ...*testWorker) []string {
	e.T.Helper()
	clients := e.Redis.Do(e.T.Context(), "client", "list", "type", "pubsub").Val().(string)
	var ids []string
	for line := range strings.Lines(clients) {
		for _, w := range workers {
			if strings.Contains(line, " name="+w.rdb.Options().ClientName+" ") {
				id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
				ids = append(ids, id)
			}
		}
	}
	require.Len(e.T, ids, len(workers))
	return ids
}

func TestARelayWakesWorkersWhenItBeginsToListen(t *testing.T) {
	w := newLiveEnv(t).idleWorker()
	first := w.await(t, "a wake-up of all", 1, of("wake"))
	require.Equal(t, []string{"", ""}, first.args)
}

func TestWorkersCeaseToRelayWhenThereAreMany(t *testing.T) {
	t.Parallel()
	e := newLiveEnv(t)
	for i := range 2 {
		e.worker(qless.WorkerConfig{Queues: []string{"other"}, PollInterval: 50 * time.Millisecond}).start()
		e.relaysAre(int64(i) + 1)
	}
	others, more := e.listen("ql:x:listen"), e.listen("ql:x:listen")
	e.relaysAre(2)
	require.NoError(t, more.Close())
	require.NoError(t, others.Close())
	e.relaysAre(2)
}

func TestNoMoreThanTwoOfManyWorkersRelay(t *testing.T) {
	const workers = 20
	e := newLiveEnv(t)
	var all []*testWorker
	for range workers {
		all = append(all, e.worker(qless.WorkerConfig{PollInterval: 200 * time.Millisecond}))
	}
	for _, w := range all {
		require.NoError(t, w.Start(t.Context()))
	}
	for _, w := range all {
		w.idle(2)
	}
	e.relaysAre(2)
	for _, w := range all[:workers-2] {
		w.stop()
		e.relaysAre(2)
	}
	all[workers-2].stop()
	e.relaysAre(1)
}

func TestAPutWakesOneOfManyWorkers(t *testing.T) {
	const workers, puts = 50, 20
	e := newLiveEnv(t)
	handler, done := passes()
	var all []*testWorker
	for range workers {
		all = append(all, e.working(qless.WorkerConfig{Concurrency: 1}, handler))
	}
	before := reserves(all)
	for range puts {
		require.Equal(t, e.Put("q"), soon(t, "a job", done).JID)
	}
	// Each job makes its worker ask twice. Some may also ask because they have begun to listen. If
	// each job woke all, there would be a thousand requests.
	require.Less(t, reserves(all)-before, puts*3+workers*2)
}

func TestAnIdleWorkerAsksNothingBetweenItsPolls(t *testing.T) {
	w := newLiveEnv(t).worker(qless.WorkerConfig{PollInterval: 200 * time.Millisecond}).start()
	first, last := w.idle(4), w.idle(8)
	require.GreaterOrEqual(t, last.at.Sub(first.at), 4*180*time.Millisecond-10*time.Millisecond)
	require.Zero(t, w.count(func(c tapped) bool { return c.script != "reserve" && c.at.After(first.at) }))
}

// Queues stay known after their jobs are done.
func TestAPatternFindsJobsAmongManyEmptyQueues(t *testing.T) {
	e := newLiveEnv(t)
	e.know(2500)
	w := e.working(qless.WorkerConfig{Queues: []string{"*"}, PollInterval: 100 * time.Millisecond}, nothing)
	for _, queue := range []string{"old2400", "new1", "new2"} {
		require.Equal(t, "complete", w.outcome(e.Put(queue)).action)
	}
	require.Len(t, w.Stats().Queues, 1000)
	require.Equal(t, 1, w.log.count("the patterns match more queues than a worker asks"))
	require.Equal(t, 1, w.log.count("queues=2500 asked=1000"))

	e.Redis.ZRemRangeByRank(t.Context(), "ql:queues", 0, 1900)
	left := int(e.Redis.ZCard(t.Context(), "ql:queues").Val())
	until(t, "all are asked", func() bool { return len(w.Stats().Queues) == left })
	asked := w.count(of("queues.ready"))
	w.idle(w.count(func(c tapped) bool { return c.idle }) + 3)
	require.Equal(t, asked, w.count(of("queues.ready")))
}

func TestAPausedWorkerLeavesWakeUpsToOthers(t *testing.T) {
	e := newLiveEnv(t)
	one, two := e.idleWorker(), e.idleWorker()
	one.Pause()
	one.departed()
	require.True(t, one.Stats().Paused)
	for range 3 {
		require.Equal(t, "complete", two.outcome(e.Put("q")).action)
	}
	one.Resume()
	two.Pause()
	require.Equal(t, "complete", one.outcome(e.Put("q")).action)
}

func TestABusyWorkerLeavesWakeUpsToOthers(t *testing.T) {
	e := newLiveEnv(t)
	one, running, end := e.busyWorker(qless.WorkerConfig{Concurrency: 1})
	first := e.begun(running)
	two := e.idleWorker()
	for range 3 {
		require.Equal(t, "complete", two.outcome(e.Put("q")).action)
	}
	end <- nil
	require.Equal(t, "complete", one.outcome(first).action)
}

func TestAStoppedWorkerLeavesItsWaitToOthers(t *testing.T) {
	e := newLiveEnv(t)
	one := e.idleWorker()
	two := e.idleWorker()
	e.Put("q", qless.JID("j"), qless.Delay(500*time.Millisecond))
	claimed := func(c tapped) bool { return c.idle && c.reply.([]any)[2] == "q" }
	until(t, "one of them waits", func() bool { return one.count(claimed)+two.count(claimed) > 0 })
	if one.count(claimed) == 0 {
		one, two = two, one
	}
	one.stop()
	require.Equal(t, "complete", two.outcome("j").action)
}

func TestAWorkerWithADeadConnectionIsPassedOver(t *testing.T) {
	e, dead, proxy := proxiedEnv(t)
	w := e.idleWorker()
	dead.offline.Store(true)
	proxy.CutAll()
	e.awaitNoSubscribers(dead.Name())
	jid := e.Put("q")
	before := time.Now()
	// No relay subscribes to the log until the other worker notices. Only that worker's next poll
	// may find the job, unless the worker itself subscribes.
	if e.subscribers("ql:x:listen") == 0 {
		must(e.Run(t.Context(), "wake", "", "q"))(t)
	}
	require.Equal(t, "complete", w.outcome(jid).action)
	require.Less(t, time.Since(before), patience)

	dead.offline.Store(false)
	w.stop()
	dead.idle(dead.count(func(c tapped) bool { return c.idle }) + 1)
	require.Equal(t, "complete", dead.outcome(e.Put("q")).action, "it listens again")
}
