package api

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/lease"
	"github.com/qless/qless-go/tests/repairs"
)

// limit defines a limit.
func (e *env) limit(name string, config qless.LimitConfig) {
	e.T.Helper()
	require.NoError(e.T, e.Limit(name).Set(e.T.Context(), config))
}

// slots defines a limit of n concurrent jobs.
func (e *env) slots(name string, n int) {
	e.T.Helper()
	e.limit(name, qless.LimitConfig{Concurrency: n})
}

// putLimited puts jobs with limits into a queue.
func (e *env) putLimited(queue string, jids string, limits ...string) {
	e.T.Helper()
	for _, jid := range strings.Fields(jids) {
		e.Put(queue, qless.JID(jid), qless.Limits(limits))
	}
}

// info reads a limit.
func (e *env) info(name string) inspect.LimitInfo {
	e.T.Helper()
	return must(e.inspect().Limit(e.T.Context(), name))(e.T)
}

// popped pops up to count jobs, and returns their jids.
func (e *env) popped(queue string, count int) string {
	e.T.Helper()
	return strings.Join(jids(e.Pops(queue, count)), " ")
}

// fields reads a job's hash.
func (e *env) fields(jid string) map[string]string {
	e.T.Helper()
	return must(e.Redis.HGetAll(e.T.Context(), "ql:j:"+jid).Result())(e.T)
}

// The methods of limitOnEach are tests on a real server, and on miniredis.
type limitOnEach struct{}

func TestLimitsOnEachServer(t *testing.T) { runEach(t, limitOnEach{}) }

func (limitOnEach) AParkedJobIsScheduledAndKeepsItsPlace(t *testing.T, e *env) {
	e.slots("api", 1)
	e.putLimited("q", "first", "api")
	require.Equal(t, "first", e.popped("q", 1))
	e.putLimited("q", "low", "api")
	e.Clock.Advance(time.Second)
	e.Put("q", qless.JID("high"), qless.Priority(1), qless.Limits{"api"})
	score := must(e.Redis.ZScore(t.Context(), "ql:q:q-work", "low").Result())(t)
	before := e.Read("low")
	require.Empty(t, e.popped("q", 10))

	parked := e.Read("low")
	require.Equal(t, qless.StateScheduled, parked.State)
	require.Equal(t, "api", parked.Parked)
	require.Equal(t, qless.Limits{"api"}, parked.Options.Limits)
	require.Equal(t, before.History, parked.History)
	require.Equal(t, before.Remaining, parked.Remaining)
	require.Equal(t, []string{"high", "low"}, e.info("api").Waiting)
	require.Equal(t, 2, e.Counts("q").Scheduled)
	require.Equal(t, 0, e.Counts("q").Waiting)

	require.NoError(t, e.Read("first").Complete(t.Context()))
	require.Equal(t, "high", e.popped("q", 10), "it has the higher priority")
	require.NoError(t, e.Read("high").Complete(t.Context()))
	require.Equal(t, score, must(e.Redis.ZScore(t.Context(), "ql:q:q-work", "low").Result())(t))
	require.Empty(t, e.Read("low").Parked)
	require.Equal(t, qless.StateWaiting, e.Read("low").State)
	require.NotContains(t, e.fields("low"), "x:parked")
}

func (limitOnEach) TheNextStartIsDueWhenTheRateAllowsIt(t *testing.T, e *env) {
	e.Set("heartbeat", 3600)
	e.limit("api", qless.LimitConfig{Rate: 2, Per: time.Minute})
	e.putLimited("q", "a b c d", "api")
	require.Equal(t, "a", e.popped("q", 1))
	e.Clock.Advance(10 * time.Second)
	require.Equal(t, "b", e.popped("q", 10))
	require.WithinDuration(t, noon.Add(time.Minute), e.info("api").Next, time.Millisecond)
	scheduled := must(e.Redis.ZRangeWithScores(t.Context(), "ql:q:q-scheduled", 0, 0).Result())(t)
	require.Equal(t, "c", scheduled[0].Member)
	require.InDelta(t, float64(noon.Add(time.Minute).Unix()), scheduled[0].Score, 0.001)

	e.Clock.Advance(49 * time.Second)
	require.Empty(t, e.popped("q", 10))
	e.Clock.Advance(time.Second)
	require.Equal(t, "c", e.popped("q", 10))
	e.Clock.Advance(10 * time.Second)
	require.Equal(t, "d", e.popped("q", 10))
}

// A worker that dies does not report it.
func TestSlotsOfDeadWorkersAreFreeAfterLockAndGrace(t *testing.T) {
	for name, c := range map[string]struct {
		options []qless.PutOption
		after   time.Duration
	}{
		"grace":     {nil, 70 * time.Second},
		"lock time": {[]qless.PutOption{qless.LockTime(30 * time.Second)}, 30 * time.Second},
	} {
		runOnEach(t, name, func(t *testing.T, e *env) {
			e.slots("api", 1)
			e.start("dead", append(c.options, qless.JID("a"), qless.Limits{"api"})...)
			e.putLimited("q", "b", "api")
			require.Empty(t, e.popped("q", 1))
			e.Clock.Advance(c.after - time.Second)
			require.Empty(t, e.popped("q", 1), "the job may still be run")
			e.Clock.Advance(2 * time.Second)
			require.Equal(t, "b", e.popped("q", 1))
			require.Empty(t, e.popped("dead", 1), "it begins its grace period, or has no room")
			e.Clock.Advance(11 * time.Second)
			require.Empty(t, e.popped("dead", 1))
			require.Equal(t, "api", e.Read("a").Parked)
			require.Equal(t, 4, e.Read("a").Remaining, "the loss uses up a retry, the parking none")
			require.NoError(t, e.Read("b").Complete(t.Context()))
			require.Equal(t, "a", e.popped("dead", 1))
		})
	}
}

// Other clients' scripts end jobs without notifying limits.
func TestSlotsThatOthersLeaveBehindAreHealed(t *testing.T) {
	for name, end := range map[string]func(e *env){
		"completed": func(e *env) {
			e.Redis.ZRem(e.T.Context(), "ql:q:q-locks", "a")
			e.Redis.HSet(e.T.Context(), "ql:j:a", "state", "complete", "queue", "", "worker", "")
		},
		"canceled": func(e *env) {
			e.Redis.ZRem(e.T.Context(), "ql:q:q-locks", "a")
			e.Redis.Del(e.T.Context(), "ql:j:a")
		},
		"put into another queue": func(e *env) {
			e.Redis.ZRem(e.T.Context(), "ql:q:q-locks", "a")
			e.Redis.HSet(e.T.Context(), "ql:j:a", "state", "waiting", "queue", "other", "worker", "")
			e.Redis.ZAdd(e.T.Context(), "ql:q:other-work", redis.Z{Score: 1, Member: "a"})
		},
	} {
		runOnEach(t, name, func(t *testing.T, e *env) {
			e.slots("api", 1)
			e.putLimited("q", "a b c", "api")
			require.Equal(t, "a", e.popped("q", 10))
			end(e)
			e.Clock.Advance(61 * time.Second)
			require.Equal(t, "b", e.popped("q", 10))
			require.Equal(t, []string{"b"}, e.info("api").Running)
		})
	}
}

func (limitOnEach) AJobThatWasGivenBackByOthersIsNotInItsOwnWay(t *testing.T, e *env) {
	e.slots("api", 1)
	e.putLimited("q", "a", "api")
	e.Pop("q")
	e.Redis.ZRem(t.Context(), "ql:q:q-locks", "a")
	e.Redis.HSet(t.Context(), "ql:j:a", "state", "waiting", "worker", "")
	e.Redis.ZAdd(t.Context(), "ql:q:q-work", redis.Z{Score: 1, Member: "a"})
	require.Equal(t, "a", e.popped("q", 10))
}

func (limitOnEach) KeysHaveTheDefinitionOfTheirFamily(t *testing.T, e *env) {
	e.slots("shop", 1)
	e.slots("shop/big", 2)
	e.putLimited("q", "a1 a2", "shop/a")
	e.putLimited("q", "b1 b2", "shop/b")
	e.putLimited("q", "c1 c2 c3", "shop/big")
	e.putLimited("q", "n1 n2", "none/x")
	require.Equal(t, "a1 b1 c1 c2 n1 n2", e.popped("q", 20))
	require.Equal(t, qless.LimitConfig{Concurrency: 1}, e.info("shop/a").Config)
	require.False(t, e.info("shop/a").Own)
	require.True(t, e.info("shop/big").Own)
	require.Zero(t, e.info("none/x").Config)
	page := must(e.inspect().Limits(t.Context(), inspect.Range{}))(t)
	require.Equal(t, inspect.Page[inspect.LimitOverview]{Total: 2, Items: []inspect.LimitOverview{
		{Name: "shop", Config: qless.LimitConfig{Concurrency: 1}},
		{Name: "shop/big", Config: qless.LimitConfig{Concurrency: 2}, Used: 2, Parked: 1},
	}}, page)
	require.NoError(t, e.Limit("shop/big").Unset(t.Context()))
	page = must(e.inspect().Limits(t.Context(), inspect.Range{Offset: 1}))(t)
	require.Empty(t, page.Items)
	require.Equal(t, 1, page.Total)
}

func TestAHoldKeepsJobsFromStarting(t *testing.T) {
	for name, config := range map[string]*qless.LimitConfig{"a definition": {Concurrency: 9}, "none": nil} {
		runOnEach(t, name, func(t *testing.T, e *env) {
			if config != nil {
				e.limit("api", *config)
			}
			e.putLimited("q", "a b", "api")
			require.NoError(t, e.Limit("api").Hold(t.Context(), 30*time.Second))
			require.Empty(t, e.popped("q", 10))
			require.WithinDuration(t, noon.Add(30*time.Second), e.info("api").HeldUntil, time.Millisecond)
			require.WithinDuration(t, noon.Add(30*time.Second), e.info("api").Next, time.Millisecond)
			e.Clock.Advance(29 * time.Second)
			require.Empty(t, e.popped("q", 10))
			e.Clock.Advance(time.Second)
			require.Equal(t, "a", e.popped("q", 1))
			require.Equal(t, "b", e.popped("q", 1))
			require.Zero(t, e.info("api").HeldUntil)

			e.putLimited("q", "c", "api")
			require.NoError(t, e.Limit("api").Hold(t.Context(), 366*24*time.Hour))
			require.Empty(t, e.popped("q", 10))
			require.NoError(t, e.Limit("api").Hold(t.Context(), 0))
			require.Equal(t, "c", e.popped("q", 1))
		})
	}
}

// Whatever others do to a parked job, it blocks no other. The model has our scripts' actions.
func TestParkedJobsThatOthersChangeBlockNoOther(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(e *env)
		left string // the parked jobs that start when two slots become free
	}{
		"canceled by others": {func(e *env) {
			e.Redis.ZRem(e.T.Context(), "ql:q:q-scheduled", "b")
			e.Redis.Del(e.T.Context(), "ql:j:b")
		}, "c d"},
		"put by others": {func(e *env) {
			e.Redis.HSet(e.T.Context(), "ql:j:b", "time", "1704196801", "queue", "other")
			e.Redis.ZRem(e.T.Context(), "ql:q:q-scheduled", "b")
			e.Redis.ZAdd(e.T.Context(), "ql:q:other-scheduled", redis.Z{Score: 9e9, Member: "b"})
		}, "c d"},
		"priority": {func(e *env) { require.NoError(e.T, e.Read("b").SetPriority(e.T.Context(), 7)) }, "b c"},
	} {
		runOnEach(t, name, func(t *testing.T, e *env) {
			e.slots("api", 2)
			e.putLimited("q", "a0 a1 b c d", "api")
			require.Equal(t, "a0 a1", e.popped("q", 10))
			c.do(e)
			require.NoError(t, e.Read("a0").Complete(t.Context()))
			require.NoError(t, e.Read("a1").Complete(t.Context()))
			require.Equal(t, c.left, e.popped("q", 10))
			for _, jid := range strings.Fields(c.left) {
				require.NotContains(t, e.fields(jid), "x:parked")
			}
			require.Empty(t, e.popped("q", 10))
		})
	}
}

// Parked jobs are tried after a time, even without a notification.
func (limitOnEach) ParkedJobsAreTriedAfterAWhile(t *testing.T, e *env) {
	e.slots("api", 1)
	e.putLimited("q", "a b c d", "api")
	require.Equal(t, "a", e.popped("q", 10))
	require.NoError(t, e.Redis.HDel(t.Context(), "ql:x:limits", "api").Err()) // no notification
	e.Clock.Advance(62 * time.Second)
	require.Equal(t, "b c d", e.popped("q", 10))
	require.Zero(t, e.info("api").Parked)
}

// One call parks 200 jobs, and the next calls the others; all are parked once.
func TestABlockedKeyHoldsUpNoOther(t *testing.T) {
	e := newEnv(t)
	e.slots("shop", 1)
	const blocked = 1000
	e.puts("q", specs(blocked, qless.Limits{"shop/a"})...)
	require.Len(t, e.Pops("q", 1), 1)
	e.Clock.Advance(time.Second)
	e.putLimited("q", "other", "shop/b")
	calls := 0
	for jid := ""; jid == ""; calls++ {
		require.LessOrEqual(t, calls, blocked/200+1)
		e.requireShort(200*8+60, func() { jid = e.popped("q", 1) })
		require.Contains(t, []string{"", "other"}, jid)
	}
	require.Equal(t, blocked-1, e.info("shop/a").Parked)
	e.putLimited("q", "another", "shop/c")
	commands := e.Server.Commands(t, func() { require.Equal(t, "another", e.popped("q", 1)) })
	require.LessOrEqual(t, len(commands), 40)
}

// Jobs that fall due by themselves do not hold up a due job of another key.
func TestBlockedJobsThatFallDueHoldUpNoOther(t *testing.T) {
	e := newEnv(t)
	e.slots("shop", 1)
	for i := range 300 {
		e.putLimited("q", fmt.Sprint("j", i), "shop/a")
	}
	require.Equal(t, "j0", e.popped("q", 300))
	require.Empty(t, e.popped("q", 300))
	e.Put("q", qless.JID("other"), qless.Limits{"shop/b"}, qless.Delay(5*time.Minute))
	e.Put("q", qless.JID("plain"), qless.Delay(6*time.Minute))
	e.Clock.Advance(time.Hour)
	got := e.popped("q", 2) // the lost job is warned first
	for range 4 {
		got += " " + e.popped("q", 2)
	}
	require.ElementsMatch(t, []string{"other", "plain"}, strings.Fields(got))
}

// A reserve that has parked the maximum number of jobs reports that more may be ready.
func TestAReserveAsksAgainAtOnceAfterParkingMany(t *testing.T) {
	e := newEnv(t)
	e.slots("shop", 1)
	e.putLimited("q", "first", "shop")
	e.Pop("q")
	for i := range 201 {
		e.putLimited("q", fmt.Sprint("j", i), "shop")
	}
	for _, order := range []string{"ordered", "round-robin"} {
		reserve := func() []any { return e.run("reserve", "w2", 16, 300, 2, "order", order, "q").([]any) }
		calls := 1
		for reserve()[1] == "0" {
			calls++
		}
		require.GreaterOrEqual(t, calls, 2, order)
		require.LessOrEqual(t, calls, 201/16+2, order)
		e.Clock.Advance(time.Hour)
	}
}

func TestAWorkerTakesNoLimitedJobsAhead(t *testing.T) {
	for _, order := range []string{"ordered", "round-robin"} {
		runOnEach(t, order, func(t *testing.T, e *env) {
			e.slots("api", 9)
			e.Put("q", qless.JID("plain"))
			e.Clock.Advance(time.Second)
			e.putLimited("q", "a b c d", "api")
			require.Len(t, e.run("reserve", "w2", 3, 300, 4, "order", order, "ahead", 10, "q", "other"), 5+3)
			require.Len(t, e.info("api").Running, 2)
			require.Equal(t, 2, e.Counts("q").Waiting)
		})
	}
}

func TestThrottledJobUsesNoRetryAndHoldsItsLimits(t *testing.T) {
	for name, c := range map[string]struct {
		names  string
		limits []string
		held   []string
	}{
		"all":      {`[]`, []string{"a", "b"}, []string{"a", "b"}},
		"named":    {`["b","c"]`, []string{"a", "b"}, []string{"b"}},
		"not its":  {`["c"]`, []string{"a"}, nil},
		"has none": {`[]`, nil, nil},
	} {
		runOnEach(t, name, func(t *testing.T, e *env) {
			if c.limits == nil {
				e.Put("q", qless.JID("j"))
			} else {
				e.putLimited("q", "j", c.limits...)
			}
			require.NoError(t, e.Limit("a").Set(t.Context(), qless.LimitConfig{Concurrency: 1}))
			e.Pop("q")
			_, err := e.Run(t.Context(), "finish", "", "w1", "release", "j", "q", `{"n":1}`, 4,
				"delay", "30", "throttled", c.names)
			require.NoError(t, err)
			require.Equal(t, 5, e.Read("j").Remaining)
			require.JSONEq(t, `{"n":1}`, string(e.Read("j").Data))
			for _, limit := range []string{"a", "b", "c"} {
				held := !e.info(limit).HeldUntil.IsZero()
				require.Equal(t, strings.Contains(strings.Join(c.held, ""), limit), held, limit)
			}
			require.Empty(t, e.info("a").Running)
			require.Empty(t, e.popped("q", 1))
			e.Clock.Advance(29 * time.Second)
			require.Empty(t, e.popped("q", 1))
			e.Clock.Advance(time.Second)
			require.Equal(t, "j", e.popped("q", 1))
		})
	}
}

func (limitOnEach) PopByJidObeysLimits(t *testing.T, e *env) {
	e.slots("api", 1)
	e.putLimited("q", "a b", "api")
	pop := func(jid string) string { return e.run("popByJid", "q", jid, "w1").(string) }
	require.Contains(t, pop("b"), `"jid":"b"`)
	score := must(e.Redis.ZScore(t.Context(), "ql:q:q-work", "a").Result())(t)
	require.Equal(t, "[{}]", pop("a"))
	require.Equal(t, "api", e.Read("a").Parked)
	require.NoError(t, e.Read("b").Complete(t.Context()))
	require.Equal(t, score, must(e.Redis.ZScore(t.Context(), "ql:q:q-work", "a").Result())(t))
	require.Contains(t, pop("a"), `"jid":"a"`)
}

func (limitOnEach) AQueueStartsNoMoreThanItsMaxRate(t *testing.T, e *env) {
	queue := e.Queue("q")
	e.Set("heartbeat", 3600)
	require.NoError(t, queue.SetMaxRate(t.Context(), 3, time.Minute))
	settings := must(queue.Settings(t.Context()))(t)
	require.Equal(t, qless.QueueSettings{Heartbeat: time.Hour, MaxRate: 3, Per: time.Minute}, settings)
	for i := range 9 {
		e.Put("q", qless.JID(fmt.Sprint("j", i)))
		e.Clock.Advance(time.Second)
	}
	require.Equal(t, "j0 j1", e.popped("q", 2))
	e.Clock.Advance(10 * time.Second)
	require.Equal(t, "j2", e.popped("q", 10))
	require.Equal(t, 6, e.Counts("q").Waiting)

	reserve := func() (wait float64, count int) {
		reply := e.run("reserve", "w2", 16, 300, 2, "ahead", 4, "q")
		wait = must(strconv.ParseFloat(reply.([]any)[1].(string), 64))(t)
		return wait, max(len(reply.([]any))-5, 0)
	}
	wait, count := reserve()
	require.InDelta(t, 50, wait, 0.001, "the reply says when to ask again")
	require.Zero(t, count)
	e.Clock.Advance(50 * time.Second)
	wait, count = reserve()
	require.InDelta(t, 10, wait, 0.001)
	require.Equal(t, 2, count)
	e.Clock.Advance(10 * time.Second)
	_, count = reserve()
	require.Equal(t, 1, count)

	require.NoError(t, queue.SetMaxRate(t.Context(), 0, 0))
	settings = must(queue.Settings(t.Context()))(t)
	require.Equal(t, qless.QueueSettings{Heartbeat: time.Hour}, settings)
	_, count = reserve()
	require.Equal(t, 3, count)
}

func (limitOnEach) AQueueReportsWhenItsMaxRateAllowsTheNextStart(t *testing.T, e *env) {
	queue := e.Queue("q")
	next := func() time.Time {
		t.Helper()
		return must(queue.Settings(t.Context()))(t).NextStart
	}
	require.Zero(t, next(), "without a max-rate")
	require.NoError(t, queue.SetMaxRate(t.Context(), 2, time.Minute))
	e.Put("q")
	e.Put("q")
	e.Pop("q")
	require.Zero(t, next(), "there is room for another one")
	e.Clock.Advance(10 * time.Second)
	e.Pop("q")
	require.WithinDuration(t, noon.Add(time.Minute), next(), time.Millisecond)
	e.Clock.Advance(50 * time.Second)
	require.Zero(t, next())
	require.NoError(t, errOf(e.Do(t.Context(), "config.set", "q-max-rate", "nonsense")))
	require.Zero(t, next())
	requireCode(t, qless.ErrInvalid, errOf(e.Queue("").Settings(t.Context())))
}

func TestMaxRatesThatMakeNoSense(t *testing.T) {
	e := newEnv(t)
	for _, value := range []any{"", "x", "1", "1/", "/1", "0/1", "-1/1", "1/0", "1/-1", "1.5/1", "1/NaN", "1/1e99", 5, time.Second} {
		requireCode(t, qless.ErrInvalid, e.Config().Set(t.Context(), "q-max-rate", value))
	}
	requireCode(t, qless.ErrInvalid, e.Queue("q").SetMaxRate(t.Context(), -2, time.Second))
	requireCode(t, qless.ErrInvalid, e.Queue("q").SetMaxRate(t.Context(), 1, 0))
	e.Put("q")
	require.NoError(t, errOf(e.Do(t.Context(), "config.set", "q-max-rate", "nonsense")))
	settings := must(e.Queue("q").Settings(t.Context()))(t)
	require.Equal(t, qless.QueueSettings{Heartbeat: time.Minute}, settings)
	require.Len(t, e.Pops("q", 10), 1, "an invalid setting is not a limit")
}

func TestLimitsThatMakeNoSense(t *testing.T) {
	e := newEnv(t)
	names := []string{"", " ", "a b", "a\n", "a\x00", "\xff", "a\u00a0b", strings.Repeat("x", 201)}
	e.Unchanged(func() {
		for _, name := range names {
			limit := e.Limit(name)
			requireCode(t, qless.ErrInvalid, limit.Set(t.Context(), qless.LimitConfig{Concurrency: 1}))
			requireCode(t, qless.ErrInvalid, limit.Unset(t.Context()))
			requireCode(t, qless.ErrInvalid, limit.Hold(t.Context(), time.Second))
			requireCode(t, qless.ErrInvalid, errOf(e.Queue("q").Put(t.Context(), "K", nil, qless.Limits{name})))
		}
		for _, config := range []qless.LimitConfig{
			{}, {Concurrency: -1}, {Rate: -1, Per: time.Second}, {Rate: 1}, {Per: time.Second},
			{Concurrency: 1, Per: time.Second}, {Rate: 1, Per: time.Microsecond}, {Rate: 1, Per: -time.Second},
			{Rate: 1, Per: math.MaxInt64}, {Rate: 1_000_001, Per: time.Hour},
		} {
			requireCode(t, qless.ErrInvalid, e.Limit("a").Set(t.Context(), config))
		}
		requireCode(t, qless.ErrInvalid, e.Limit("a").Hold(t.Context(), -1))
		requireCode(t, qless.ErrInvalid, e.Limit("a").Hold(t.Context(), math.MaxInt64))
		requireCode(t, qless.ErrInvalid, errOf(e.inspect().Limits(t.Context(), inspect.Range{Offset: -1})))
	})
}

// Damaged limits do not count as limits: they hold up no job.
func TestDamagedLimitsHoldUpNoJobs(t *testing.T) {
	for name, damage := range map[string]func(ctx context.Context, e *env){
		"definition": func(ctx context.Context, e *env) { e.Redis.HSet(ctx, "ql:x:limits", "api", "nonsense") },
		"hold":       func(ctx context.Context, e *env) { e.Redis.HSet(ctx, "ql:x:limits", "api hold", "x") },
		"hash":       func(ctx context.Context, e *env) { e.Redis.Set(ctx, "ql:x:limits", "x", 0) },
		"held":       func(ctx context.Context, e *env) { e.Redis.Set(ctx, "ql:x:limit:api:held", "x", 0) },
		"starts":     func(ctx context.Context, e *env) { e.Redis.Set(ctx, "ql:x:limit:api:starts", "x", 0) },
		"wait":       func(ctx context.Context, e *env) { e.Redis.Set(ctx, "ql:x:limit:api:wait", "x", 0) },
		"options":    func(ctx context.Context, e *env) { e.Redis.HSet(ctx, "ql:j:a", "x:o", `c|{"c":{"x":`) },
	} {
		runOnEach(t, name, func(t *testing.T, e *env) {
			e.limit("api", qless.LimitConfig{Concurrency: 2, Rate: 2, Per: time.Minute})
			e.putLimited("q", "a b", "api")
			damage(t.Context(), e)
			require.Equal(t, "a b", e.popped("q", 10))
			require.NoError(t, e.Read("a").Complete(t.Context()))
			require.NoError(t, e.Read("b").Fail(t.Context(), "g", "m"))
		})
	}
}

// Parked jobs are ordered by their priorities, even by priorities set while parked.
func TestThePriorityOfAParkedJobCanBeChanged(t *testing.T) {
	for name, set := range map[string]func(e *env) error{
		"one":     func(e *env) error { return e.Read("z").SetPriority(e.T.Context(), 10) },
		"in bulk": func(e *env) error { return errOf(e.inspect().JIDs("z").SetPriority(e.T.Context(), 10)) },
	} {
		runOnEach(t, name, func(t *testing.T, e *env) {
			e.limit("api", qless.LimitConfig{Concurrency: 1, Rate: 1, Per: time.Minute})
			e.putLimited("q", "x y z", "api")
			require.Equal(t, "x", e.popped("q", 9))
			require.NoError(t, e.Read("x").Complete(t.Context()))
			require.NoError(t, set(e))
			require.Equal(t, "api", e.Read("z").Parked)
			e.Clock.Advance(time.Minute)
			require.Equal(t, "z", e.popped("q", 9))
			require.NoError(t, e.Read("z").Complete(t.Context()))
			e.Clock.Advance(time.Minute)
			require.Equal(t, "y", e.popped("q", 9))
		})
	}
}

// Starts in the future are not counted: the server's clock was set back.
func TestAClockThatIsSetBackHoldsUpNoRate(t *testing.T) {
	const back = time.Hour
	for name, set := range map[string]func(e *env){
		"a limit":    func(e *env) { e.limit("api", qless.LimitConfig{Rate: 3, Per: time.Second}) },
		"a max-rate": func(e *env) { require.NoError(e.T, e.Queue("q").SetMaxRate(e.T.Context(), 3, time.Second)) },
	} {
		runOnEach(t, name, func(t *testing.T, e *env) {
			set(e)
			e.putLimited("q", strings.Join(numbered("j", 30), " "), "api")
			for i := range 8 {
				if i == 3 {
					e.Clock.Advance(-back)
				}
				started := 0
				for range 5 { // a call may only put parked jobs back
					started += len(e.Pops("q", 9))
				}
				require.Equal(t, 3, started, "in second %d", i)
				e.Clock.Advance(time.Second)
			}
		})
	}
}

// A call that meets a job again that it has started, because its lock expired at once, gives the
// slot of a job without room back.
func TestAJobLostInTheCallThatTookItKeepsNoSlot(t *testing.T) {
	e := newEnv(t)
	e.limit("slow", qless.LimitConfig{Concurrency: 2, Rate: 1, Per: time.Hour})
	e.Put("b", qless.JID("limited"), qless.Limits{"slow"}, qless.Priority(1))
	e.Put("b", qless.JID("free"))
	e.Put("a", qless.JID("later"), qless.Delay(time.Hour))
	_, err := e.Do(t.Context(), "reserve", "w", 4, 60, 8, "order", "weighted", "weights", "1 1",
		"cursor", 1, "lock", 0, "a", "b")
	require.NoError(t, err)
	require.Equal(t, qless.StateScheduled, e.Read("limited").State)
	require.Empty(t, e.Redis.ZRange(t.Context(), "ql:x:limit:slow:held", 0, -1).Val())
}

// A turn without a startable job goes to a queue with one, even if that job has limits and was
// passed over for prefetching.
func TestATurnInVainGoesToAnotherQueue(t *testing.T) {
	for _, order := range []string{"ordered", "round-robin", "weighted"} {
		runEnv(t, order, func(t *testing.T, e *env) {
			e.limit("open", qless.LimitConfig{Concurrency: 9})
			e.limit("full", qless.LimitConfig{Concurrency: 1})
			e.start("other", qless.Limits{"full"})
			for _, jid := range []string{"a1", "a2", "a3"} {
				e.Put("a", qless.JID(jid), qless.Limits{"open"})
			}
			e.Put("b", qless.JID("b1"), qless.Limits{"full"})
			pairs := []any{"order", order, "cursor", 1, "ahead", 2}
			if order == "weighted" {
				pairs = append(pairs, "weights", "1 1")
			}
			args := append([]any{"w", 2, 60, len(pairs)}, pairs...)
			reply := must(e.Do(t.Context(), "reserve", append(args, "b", "a")...))(t)
			require.Len(t, reply, 5+2, "two jobs can start")
			require.Equal(t, 1, e.Counts("a").Waiting)
		})
	}
}

// putFair puts count jobs of a tenant, with jids that begin with the tenant's name.
func (e *env) putFair(count int, option qless.FairOption, name string, more ...qless.PutOption) {
	e.T.Helper()
	for i := range count {
		jid := qless.JID(fmt.Sprintf("%s%d", name, i))
		e.Put("q", append([]qless.PutOption{jid, option}, more...)...)
	}
}

// Jobs promoted one after another take turns with others' jobs, like all jobs that return to their
// queue in the model.
func (limitOnEach) PromotedJobsTakeTheirTurn(t *testing.T, e *env) {
	e.putFair(3, qless.Fair("a"), "a", qless.Delay(time.Hour))
	e.putFair(3, qless.Fair("b"), "b")
	for i := range 3 {
		require.NoError(t, errOf(e.inspect().JIDs(fmt.Sprint("a", i)).Promote(t.Context())))
	}
	got := strings.Join(jids(e.Pops("q", 6)), "")
	for i := 0; i < len(got); i += 4 {
		require.NotEqual(t, got[i], got[i+2], got)
	}
}

// However a tenant's last job leaves its queue, nothing is left of the turns. The model has the
// other ways.
func TestTheTurnsOfAQueueEndWithItsLastJob(t *testing.T) {
	for name, leave := range map[string]func(e *env) error{
		"reserved":  func(e *env) error { return errOf(e.Run(e.T.Context(), "reserve", "", "w", 9, 0, 0, "q")) },
		"withdrawn": func(e *env) error { return lease.New(e.Client).Withdraw(e.T.Context(), "j") },
		"ended":     func(e *env) error { e.end("j", repairs.Ending{}); return nil },
		"ended, failed": func(e *env) error {
			e.end("j", repairs.Ending{State: qless.StateFailed, Group: "g"})
			return nil
		},
		"moved in bulk": func(e *env) error { return errOf(e.inspect().JIDs("j").Move(e.T.Context(), "other")) },
		"rescheduled":   func(e *env) error { return e.Read("j").Reschedule(e.T.Context(), time.Minute) },
	} {
		runOnEach(t, name, func(t *testing.T, e *env) {
			e.Put("q", qless.JID("z"), qless.Fair("b"))
			e.Put("q", qless.JID("y"), qless.Fair("a"))
			e.Put("q", qless.JID("j"), qless.Fair("a"))
			require.Equal(t, "z y", e.popped("q", 2))
			require.NoError(t, e.Cancel(t.Context(), e.Put("q", qless.Fair("c"))))
			require.Positive(t, e.Redis.TTL(t.Context(), "ql:x:fair:0:q").Val())
			require.NoError(t, leave(e))
			require.Zero(t, e.Redis.Exists(t.Context(), "ql:x:fair:0:q").Val())
		})
	}
}

func (limitOnEach) DamagedTurnsDoNotKeepJobsFromTheirQueue(t *testing.T, e *env) {
	require.NoError(t, e.Redis.Set(t.Context(), "ql:x:fair:0:q", "damaged", 0).Err())
	e.putFair(3, qless.Fair("a"), "a")
	require.Len(t, e.Pops("q", 5), 3)
	jid := e.Put("q", qless.Fair("a"))
	for _, damaged := range []string{"g|{}", `g|{"g":7}`, `g|{"g":{"t":7}}`, "g|{", `g|{"g":{"t":"a","w":"x"}}`} {
		require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:"+jid, "x:o", damaged).Err())
		e.Put("q", qless.JID(jid))
		require.Equal(t, jid, e.Pop("q").JID, damaged)
	}
}
