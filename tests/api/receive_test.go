package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/lease"
)

// A delivery is what a Take has returned.
type delivery = returned[[]*qless.Job]

// takes begins to take jobs.
func (e *env) takes(ctx context.Context, request lease.Request) chan delivery {
	return begin(func() ([]*qless.Job, error) { return lease.New(e.Client).Take(ctx, request) })
}

// receives begins to receive jobs, and returns once the server knows.
func (e *env) receives(ctx context.Context, config lease.Request) chan delivery {
	e.T.Helper()
	e.T.Cleanup(func() { _ = e.Close() })
	before := e.Redis.SCard(ctx, "ql:x:idle").Val()
	got := e.takes(ctx, config)
	testkit.Until(e.T, "the call is idle", func() bool {
		return e.Redis.SCard(ctx, "ql:x:idle").Val() > before || len(got) > 0
	})
	return got
}

// received returns the available jobs.
func (e *env) received(config lease.Request) []*qless.Job {
	e.T.Helper()
	config.NoWait = true
	return must(lease.New(e.Client).Take(e.T.Context(), config))(e.T)
}

func TestAReceiveReturnsTheJobsThatThereAre(t *testing.T) {
	for name, c := range map[string]struct {
		set    func(e *env)
		config lease.Request
		jids   string
	}{
		"one":            {nil, lease.Request{Queues: []string{"p"}}, "p1"},
		"no more":        {nil, lease.Request{Queues: []string{"p"}, Count: 9}, "p1 p2 p3"},
		"none":           {nil, lease.Request{Queues: []string{"empty"}}, ""},
		"strict":         {nil, lease.Request{Queues: []string{"q", "empty", "p"}, Count: 5}, "q1 q2 q3 p1 p2"},
		"round-robin":    {nil, lease.Request{Queues: []string{"p", "q"}, Order: qless.OrderRoundRobin, Count: 3}, "p1 q1 p2"},
		"shuffled":       {nil, lease.Request{Queues: []string{"empty", "p"}, Order: qless.OrderShuffled}, "p1"},
		"a queue twice":  {nil, lease.Request{Queues: []string{"q", "q"}, Count: 9}, "q1 q2 q3"},
		"by priority":    {func(e *env) { e.Put("p", qless.JID("p0"), qless.Priority(1)) }, lease.Request{Queues: []string{"p"}}, "p0"},
		"a paused queue": {func(e *env) { require.NoError(e.T, e.Queue("p").Pause(e.T.Context())) }, lease.Request{Queues: []string{"p", "q"}, Count: 2}, "q1 q2"},
		"a limit":        {func(e *env) { e.Set("p-max-concurrency", 2) }, lease.Request{Queues: []string{"p", "q"}, Count: 3}, "p1 p2 q1"},
		"a job that fell due": {func(e *env) {
			e.Put("d", qless.JID("d1"), qless.Delay(time.Minute))
			e.Clock.Advance(time.Minute)
		}, lease.Request{Queues: []string{"d"}}, "d1"},
	} {
		runOnEach(t, name, func(t *testing.T, e *env) {
			defer e.Close()
			for i := 1; i <= 3; i++ {
				e.Put("p", qless.JID(fmt.Sprint("p", i)))
				e.Put("q", qless.JID(fmt.Sprint("q", i)))
				e.Clock.Advance(time.Second)
			}
			if c.set != nil {
				c.set(e)
			}
			require.Equal(t, c.jids, strings.Join(jids(e.received(c.config)), " "))
		})
	}
}

func TestTheLocksOfAReceive(t *testing.T) {
	for name, c := range map[string]struct {
		config  time.Duration
		options []qless.PutOption
		want    time.Duration
	}{
		"of the queue":                    {0, nil, time.Minute},
		"of the job":                      {0, []qless.PutOption{qless.LockTime(time.Hour)}, time.Hour},
		"of the call":                     {5 * time.Second, nil, 5 * time.Second},
		"of the call, whatever a job has": {5 * time.Second, []qless.PutOption{qless.LockTime(time.Hour)}, 5 * time.Second},
		"none":                            {-1, nil, 0},
		"short":                           {time.Millisecond, nil, time.Millisecond},
	} {
		runOnEach(t, name, func(t *testing.T, e *env) {
			defer e.Close()
			e.Put("q", append(c.options, qless.JID("j"))...)
			jobs := e.received(lease.Request{Queues: []string{"q"}, LockTime: c.config})
			require.Equal(t, []string{"j"}, jids(jobs))
			require.Equal(t, "w1", jobs[0].Worker)
			stored := e.Read("j")
			require.Equal(t, "w1", stored.Worker)
			require.WithinDuration(t, e.Clock.Now().Add(c.want), stored.Expires, time.Millisecond/2)
			require.WithinDuration(t, time.Now().Add(c.want), jobs[0].Expires, patience)
			workers := must(e.inspect().Workers(t.Context()))(t)
			require.Len(t, workers, 1, "the name under which it waits is not a worker's")
			e.Clock.Advance(c.want + time.Minute)
			again := e.received(lease.Request{Queues: []string{"q"}})
			require.Equal(t, c.config != 0 || c.options != nil, len(again) == 1, "only the queue's locks have a grace period")
		})
	}
}

func TestAReceiveWaitsForAJob(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		got := e.receives(t.Context(), lease.Request{Queues: []string{"p", "q"}, Count: 3})
		jid := e.Put("q")
		end := testkit.Soon(t, "a job", got)
		require.NoError(t, end.err)
		require.Equal(t, []string{jid}, jids(end.value))
		testkit.Until(t, "no worker is idle", func() bool {
			return e.Redis.SCard(t.Context(), "ql:x:idle").Val() == 0
		})
	})
}

func TestTheOldestReceiveComesFirst(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		var calls []chan delivery
		for i := range 3 {
			config := lease.Request{Queues: []string{"q"}, Count: 1 + i%2}
			if i == 0 {
				calls = append(calls, e.receives(t.Context(), config))
				continue
			}
			asked := e.Redis.ZScore(t.Context(), "ql:workers", "w1").Val()
			e.Clock.Advance(time.Second)
			got := e.takes(t.Context(), config)
			testkit.Until(t, "the server was asked", func() bool {
				return e.Redis.ZScore(t.Context(), "ql:workers", "w1").Val() > asked
			})
			calls = append(calls, got)
		}
		for i := range 3 {
			jid := e.Put("q")
			end := testkit.Soon(t, "a job", calls[i])
			require.NoError(t, end.err)
			require.Equal(t, []string{jid}, jids(end.value))
		}
	})
}

func TestAReceiveEndsWithItsContext(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		ctx, cancel := context.WithCancel(t.Context())
		got := e.receives(ctx, lease.Request{Queues: []string{"q"}})
		cancel()
		end := testkit.Soon(t, "an error", got)
		requireCode(t, qless.ErrUnavailable, end.err)
		require.ErrorIs(t, end.err, context.Canceled)
		testkit.Until(t, "no worker is idle", func() bool {
			return e.Redis.SCard(t.Context(), "ql:x:idle").Val() == 0
		})
		e.Put("q", qless.JID("j"))
		require.Equal(t, qless.StateWaiting, e.Read("j").State)
		_, err := lease.New(e.Client).Take(ctx, lease.Request{Queues: []string{"q"}})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, qless.StateWaiting, e.Read("j").State)
	})
}

func TestAReceiveEndsWhenTheClientIsClosed(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		got := e.receives(t.Context(), lease.Request{Queues: []string{"q"}})
		require.NoError(t, e.Close())
		end := testkit.Soon(t, "an error", got)
		requireCode(t, qless.ErrUnavailable, end.err)
		require.ErrorIs(t, end.err, redis.ErrClosed)
		require.Empty(t, e.Redis.Keys(t.Context(), "ql:x:idle*").Val(), "it has left")
		requireCode(t, qless.ErrUnavailable, errOf(lease.New(e.Client).Take(t.Context(), lease.Request{Queues: []string{"q"}})))
		require.NoError(t, e.Close())
	})
}

func TestAnInvalidReceive(t *testing.T) {
	client := offline(t)
	many := slices.Repeat([]string{"q"}, 1001)
	for name, config := range map[string]lease.Request{
		"Queues is empty":    {},
		"Queues has 1001":    {Queues: many},
		"name is empty":      {Queues: []string{""}},
		"is not UTF-8":       {Queues: []string{"\xff"}},
		"has a pattern":      {Queues: []string{"a*"}},
		"pattern: \"!":       {Queues: []string{"a", "!b"}},
		"Order \"random\"":   {Queues: []string{"q"}, Order: "random"},
		"Count -1":           {Queues: []string{"q"}, Count: -1},
		"Count 1001":         {Queues: []string{"q"}, Count: 1001},
		"LockTime 1µs":       {Queues: []string{"q"}, LockTime: time.Microsecond},
		"LockTime 24h0m0":    {Queues: []string{"q"}, LockTime: 24*time.Hour + 1},
		"LockTime -2ns":      {Queues: []string{"q"}, LockTime: -2},
		"PollInterval -1ns":  {Queues: []string{"q"}, PollInterval: -1},
		"PollInterval 100ns": {Queues: []string{"q"}, PollInterval: 100},
	} {
		_, err := lease.New(client).Take(t.Context(), config)
		require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, name)
	}
}

// Calls of one kind share requests, and all calls share a subscription and a name.
func TestReceivesShareASubscription(t *testing.T) {
	e := newEnv(t)
	before := len(e.Redis.ClientList(t.Context()).Val())
	var calls []chan delivery
	for i := range 5 {
		calls = append(calls, e.receives(t.Context(), lease.Request{Queues: []string{fmt.Sprint("q", i)}}))
	}
	subscribed := strings.Count(e.Redis.ClientList(t.Context()).Val(), " cmd=subscribe")
	require.Equal(t, 1, subscribed)
	require.NotZero(t, before)
	for i, got := range calls {
		jid := e.Put(fmt.Sprint("q", i))
		require.Equal(t, []string{jid}, jids(testkit.Soon(t, "a job", got).value))
	}
}

func TestAReceiveNoticesPutsOfOtherClients(t *testing.T) {
	e := newEnv(t)
	got := e.receives(t.Context(), lease.Request{Queues: []string{"q"}, PollInterval: time.Hour})
	testkit.Until(t, "it listens for other clients", func() bool {
		return e.Redis.PubSubNumSub(t.Context(), "ql:x:listen").Val()["ql:x:listen"] == 1
	})
	e.stockPut("q", "j")
	require.Equal(t, []string{"j"}, jids(testkit.Soon(t, "a job", got).value))
	require.NoError(t, e.Close())
	testkit.Until(t, "the server notices that", func() bool {
		return e.Redis.PubSubNumSub(t.Context(), "ql:x:listen").Val()["ql:x:listen"] == 0
	})
}

// stockPut puts a job like another client's script, which wakes no worker.
func (e *env) stockPut(queue, jid string) {
	e.T.Helper()
	e.Put("elsewhere", qless.JID(jid))
	ctx := e.T.Context()
	require.NoError(e.T, e.Redis.Del(ctx, "ql:q:elsewhere-work").Err())
	require.NoError(e.T, e.Redis.HSet(ctx, "ql:j:"+jid, "queue", queue).Err())
	require.NoError(e.T, e.Redis.ZAdd(ctx, "ql:q:"+queue+"-work", zmember(0, jid)).Err())
	told := fmt.Sprintf(`{"jid":%q,"event":"put","queue":%q}`, jid, queue)
	require.NoError(e.T, e.Redis.Publish(ctx, "ql:log", told).Err())
}

// received returns the "take" calls that an observer has seen, without their times.
func received(t *testing.T, seen *observer) []qless.Command {
	t.Helper()
	calls := slices.DeleteFunc(seen.take(), func(c qless.Command) bool { return c.Name != "take" })
	for i := range calls {
		require.Positive(t, calls[i].Duration)
		calls[i].Duration = 0
	}
	return calls
}

func TestTheObserverSeesEachReceive(t *testing.T) {
	var seen observer
	e := newEnvWith(t, qless.ClientConfig{Observer: seen.observe})
	defer func() { _ = e.Close() }()
	ctx := t.Context()
	receive := func(count int, queues ...string) error {
		return errOf(lease.New(e.Client).Take(ctx, lease.Request{Queues: queues, Count: count, NoWait: true}))
	}
	put := func(queue, klass, jid string) {
		require.NoError(t, errOf(e.Queue(queue).Put(ctx, klass, nil, qless.JID(jid))))
	}
	put("q", "K", "a")
	require.NoError(t, receive(1, "q", "r"))
	put("q", "K", "b")
	put("q", "L", "c")
	require.NoError(t, receive(10, "q"))
	put("q", "K", "d")
	put("r", "K", "e")
	require.NoError(t, receive(10, "q", "r"))
	require.NoError(t, receive(1, "q"))
	require.NoError(t, receive(1, "q", "r"))
	require.ErrorIs(t, receive(1), qless.ErrInvalid)
	require.Equal(t, []qless.Command{
		{Name: "take", Queue: "q", Klass: "K", JID: "a", Count: 1},
		{Name: "take", Queue: "q", Count: 2},
		{Name: "take", Klass: "K", Count: 2},
		{Name: "take", Queue: "q"},
		{Name: "take"},
	}, received(t, &seen), "a refusal by the client is not a call")

	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err := lease.New(e.Client).Take(ended, lease.Request{Queues: []string{"q"}})
	require.Equal(t, []qless.Command{{Name: "take", Queue: "q", Err: err}}, received(t, &seen))
}

func TestCallsThatReceiveTogetherHaveTheirOwnContexts(t *testing.T) {
	type key struct{}
	var mu sync.Mutex
	got := map[any]int{}
	e := newEnvWith(t, qless.ClientConfig{Observer: func(ctx context.Context, call qless.Command) {
		if call.Name == "take" {
			mu.Lock()
			defer mu.Unlock()
			got[ctx.Value(key{})] += call.Count
		}
	}})
	defer func() { _ = e.Close() }()
	const calls = 5
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() {
			ctx := context.WithValue(t.Context(), key{}, i)
			assert.NoError(t, errOf(lease.New(e.Client).Take(ctx, lease.Request{Queues: []string{"q"}})))
		})
	}
	for range calls {
		require.NoError(t, errOf(e.Queue("q").Put(t.Context(), "K", nil)))
	}
	all.Wait()
	require.Equal(t, map[any]int{0: 1, 1: 1, 2: 1, 3: 1, 4: 1}, got)
}
