package api

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
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

// A delivery is the result of a Take.
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

// The worker tests have more about reserves.
func TestAReceiveReturnsTheJobsThatThereAre(t *testing.T) {
	for want, request := range map[string]lease.Request{
		"p1":             {Queues: []string{"p"}},
		"p1 p2 p3":       {Queues: []string{"p"}, Count: 9},
		"":               {Queues: []string{"empty"}},
		"q1 q2 q3 p1 p2": {Queues: []string{"q", "empty", "p"}, Count: 5},
		"p1 q1 p2":       {Queues: []string{"p", "q"}, Order: qless.OrderRoundRobin, Count: 3},
		"p1 p2":          {Queues: []string{"empty", "p"}, Order: qless.OrderShuffled, Count: 2},
		"q1 q2 q3":       {Queues: []string{"q", "q"}, Count: 9},
	} {
		runOnEach(t, want, func(t *testing.T, e *env) {
			defer e.Close()
			for i := 1; i <= 3; i++ {
				e.Put("p", qless.JID(fmt.Sprint("p", i)))
				e.Put("q", qless.JID(fmt.Sprint("q", i)))
				e.Clock.Advance(time.Second)
			}
			require.Equal(t, want, strings.Join(jids(e.received(request)), " "))
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

// The methods of receiveOnEach are tests on a real server, and on miniredis.
type receiveOnEach struct{}

func TestReceivesOnEachServer(t *testing.T) { runEach(t, receiveOnEach{}) }

func (receiveOnEach) AReceiveWaitsForAJob(t *testing.T, e *env) {
	got := e.receives(t.Context(), lease.Request{Queues: []string{"p", "q"}, Count: 3})
	jid := e.Put("q")
	end := testkit.Soon(t, "a job", got)
	require.NoError(t, end.err)
	require.Equal(t, []string{jid}, jids(end.value))
	testkit.Until(t, "no worker is idle", func() bool { return e.Redis.SCard(t.Context(), "ql:x:idle").Val() == 0 })
}

func (receiveOnEach) TheOldestReceiveComesFirst(t *testing.T, e *env) {
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
}

func (receiveOnEach) AReceiveEndsWithItsContext(t *testing.T, e *env) {
	ctx, cancel := context.WithCancel(t.Context())
	got := e.receives(ctx, lease.Request{Queues: []string{"q"}})
	cancel()
	end := testkit.Soon(t, "an error", got)
	requireCode(t, qless.ErrUnavailable, end.err)
	require.ErrorIs(t, end.err, context.Canceled)
	testkit.Until(t, "no worker is idle", func() bool { return e.Redis.SCard(t.Context(), "ql:x:idle").Val() == 0 })
	e.Put("q", qless.JID("j"))
	require.Equal(t, qless.StateWaiting, e.Read("j").State)
	_, err := lease.New(e.Client).Take(ctx, lease.Request{Queues: []string{"q"}})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, qless.StateWaiting, e.Read("j").State)
}

func (receiveOnEach) AReceiveEndsWhenTheClientIsClosed(t *testing.T, e *env) {
	got := e.receives(t.Context(), lease.Request{Queues: []string{"q"}})
	require.NoError(t, e.Close())
	end := testkit.Soon(t, "an error", got)
	requireCode(t, qless.ErrUnavailable, end.err)
	require.ErrorIs(t, end.err, redis.ErrClosed)
	require.Empty(t, e.Redis.Keys(t.Context(), "ql:x:idle*").Val(), "it has left")
	requireCode(t, qless.ErrUnavailable, errOf(lease.New(e.Client).Take(t.Context(), lease.Request{Queues: []string{"q"}})))
	require.NoError(t, e.Close())
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
	var calls []chan delivery
	for i := range 5 {
		calls = append(calls, e.receives(t.Context(), lease.Request{Queues: []string{fmt.Sprint("q", i)}}))
	}
	subscribed := strings.Count(e.Redis.ClientList(t.Context()).Val(), " cmd=subscribe")
	require.Equal(t, 1, subscribed)
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
	e.Put("elsewhere", qless.JID("j"))
	require.NoError(t, e.Redis.Del(t.Context(), "ql:q:elsewhere-work").Err())
	require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:j", "queue", "q").Err())
	require.NoError(t, e.Redis.ZAdd(t.Context(), "ql:q:q-work", zmember(0, "j")).Err())
	require.NoError(t, e.Redis.Publish(t.Context(), "ql:log", `{"jid":"j","event":"put","queue":"q"}`).Err())
	require.Equal(t, []string{"j"}, jids(testkit.Soon(t, "a job", got).value))
	require.NoError(t, e.Close())
	testkit.Until(t, "the server notices that", func() bool {
		return e.Redis.PubSubNumSub(t.Context(), "ql:x:listen").Val()["ql:x:listen"] == 0
	})
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

// reserveSteps is the number of random steps of each scene.
const reserveSteps = 150

// Whatever the queues, their settings and the limits of the jobs, a worker that receives fewer jobs
// than requested has left none that may start, and none may start before it asks again.
// RESERVE_SEED repeats a run.
func TestAReserveLeavesNoJobThatMayStart(t *testing.T) {
	seed := rand.Uint64()
	if given := os.Getenv("RESERVE_SEED"); given != "" {
		seed = must(strconv.ParseUint(given, 10, 64))(t)
	}
	t.Logf("RESERVE_SEED=%d", seed)
	for i, order := range []string{"ordered", "round-robin", "shuffled", "weighted"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			r := &reserving{env: newEnv(t), order: order, dice: rand.New(rand.NewPCG(seed, uint64(i)))}
			r.limit("one", qless.LimitConfig{Concurrency: 1})
			r.limit("two", qless.LimitConfig{Concurrency: 2})
			r.limit("slow", qless.LimitConfig{Rate: 2, Per: 10 * time.Second})
			r.limit("each", qless.LimitConfig{Concurrency: 1})
			r.Set("b-max-concurrency", 2)
			r.Set("c-max-rate", "3/20")
			for range reserveSteps {
				r.step()
			}
			require.Positive(t, r.checks)
		})
	}
}

// A limit's room is not kept for a job of a queue that may start none at present.
func TestAFullQueueLeavesTheRoomOfALimit(t *testing.T) {
	e := newEnv(t)
	e.limit("api", qless.LimitConfig{Concurrency: 1})
	e.Set("full-max-concurrency", 1)
	holder := e.Put("q", qless.Limits{"api"})
	e.run("reserve", "w1", "1", "10", "0", "q")
	e.Put("full", qless.JID("high"), qless.Limits{"api"}, qless.Priority(5))
	e.run("reserve", "w2", "1", "10", "0", "full")
	e.Put("full")
	e.run("reserve", "w2", "1", "10", "0", "full")
	e.Put("q", qless.JID("low"), qless.Limits{"api"})
	e.run("reserve", "w3", "1", "10", "0", "q")

	require.NoError(t, must(e.As("w1").Job(t.Context(), holder))(t).Complete(t.Context()))
	require.Len(t, e.Pops("q", 1), 1)
}

// A lost job parked by a full limit leaves its place to another job.
func TestAParkedLostJobLeavesItsPlace(t *testing.T) {
	e := newEnv(t)
	e.limit("api", qless.LimitConfig{Concurrency: 1})
	e.Put("q", qless.JID("limited"), qless.Limits{"api"}, qless.LockTime(time.Second))
	require.Len(t, e.Pops("q", 1), 1)
	e.Clock.Advance(2 * time.Second)
	e.limit("api", qless.LimitConfig{Concurrency: 1, Rate: 1, Per: time.Hour})
	e.Put("other", qless.Limits{"api"})
	require.Len(t, e.Pops("other", 1), 1)
	e.Put("q", qless.JID("free"))

	reply := e.run("reserve", "w2", "1", "10", "0", "q").([]any)
	require.Len(t, reply, 6)
	require.True(t, strings.HasPrefix(reply[5].(string), "free\x01"), reply[5])
}

// A worker asks again at once when the lost jobs that it met can't be taken yet, but others can.
func TestLostJobsInTheirGracePeriodHideNoOthers(t *testing.T) {
	e := newEnv(t)
	for range 4 {
		e.Put("q")
	}
	require.Len(t, e.Pops("q", 4), 4)
	e.Clock.Advance(time.Minute + time.Second)
	e.Put("q", qless.LockTime(time.Second), qless.Priority(1))
	require.Len(t, e.Pops("q", 1), 1)
	e.Clock.Advance(2 * time.Second)

	reply := e.run("reserve", "w2", "2", "60", "0", "q").([]any)
	require.Equal(t, "0", reply[1], reply)
	require.Len(t, e.run("reserve", "w2", "2", "60", "0", "q"), 6)
}

// A reserving is a namespace changed at random, with one worker.
type reserving struct {
	*env
	order  string
	dice   *rand.Rand
	jobs   int
	steps  []string
	checks int
}

var (
	reservedQueues = []string{"a", "b", "c", "paused"}
	reservedLimits = []string{"one", "two", "slow", "each/x", "each/y"}
)

// seconds draws a number of whole seconds less than n.
func (r *reserving) seconds(n int) time.Duration {
	return time.Duration(r.dice.IntN(n)) * time.Second
}

// note adds a line to the log of the scene. The end of the log is printed on a failure.
func (r *reserving) note(format string, args ...any) {
	r.steps = append(r.steps, r.Clock.Now().Format("05.000000 ")+fmt.Sprintf(format, args...))
}

func (r *reserving) step() {
	r.T.Helper()
	ctx, queue := r.T.Context(), reservedQueues[r.dice.IntN(len(reservedQueues))]
	switch r.dice.IntN(8) {
	case 0, 1, 2:
		r.jobs++
		options := []qless.PutOption{qless.JID("j" + strconv.Itoa(r.jobs)), qless.Priority(r.dice.IntN(3))}
		if r.dice.IntN(3) == 0 {
			options = append(options, qless.Delay(r.seconds(5)))
		}
		if at := r.dice.IntN(2 * len(reservedLimits)); at < len(reservedLimits) && queue != "paused" {
			options = append(options, qless.Limits{reservedLimits[at]})
		}
		switch r.dice.IntN(8) {
		case 0:
			options = append(options, qless.StartBy(5*time.Second+r.seconds(20)))
		case 1:
			options = append(options, qless.TTL(5*time.Second+r.seconds(20)))
		case 2:
			options = append(options, qless.LockTime(time.Second+r.seconds(10)))
		case 3:
			options = append(options, []qless.OnLost{qless.OnLostLast, qless.OnLostInPlace}[r.dice.IntN(2)])
		case 4:
			options = append(options, qless.Retries(0))
		case 5:
			options = append(options, qless.Fair(strconv.Itoa(r.dice.IntN(3))))
		}
		r.note("put %s %v", queue, options)
		r.Put(queue, options...)
	case 3:
		running := r.Redis.ZRange(ctx, "ql:w:w:jobs", 0, -1).Val()
		if len(running) == 0 {
			return
		}
		job, err := r.As("w").Job(ctx, running[r.dice.IntN(len(running))])
		if err == nil {
			r.note("complete %s", job.JID)
			err = job.Complete(ctx)
		}
		if !errors.Is(err, qless.ErrNotFound) { // its life may be over
			require.NoError(r.T, err)
		}
	case 4:
		r.Clock.Advance(time.Duration(r.dice.IntN(5000)) * time.Millisecond)
	case 5:
		if r.dice.IntN(2) == 0 {
			require.NoError(r.T, r.Queue("paused").Pause(ctx))
		} else {
			require.NoError(r.T, r.Queue("paused").Resume(ctx))
		}
	default:
		r.reserve(1+r.dice.IntN(4), r.dice.IntN(3))
	}
}

// reserve asks for jobs, and checks that none is left behind if there are too few.
func (r *reserving) reserve(count, ahead int) {
	r.T.Helper()
	pairs := []any{"order", r.order, "cursor", 1 + r.dice.IntN(1000), "ahead", ahead}
	if r.order == "weighted" {
		pairs = append(pairs, "weights", "1 2 3 1")
	}
	for {
		args := append([]any{"w", count, 30, len(pairs)}, pairs...)
		for _, queue := range reservedQueues {
			args = append(args, queue)
		}
		items := must(r.Do(r.T.Context(), "reserve", args...))(r.T).([]any)
		r.note("reserve %v -> %q", args, items)
		wait := must(strconv.ParseFloat(items[1].(string), 64))(r.T)
		count -= max(0, len(items)-5)
		switch {
		case count <= 0:
			return
		case wait > 0 && wait <= 0.002:
			r.Clock.Advance(2 * time.Millisecond)
		case wait > 0:
			r.requireNone("now")
			r.checks++
			if wait > 1 { // a full limit is looked at once a second
				r.Clock.Advance(time.Duration(wait*1000)*time.Millisecond - 2*time.Millisecond)
				r.requireNone("before the worker asks again")
			}
			return
		}
	}
}

// requireNone checks that no job of any queue may start.
func (r *reserving) requireNone(when string) {
	r.T.Helper()
	promised := r.promised()
	for _, queue := range reservedQueues {
		var told []string
		for _, job := range r.Pops(queue, 9) {
			if limits := job.Options.Limits; len(limits) == 0 || !promised[limits[0]] {
				told = append(told, job.JID+" with the limits "+strings.Join(limits, ", "))
			}
		}
		require.Empty(r.T, told, "%s: %s may start jobs, after\n%s", when, queue,
			strings.Join(r.steps[max(0, len(r.steps)-20):], "\n"))
	}
}

// promised returns the limits with jobs waiting in full queues. These jobs took the room while
// their queues were not full. A parked job is tried when it falls due.
func (r *reserving) promised() map[string]bool {
	found := map[string]bool{}
	for _, queue := range []string{"b", "c"} {
		for _, jid := range r.Redis.ZRange(r.T.Context(), "ql:q:"+queue+"-work", 0, -1).Val() {
			for _, limit := range must(r.Job(r.T.Context(), jid))(r.T).Options.Limits {
				found[limit] = true
			}
		}
	}
	return found
}
