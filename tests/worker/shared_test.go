package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/lease"
	"github.com/qless/qless-go/shards"
)

// A sharing is a client with several workers that ask again only after an hour, unless woken. Each
// worker has a separate queue.
type sharing struct {
	*env
	*tap
	client *qless.Client
	worked chan string // jids
	all    []*qless.Worker
	queues []string // the workers' queues
}

// shares starts workers of one client, and waits until they are idle. Their queues are named name
// and a number.
func (e *env) shares(name string, workers int) *sharing {
	e.T.Helper()
	s := &sharing{env: e, tap: e.newTap(), worked: make(chan string, 1000)}
	own := e.Server.Client(e.T)
	own.AddHook(s.tap)
	s.client = e.NewLiveClient(own, qless.ClientConfig{})
	e.T.Cleanup(func() { _ = s.client.Close() })
	for i := range workers {
		s.add(fmt.Sprint(name, i))
	}
	return s
}

// sharingEnv is newLiveEnv with the workers of shares.
func sharingEnv(t testing.TB, name string, workers int) (*env, *sharing) {
	t.Helper()
	e := newLiveEnv(t)
	return e, e.shares(name, workers)
}

// add starts a worker, and waits until it is idle and subscribed.
func (s *sharing) add(queue string, patterns ...string) {
	s.T.Helper()
	w := newWorker(s.T, s.client, qless.WorkerConfig{
		Queues: append([]string{queue}, patterns...), PollInterval: time.Hour,
	})
	w.Handle("K", func(_ context.Context, job *qless.Job) error { s.worked <- job.JID; return nil })
	require.NoError(s.T, w.Start(s.T.Context()))
	s.T.Cleanup(func() { _ = w.Stop(ended()) })
	s.all, s.queues = append(s.all, w), append(s.queues, queue)
	s.tap.await(s.T, "an idle worker", 1, func(c tapped) bool { return c.idle && c.args[0] == w.Name() })
}

// stops stops workers.
func (s *sharing) stops(workers ...*qless.Worker) {
	s.T.Helper()
	for _, w := range workers {
		require.NoError(s.T, w.Stop(s.T.Context()))
	}
}

// wake puts a job into queues, and waits until their workers have it.
func (s *sharing) wake(queues ...string) {
	s.T.Helper()
	for _, queue := range queues {
		require.Equal(s.T, s.Put(queue), soon(s.T, "a job of "+queue, s.worked))
	}
}

// listeners returns the ids of the subscribed connections.
func (e *env) listeners() (ids []string) {
	e.T.Helper()
	clients := e.Redis.Do(e.T.Context(), "client", "list", "type", "pubsub").Val().(string)
	for line := range strings.Lines(clients) {
		id, _, _ := strings.Cut(line, " ")
		ids = append(ids, id)
	}
	return ids
}

// listensBy waits until that many connections are subscribed.
func (e *env) listensBy(connections int) {
	e.T.Helper()
	until(e.T, fmt.Sprint(connections, " connections listen"), func() bool {
		return len(e.listeners()) == connections
	})
}

// hears returns the number of channels with subscribers that match a pattern.
func (e *env) hears(pattern string) int {
	e.T.Helper()
	return len(e.Redis.PubSubChannels(e.T.Context(), pattern).Val())
}

func TestAClientListensByOneConnection(t *testing.T) {
	e, s := sharingEnv(t, "q", 20)
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	jid := e.Put("elsewhere")
	calls.Go(func() { _, _ = s.client.Wait(ctx, jid) })
	calls.Go(func() {
		_, _ = lease.New(s.client).Take(ctx, lease.Request{Queues: []string{"received"}})
	})
	t.Cleanup(func() { cancel(); calls.Wait() })
	until(t, "all listen", func() bool {
		return e.hears("ql:x:done:*") == 1 && e.hears("ql:x:wake:*") == 21
	})
	e.listensBy(1)
	s.wake(s.queues...)
	e.shares("other", 3)
	e.listensBy(2)

	cancel()
	calls.Wait()
	s.stops(s.all...)
	require.NoError(t, s.client.Close())
	e.listensBy(1)
}

// No messages about jobs arrive while the connection is broken.
func TestAllWorkersHearAfterTheirConnectionBroke(t *testing.T) {
	e, s := sharingEnv(t, "q", 5)
	for range 3 {
		require.NoError(t, e.Redis.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err())
		s.wake(s.queues...)
		e.listensBy(1)
	}
}

func TestAWorkerThatStopsLeavesNoChannels(t *testing.T) {
	e, s := sharingEnv(t, "q", 3)
	s.add("q3", "pattern-*")
	require.Equal(t, 1, e.hears("ql:x:queues"))
	for _, i := range []int{0, 3} {
		s.stops(s.all[i])
		until(t, "its channels are gone", func() bool { return e.hears("*"+s.all[i].Name()) == 0 })
	}
	require.Zero(t, e.hears("ql:x:queues"))
	e.listensBy(1)
	s.wake("q1", "q2", "q1", "q2")
	s.stops(s.all[1:3]...)
	e.listensBy(0)
	s.add("q0")
	s.wake("q0")
}

func TestTheWorkersOfAClientRelayTogether(t *testing.T) {
	e := newLiveEnv(t)
	first := e.shares("first", 5)
	e.relaysAre(1)
	for i, w := range first.all {
		jid := fmt.Sprint("j", i)
		e.foreignPut(first.queues[i], jid)
		require.Equal(t, jid, soon(t, "a job of another client", first.worked))
		if i < 4 {
			first.stops(w)
			require.EqualValues(t, 1, e.subscribers("ql:x:listen"), "the others continue")
		}
	}

	second, third := e.shares("second", 3), e.shares("third", 3)
	e.relaysAre(2)
	first.stops(first.all[4])
	e.listensBy(2)
	second.wake("second0") // they check whether the other one relays
	third.wake("third0")
	e.relaysAre(2)
	for _, s := range []*sharing{second, third} {
		s.stops(s.all[1:]...)
		require.EqualValues(t, 2, e.subscribers("ql:x:listen"))
	}
	second.stops(second.all[0])
	e.relaysAre(1)
	e.foreignPut("third0", "last")
	require.Equal(t, "last", soon(t, "a job of another client", third.worked))
}

// A worker held up by the server or its handlers does not hold up other workers of its client.
func TestASlowWorkerKeepsNoOtherFromHearing(t *testing.T) {
	const messages = 2000
	e, s := sharingEnv(t, "q", 2)
	slow := s.all[0].Name()
	held, release := make(chan bool, messages), make(chan struct{})
	t.Cleanup(func() { close(release) }) // before the workers are stopped
	s.refuseWith(func(script string, args []any) error {
		if script == "reserve" && slices.Contains(args, any(slow)) {
			held <- true
			<-release
		}
		return nil
	})
	first := e.Put("q0")
	soon(t, "a question that is held up", held)
	pipe := e.Redis.Pipeline()
	for range messages {
		pipe.Publish(t.Context(), "ql:x:wake:"+slow, "q0")
		pipe.Publish(t.Context(), "ql:w:"+slow, `{"event":"canceled","jid":"j"}`)
	}
	require.NoError(t, errOf(pipe.Exec(t.Context())))
	for range 10 {
		jid, got := s.Put("q1"), soon(t, "a job", s.worked)
		if got == first { // through a request that was under way
			got = soon(t, "a job", s.worked)
		}
		require.Equal(t, jid, got)
	}
}

func TestWorkersOutliveTheirClientsClose(t *testing.T) {
	e, s := sharingEnv(t, "q", 2)
	waited := make(chan error, 1)
	jid := e.Put("elsewhere")
	go func() { waited <- errOf(s.client.Wait(context.Background(), jid)) }()
	until(t, "it waits", func() bool { return e.hears("ql:x:done:*") == 1 })
	require.NoError(t, s.client.Close())
	requireCode(t, qless.ErrUnavailable, soon(t, "the end of the wait", waited))
	until(t, "the wait has left", func() bool { return e.hears("ql:x:done:*") == 0 })
	s.wake(s.queues...)
	require.NoError(t, s.client.Close())
	s.stops(s.all...)
	e.listensBy(0)
}

// A deafness makes the server report to each of several workers, once, that it does not listen. The
// answers arrive when all have asked.
type deafness struct {
	asked sync.WaitGroup // done when all have asked

	mu       sync.Mutex
	notified map[string]bool // workers, by name
}

func newDeafness(workers int) *deafness {
	d := &deafness{notified: map[string]bool{}}
	d.asked.Add(workers)
	return d
}

// alter changes the reply of a reserve without jobs.
func (d *deafness) alter(cmd redis.Cmder) {
	own, ok := cmd.(interface{ Val() any })
	if !ok || scriptName(cmd) != "reserve" {
		return
	}
	reply, ok := own.Val().([]any)
	if !ok || len(reply) != 4 || !d.isNew(fmt.Sprint(cmd.Args()[6])) {
		return
	}
	reply[3] = int64(-1)
	d.asked.Done()
	d.asked.Wait()
}

// isNew reports whether a worker was not notified yet.
func (d *deafness) isNew(worker string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.notified[worker] {
		return false
	}
	d.notified[worker] = true
	return true
}

// If several workers receive no messages, their connection is replaced once.
func TestUnreachedWorkersReplaceTheirConnectionOnce(t *testing.T) {
	e, s := sharingEnv(t, "q", 5)
	s.wake(s.queues...)
	before := e.listeners()
	s.onAnswer(newDeafness(5).alter)
	begun := 0
	for _, command := range e.Server.Monitored(t, func() {
		for _, w := range s.all {
			require.NoError(t, e.Redis.Publish(t.Context(), "ql:x:wake:"+w.Name(), "").Err())
		}
		until(t, "the connection is replaced", func() bool {
			after := e.listeners()
			return len(after) == 1 && after[0] != before[0]
		})
		s.wake(s.queues...)
	}) {
		if slices.Equal(command.Words, []string{"subscribe", "ql:x:waits"}) {
			begun++
		}
	}
	require.Equal(t, 1, begun)
	e.listensBy(1)
}

// shards returns clients for the namespaces s0, s1 and so on.
func (e *env) shards(namespaces int) (clients []*qless.Client) {
	e.T.Helper()
	for i := range namespaces {
		config := qless.ClientConfig{Namespace: fmt.Sprintf("s%d:", i)}
		clients = append(clients, e.NewLiveClient(e.Redis, config))
	}
	return clients
}

func TestAGroupListensByOneConnection(t *testing.T) {
	const namespaces = 3
	e := newLiveEnv(t)
	elsewhere := e.NewLiveClient(testkit.Start(t).Client(t), qless.ClientConfig{})
	clients := append(e.shards(namespaces), elsewhere)
	group, err := qless.NewWorkerGroup(clients, qless.WorkerConfig{
		Queues: []string{"q"}, PollInterval: time.Hour,
	})
	require.NoError(t, err)
	worked := make(chan string, 10)
	group.Handle("K", func(_ context.Context, job *qless.Job) error { worked <- job.JID; return nil })
	require.NoError(t, group.Start(t.Context()))
	t.Cleanup(func() { _ = group.Stop(context.Background()) })
	for i, w := range group[:namespaces] {
		wakes, listen := fmt.Sprintf("s%d:x:wake:%s", i, w.Name()), fmt.Sprintf("s%d:x:listen", i)
		until(t, "the worker is subscribed, and relays", func() bool {
			heard := e.Redis.PubSubNumSub(t.Context(), wakes, listen).Val()
			idle := e.Redis.SIsMember(t.Context(), fmt.Sprintf("s%d:x:idle", i), w.Name()).Val()
			return idle && heard[wakes] == 1 && heard[listen] == 1
		})
	}
	e.listensBy(1)
	for _, when := range []string{"at first", "when a client is closed"} {
		for _, client := range clients {
			jid := must(client.Queue("q").Put(t.Context(), "K", nil))(t)
			require.Equal(t, jid, soon(t, "a job", worked), when)
		}
		require.NoError(t, clients[0].Close())
	}
	require.NoError(t, group.Stop(t.Context()))
	e.listensBy(0)
}

func TestAGroupWorksAllShards(t *testing.T) {
	e := newLiveEnv(t)
	ctx := t.Context()
	sharded := must(shards.New(shards.ByJID, e.shards(3)...))(t)
	group, err := qless.NewWorkerGroup(sharded.Clients(), qless.WorkerConfig{
		Queues: []string{"q"}, PollInterval: time.Hour,
		Schedules: []qless.Schedule{newSchedule("tick", "@every 1s", "q", "Tick", nil)},
	})
	require.NoError(t, err)
	worked, ticks := make(chan string, 1000), make(chan string, 1000)
	group.Handle("K", qless.Typed(func(_ context.Context, job *qless.Job, n int) error { worked <- job.JID; return nil }))
	group.Handle("Tick", func(_ context.Context, job *qless.Job) error { ticks <- job.JID; return nil })
	for _, w := range group {
		require.Error(t, w.Healthy())
	}
	done := make(chan error, 1)
	go func() { done <- group.Run(ctx) }()
	wanted := map[string]bool{}
	for i := range 60 {
		wanted[must(sharded.Queue("q").Put(ctx, "K", i))(t)] = true
	}
	for range 60 {
		delete(wanted, soon(t, "a job", worked))
	}
	require.Empty(t, wanted)
	first, second := soon(t, "a tick", ticks), soon(t, "a tick", ticks)
	require.NotEqual(t, first, second, "each time has one job in all shards")
	for _, w := range group {
		require.NoError(t, w.Healthy())
	}
	require.NoError(t, group.Drain(ctx))
	require.NoError(t, soon(t, "the end", done))
	for _, w := range group {
		require.NotZero(t, w.Stats().Completed)
	}
}

func TestAGroupStartsWhollyOrNotAtAll(t *testing.T) {
	e := newLiveEnv(t)
	clients := []*qless.Client{e.NewClient(e.Redis, qless.ClientConfig{}), e.NewClient(e.Redis, qless.ClientConfig{})}
	group, err := qless.NewWorkerGroup(clients, qless.WorkerConfig{Queues: []string{"q"}})
	require.NoError(t, err)
	group.Handle("K", nothing)
	require.NoError(t, group[1].Stop(t.Context()))
	requireCode(t, qless.ErrInvalid, group.Start(t.Context()))
	soon(t, "the end of the first", group[0].Closed())
}
