package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
)

// record records the figures of this minute.
func (e *env) record() {
	e.T.Helper()
	require.NoError(e.T, e.inspect().RecordHistory(e.T.Context()))
}

// recordFor records the figures of some minutes from now on.
func (e *env) recordFor(minutes int) {
	e.T.Helper()
	for range minutes {
		e.record()
		e.Clock.Advance(time.Minute)
	}
}

// history returns the histories that a query selects.
func (e *env) history(query inspect.HistoryQuery) []inspect.History {
	e.T.Helper()
	histories := must(e.inspect().History(e.T.Context(), query))(e.T)
	require.Len(e.T, histories, 1+len(query.Queues))
	return histories
}

// last returns the history of a queue in the last minutes or hours.
func (e *env) last(queue string, length time.Duration) inspect.History {
	e.T.Helper()
	from := e.Clock.Now().Add(-length)
	if queue == "" {
		return e.history(inspect.HistoryQuery{From: from})[0]
	}
	return e.history(inspect.HistoryQuery{From: from, Queues: []string{queue}})[1]
}

// present returns the figures of a queue in this minute.
func (e *env) present(queue string) inspect.HistoryPoint {
	e.T.Helper()
	points := e.last(queue, time.Second).Points
	return points[len(points)-1]
}

// figures returns a short text for each point: waiting, oldest, running, workers and failed; or -.
func figures(h inspect.History) string {
	var all []string
	for _, p := range h.Points {
		text := "-"
		if p.Known > 0 {
			text = fmt.Sprintf("%d %v %d %d %d", p.Waiting, p.Oldest, p.Running, p.Workers, p.Failed)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// registerFor registers a worker of some queues, as JSON.
func (e *env) registerFor(worker, queues string) {
	e.T.Helper()
	e.register(worker, 0, fmt.Sprintf(`{"queues":%s,"klasses":["K"],"slots":1}`, queues))
}

func TestFiguresOfQueuesAreRecordedByMinute(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		q := e.Client.Queue("q")
		e.recordFor(1)
		for range 3 {
			require.NoError(t, errOf(q.Put(t.Context(), "K", nil)))
		}
		require.NoError(t, errOf(q.Put(t.Context(), "K", nil, qless.Delay(90*time.Second))))
		require.NoError(t, errOf(q.Pop(t.Context(), 1)))
		e.registerFor("w", `["q"]`)
		e.recordFor(2)
		e.failIn("other", "a", "b")
		e.record()
		e.record() // this minute again
		require.Equal(t, "-, 0 0s 0 0 0, 2 0s 1 1 0, 2 1m0s 0 1 0, 3 2m0s 0 1 0", figures(e.last("q", 4*time.Minute)))
		require.Equal(t, "0 0s 0 0 0, 0 0s 0 0 0, 0 0s 0 0 2", figures(e.last("other", 2*time.Minute)))
		all := e.last("", 4*time.Minute)
		require.Equal(t, "-, 0 0s 0 0 0, 2 0s 1 1 0, 2 1m0s 0 1 0, 3 2m0s 0 1 2", figures(all))
		require.Equal(t, 4*time.Minute, all.Known)
		require.Equal(t, 5*time.Minute, all.Period)
		require.Equal(t, 2, all.Failed)
	})
}

// Longer steps have the highest figures of their minutes, and the sum of failures.
func TestAHistoryHasLongerStepsForLongerTimes(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.recordFor(2)
		e.Put("q", qless.JID("a"))
		e.Put("q", qless.JID("b"), qless.Delay(time.Hour))
		e.recordFor(1)
		e.Pops("q", 1)
		e.recordFor(1)
		e.failIn("q", "c", "d")
		e.recordFor(4)
		e.failIn("q", "e")
		e.recordFor(1)
		five := e.last("q", 23*time.Hour)
		require.Equal(t, 5*time.Minute, five.Step)
		require.Equal(t, 23*12+1, len(five.Points))
		five.Points = five.Points[23*12-1:]
		require.Equal(t, "1 0s 1 0 2, 1 0s 0 0 1", figures(five))
		require.Equal(t, 4*time.Minute, five.Points[1].Known)
		require.Equal(t, 3, five.Failed)
		require.Equal(t, 9*time.Minute, five.Known)

		hours := e.last("q", 29*24*time.Hour)
		require.Equal(t, time.Hour, hours.Step)
		require.Equal(t, "1 0s 1 0 3", figures(inspect.History{Points: hours.Points[29*24:]}))
		require.Equal(t, 9*time.Minute, hours.Known)
		require.Equal(t, 29*24*time.Hour+10*time.Minute, hours.Period)
		require.Equal(t, hours.Points[0].Time, noon.Add(-29*24*time.Hour).Local())
	})
}

// Each ring is full after its time, and then takes no more bytes.
func TestAHistoryIsBounded(t *testing.T) {
	e := newEnv(t)
	size := func() int64 { return e.Redis.StrLen(t.Context(), "ql:x:history:q").Val() }
	e.registerFor("w", `["q"]`)
	e.Put("q")
	e.record()
	require.EqualValues(t, 20204, size())
	for range 200 {
		e.Clock.Advance(time.Minute)
		e.record()
	}
	require.EqualValues(t, 20204, size())
	require.Less(t, e.Redis.MemoryUsage(t.Context(), "ql:x:history:q").Val(), int64(21000))
	minutes := e.last("q", 179*time.Minute)
	require.Equal(t, 180, len(minutes.Points))
	require.Equal(t, minutes.Period.Truncate(time.Minute), minutes.Known.Truncate(time.Minute))
	require.Equal(t, 21*time.Minute, minutes.Points[0].Oldest)
	require.Equal(t, 200*time.Minute, minutes.Points[179].Oldest)
	require.Equal(t, 5*time.Minute, e.last("q", 180*time.Minute).Step)

	e.Clock.Advance(30*24*time.Hour - 100*time.Minute) // the places of the last records
	e.record()
	require.Equal(t, 1, known(e.last("q", 179*time.Minute)), "older minutes are not those of today")
	require.Equal(t, 1, known(e.last("q", 23*time.Hour)))
	require.Equal(t, 3, known(e.last("q", 30*24*time.Hour)))
	for _, key := range []string{"ql:x:history", "ql:x:history:q"} {
		require.InDelta(t, 31*24*3600, e.Redis.TTL(t.Context(), key).Val().Seconds(), 60, key)
	}
}

// known returns the number of points at which figures are known.
func known(h inspect.History) (n int) {
	for _, p := range h.Points {
		if p.Known > 0 {
			n++
		}
	}
	return n
}

func TestAHistoryOfAPeriod(t *testing.T) {
	e := newEnv(t)
	for range 60 {
		e.Put("q")
		e.recordFor(1)
	}
	period := e.history(inspect.HistoryQuery{From: noon.Add(10*time.Minute + time.Second), To: noon.Add(12 * time.Minute)})[0]
	require.Equal(t, "11 10m0s 0 0 0, 12 11m0s 0 0 0", figures(period))
	require.Equal(t, 2*time.Minute, period.Known)
	require.Empty(t, e.history(inspect.HistoryQuery{From: noon.Add(2 * time.Hour)})[0].Points, "the future")
	before := e.history(inspect.HistoryQuery{From: noon.Add(-2 * time.Hour), To: noon.Add(-time.Hour)})[0]
	require.Equal(t, 12, len(before.Points))
	require.Zero(t, known(before))
	ages := e.history(inspect.HistoryQuery{From: time.Unix(1, 0)})[0]
	require.Equal(t, 719, len(ages.Points))
	for _, wrong := range []inspect.HistoryQuery{
		{From: noon, To: noon.Add(-1)}, {Queues: []string{""}},
	} {
		require.ErrorIs(t, errOf(e.inspect().History(t.Context(), wrong)), qless.ErrInvalid)
	}
}

// Failures of a time in which nothing was recorded count for none of the minutes.
func TestAHistoryHasGaps(t *testing.T) {
	e := newEnv(t)
	e.failIn("q", "before")
	e.recordFor(1)
	e.failIn("q", "a")
	e.Clock.Advance(2 * time.Minute)
	e.failIn("q", "b")
	e.recordFor(1)
	e.failIn("q", "c")
	e.Clock.Advance(10 * time.Minute)
	e.recordFor(1)
	e.failIn("q", "d")
	e.record()
	h := e.last("q", 15*time.Minute)
	require.Equal(t, "0 0s 0 0 0, -, -, 0 0s 0 0 2, -, -, -, -, -, -, -, -, -, -, 0 0s 0 0 0, 0 0s 0 0 1", figures(h))
	require.Equal(t, 3, h.Failed)
	require.Equal(t, "0 0s 0 0 0, 0 0s 0 0 0", figures(e.last("never seen", time.Minute)), "nothing is a figure, too")
}

func TestFailuresAroundMidnightCountOnce(t *testing.T) {
	e := newEnv(t)
	e.Clock.Advance(12*time.Hour - 2*time.Minute)
	e.failIn("q", "a")
	e.recordFor(1)
	e.failIn("q", "b", "c")
	e.record()
	e.Clock.Advance(50 * time.Second)
	e.failIn("q", "d")
	e.Clock.Advance(10 * time.Second)
	e.failIn("q", "e", "f", "g")
	e.recordFor(2)
	require.Equal(t, "0 0s 0 0 0, 0 0s 0 0 2, 0 0s 0 0 4, 0 0s 0 0 0", figures(e.last("q", 4*time.Minute)))
}

func TestWorkersOfAHistoryMatchPatterns(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		for _, queue := range []string{"mail", "mail-a", "mail-a.b", "sms", "a-mail", "[m%d"} {
			e.Put(queue)
		}
		e.registerFor("1", `["mail","sms"]`)
		e.registerFor("2", `["mail","sms"]`)
		e.registerFor("3", `["mail*"]`)
		e.registerFor("4", `["*","!mail-*","!sms"]`)
		e.registerFor("5", `["m*a*b","[m%d"]`)
		e.registerFor("6", `["a\u0000*","*mail"]`)
		e.register("paused", 0, `{"queues":["*"],"paused":true}`)
		e.register("stopping", 0, `{"queues":["*"],"stopping":true}`)
		e.register("odd", 0, `{"queues":{"a":1}}`)
		e.register("odder", 0, `{"queues":null}`)
		e.register("oddest", 0, `[1]`)
		e.record()
		for queue, want := range map[string]int{
			"mail": 5, "mail-a": 1, "mail-a.b": 2, "sms": 2, "a-mail": 2, "[m%d": 2,
		} {
			require.Equal(t, want, e.present(queue).Workers, queue)
		}
		require.Equal(t, 11, e.present("").Workers)
		e.Clock.Advance(3 * time.Minute)
		e.record()
		require.Zero(t, e.present("mail").Workers, "they have gone")
	})
}

func TestAThousandQueuesHaveHistories(t *testing.T) {
	e := newEnv(t)
	pipe := e.Redis.Pipeline()
	for i := range 1100 {
		e.Clock.Advance(time.Microsecond)
		queue := fmt.Sprintf("q%04d", i)
		pipe.ZAdd(t.Context(), "ql:queues", redis.Z{Score: float64(i), Member: queue})
		pipe.ZAdd(t.Context(), "ql:q:"+queue+"-work", redis.Z{Score: 0, Member: "j"})
	}
	require.NoError(t, errOf(pipe.Exec(t.Context())))
	scripts := e.scriptsOf(e.record)
	require.Len(t, scripts, 10)
	for _, script := range scripts {
		require.LessOrEqual(t, len(script), 30+22*100)
	}
	require.Len(t, e.Redis.Keys(t.Context(), "ql:x:history*").Val(), 1001)
	require.Equal(t, 1000, e.present("").Waiting)
	require.Equal(t, 1, e.present("q0999").Waiting)
	require.Zero(t, e.present("q1000").Waiting)
	var all []string
	for i := range 250 {
		all = append(all, fmt.Sprintf("q%04d", i))
	}
	scripts = e.scriptsOf(func() {
		for i, h := range e.history(inspect.HistoryQuery{Queues: all})[1:] {
			require.Equal(t, all[i], h.Queue)
			require.Equal(t, 1, h.Points[len(h.Points)-1].Waiting)
		}
	})
	require.Len(t, scripts, 3)
}

// An idle queue without workers costs nothing but a look, and has no history.
func TestQueuesWithoutJobsHaveNoHistory(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, e.Redis.ZAdd(t.Context(), "ql:queues", redis.Z{Score: 1, Member: "idle"}).Err())
	e.record()
	require.Empty(t, e.Redis.Keys(t.Context(), "ql:x:history:*").Val())
	require.Equal(t, "-, 0 0s 0 0 0", figures(e.last("idle", time.Minute)))
}

func TestAForgottenQueueHasNoHistory(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.failIn("q", "a")
		e.Put("q")
		e.record()
		require.NotEmpty(t, e.Redis.Keys(t.Context(), "ql:x:history:q").Val())
		e.run("queue.forget", "q")
		require.Empty(t, e.Redis.Keys(t.Context(), "ql:x:history:*").Val())
	})
}

func TestAHistoryOutlivesTheServer(t *testing.T) {
	server := testkit.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	e := newEnvOn(t, server)
	e.Put("q")
	e.recordFor(2)
	want := figures(e.last("q", 5*time.Minute))
	server.Kill()
	server.Restart()
	require.Equal(t, want, figures(e.last("q", 5*time.Minute)))
	e.record()
	require.Equal(t, want+", 1 2m0s 0 0 0", figures(e.last("q", 5*time.Minute)))
}

// Damaged keys are passed over.
func TestHistoriesOfDamagedKeys(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		for _, queue := range []string{"a", "b", "c", "d"} {
			e.Put(queue)
		}
		ctx := t.Context()
		require.NoError(t, e.Redis.LPush(ctx, "ql:x:history:a", "x").Err())
		require.NoError(t, e.Redis.Set(ctx, "ql:x:history:b", "short", 0).Err())
		require.NoError(t, e.Redis.Del(ctx, "ql:q:c-work").Err())
		require.NoError(t, e.Redis.LPush(ctx, "ql:q:c-work", "x").Err())
		e.record()
		for queue, want := range map[string]int{"a": 0, "b": 1, "c": 0, "d": 1} {
			require.Equal(t, want, e.present(queue).Waiting, queue)
		}
		require.Equal(t, 3, e.present("").Waiting)
	})
}
