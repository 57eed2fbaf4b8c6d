package api

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

func (e *env) overview(query inspect.OverviewQuery) inspect.Overview {
	e.T.Helper()
	var o inspect.Overview
	e.Unchanged(func() { o = must(e.inspect().Overview(e.T.Context(), query))(e.T) })
	return o
}

// timeless returns an overview without the fields that depend on time.
func timeless(o inspect.Overview) inspect.Overview {
	o.Time, o.Memory = time.Time{}, inspect.Memory{}
	for i := range o.Queues {
		if o.Queues[i].Oldest > 0 {
			o.Queues[i].Oldest = o.Queues[i].Oldest.Round(time.Second)
		}
	}
	return o
}

// furnish puts jobs in every state into the queue q, and others into quiet and busy.
func (e *env) furnish() {
	e.T.Helper()
	ctx := e.T.Context()
	queue := e.Queue("q")
	require.NoError(e.T, e.Limit("api").Set(ctx, qless.LimitConfig{Concurrency: 1}))
	require.NoError(e.T, e.Limit("rate").Set(ctx, qless.LimitConfig{Rate: 2, Per: time.Minute}))
	require.NoError(e.T, e.Limit("api").Hold(ctx, time.Hour))
	require.NoError(e.T, e.Limit("api").Hold(ctx, 0))
	require.NoError(e.T, queue.SetMaxConcurrency(ctx, 7))
	e.work("q", 2*time.Second, 3*time.Second)
	e.work("q", 90*time.Second, 2*time.Hour)
	e.fail("q", "group")
	e.fail("q", "group")
	e.fail("q", "another")
	e.Put("busy", qless.Limits{"api"})
	e.Put("busy", qless.Limits{"api"})
	e.Pop("busy")
	e.start("q")
	e.Clock.Advance(2 * time.Minute)
	e.start("q", qless.Priority(3))
	e.Put("q", qless.JID("first"))
	e.Clock.Advance(30 * time.Second)
	e.Put("q", qless.Priority(5))
	e.Put("q", qless.Delay(time.Second))
	e.Put("q", qless.Delay(time.Hour))
	e.Put("q", qless.DependsOn{"first"})
	require.NoError(e.T, errOf(queue.Recur(ctx, "K", nil, time.Hour, qless.JID("r"), qless.Offset(time.Hour))))
	e.Clock.Advance(2 * time.Second)
	require.NoError(e.T, e.Queue("quiet").Pause(ctx))
	e.Put("quiet")
}

func TestAnOverviewAgreesWithTheOtherCalls(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.furnish()
		ctx := t.Context()
		o := e.overview(inspect.OverviewQuery{StatsOf: []string{"q", "busy", "nowhere"}})

		require.WithinDuration(t, e.Clock.Now(), o.Time, time.Second)
		require.Empty(t, o.Damaged)
		for _, name := range []string{"q", "busy", "nowhere"} {
			require.Equal(t, e.stats(name, e.Clock.Now()), o.Stats[name], name)
		}
		require.Equal(t, must(e.inspect().FailureGroups(ctx))(t), o.FailureGroups)
		require.Equal(t, map[string]int{"another": 1, "group": 2}, o.FailureGroups)
		require.Equal(t, len(must(e.inspect().Workers(ctx))(t)), o.Workers)
		require.Equal(t, []inspect.LimitOverview{
			{Name: "api", Config: qless.LimitConfig{Concurrency: 1}, Used: 1},
			{Name: "rate", Config: qless.LimitConfig{Rate: 2, Per: time.Minute}},
		}, o.Limits)

		counts, err := e.Queues(ctx) // moves due jobs
		require.NoError(t, err)
		require.Equal(t, len(counts), o.Total)
		require.Len(t, o.Queues, len(counts))
		for i, want := range counts {
			latency := must(e.inspect().Latency(ctx, want.Name))(t)
			require.InDelta(t, latency.Oldest.Seconds(), o.Queues[i].Oldest.Seconds(), 2e-3, want.Name)
			require.Equal(t, want, o.Queues[i].QueueCounts)
		}
		require.Equal(t, 7, o.Queues[0].MaxConcurrency)
		require.Zero(t, o.Queues[1].MaxConcurrency)
	})
}

func TestADamagedKeyCostsAnOverviewOnlyItsOwnFigures(t *testing.T) {
	e := newEnv(t)
	e.furnish()
	day := fmt.Sprint(e.Clock.Now().Truncate(day).Unix())
	query := inspect.OverviewQuery{StatsOf: []string{"q", "busy"}}
	whole := timeless(e.overview(query))
	for key, damage := range map[string]func(o *inspect.Overview){
		"ql:q:q-work":      func(o *inspect.Overview) { o.Queues[0].Waiting, o.Queues[0].Oldest = -1, -1 },
		"ql:q:q-locks":     func(o *inspect.Overview) { o.Queues[0].Running, o.Queues[0].Stalled = -1, -1 },
		"ql:q:q-depends":   func(o *inspect.Overview) { o.Queues[0].Depends = -1 },
		"ql:q:q-recur":     func(o *inspect.Overview) { o.Queues[0].Recurring, o.Queues[0].Oldest = -1, -1 },
		"ql:paused_queues": func(o *inspect.Overview) { o.Queues[2].Paused = false },
		"ql:config":        func(o *inspect.Overview) { o.Queues[0].MaxConcurrency = 0 },
		"ql:workers":       func(o *inspect.Overview) { o.Workers = -1 },
		"ql:failures":      func(o *inspect.Overview) { o.FailureGroups = map[string]int{} },
		"ql:f:group":       func(o *inspect.Overview) { delete(o.FailureGroups, "group") },
		"ql:x:limits":      func(o *inspect.Overview) { o.Limits = []inspect.LimitOverview{} },

		"ql:x:limit:api:held":           func(o *inspect.Overview) { o.Limits[0].Used = -1 },
		"ql:x:limit:rate:wait":          func(o *inspect.Overview) { o.Limits[1].Parked = -1 },
		"ql:s:run:" + day + ":q":        func(o *inspect.Overview) { delete(o.Stats, "q") },
		"ql:s:stats:" + day + ":q":      func(o *inspect.Overview) { delete(o.Stats, "q") },
		"ql:x:queues":                   func(*inspect.Overview) {},
		"ql:s:wait:" + day + ":nowhere": nil, // not read
	} {
		t.Run(key, func(t *testing.T) {
			backup, err := e.Redis.Dump(t.Context(), key).Result()
			there := err == nil
			require.NoError(t, e.Redis.Set(t.Context(), key, "damaged", 0).Err())
			t.Cleanup(func() {
				ctx := context.Background()
				require.NoError(t, e.Redis.Del(ctx, key).Err())
				if there {
					require.NoError(t, e.Redis.Restore(ctx, key, 0, backup).Err())
				}
			})
			want := whole
			want.Queues = append([]inspect.QueueOverview{}, whole.Queues...)
			want.Limits = append([]inspect.LimitOverview{}, whole.Limits...)
			want.Stats = map[string]qless.Stats{"q": whole.Stats["q"], "busy": whole.Stats["busy"]}
			want.FailureGroups = map[string]int{"another": 1, "group": 2}
			if damage != nil {
				damage(&want)
				want.Damaged = []inspect.DamagedKey{{Key: key, Kind: "string"}}
			}
			got := timeless(e.overview(query))
			if key == "ql:config" {
				got.Damaged = got.Damaged[:1] // the damaged job is read twice
			}
			require.Equal(t, want, got)
		})
	}
}

func TestAnOverviewHasTheMemoryOfTheServer(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	require.NoError(t, e.Redis.ConfigSet(ctx, "maxmemory", "64mb").Err())
	require.NoError(t, e.Redis.ConfigSet(ctx, "maxmemory-policy", "volatile-lru").Err())
	t.Cleanup(func() {
		ctx := context.Background()
		require.NoError(t, e.Redis.ConfigSet(ctx, "maxmemory", "0").Err())
		require.NoError(t, e.Redis.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err())
	})
	memory := e.overview(inspect.OverviewQuery{}).Memory
	require.Equal(t, int64(64<<20), memory.Max)
	require.Equal(t, "volatile-lru", memory.Policy)
	require.Greater(t, memory.Used, int64(100_000))
}

// These are the costs in the header of lua/commands/overview.lua.
func TestCommandsThatAnOverviewCosts(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	cost := func(query inspect.OverviewQuery) int {
		return e.cost(func() { require.NoError(t, errOf(e.inspect().Overview(ctx, query))) })
	}
	const none, withQueues = 7, 10
	require.Equal(t, none, cost(inspect.OverviewQuery{}))
	const queues = 40
	for i := range queues {
		name := fmt.Sprint("q", i)
		e.Put(name)
		e.Put(name)
		e.Put(name, qless.Delay(time.Hour))
		e.Pop(name)
	}
	for i := range queues {
		require.NoError(t, e.Redis.ZAdd(ctx, "ql:queues", zmember(1, fmt.Sprint("idle", i))).Err())
	}
	e.fail("q0", "g")
	require.NoError(t, e.Limit("l").Set(ctx, qless.LimitConfig{Rate: 1, Per: time.Second}))
	const busy, idle, group, limit, stats = 1 + 3 + 3, 1, 1, 2, 4
	require.Equal(t, withQueues+queues*(busy+idle)+group+limit, cost(inspect.OverviewQuery{}))
	names := []string{"q1", "q2", "q3"}
	require.Equal(t, none+group+limit+3*stats, cost(inspect.OverviewQuery{Queues: -1, StatsOf: names}))

	e.Put("q0")
	require.Equal(t, busy+1, cost(inspect.OverviewQuery{From: queues, Queues: 1})-withQueues-group-limit)
	e.Put("q0", qless.Priority(3))
	require.Equal(t, busy+3, cost(inspect.OverviewQuery{From: queues, Queues: 1})-withQueues-group-limit)
}

func TestAnOverviewIsReadInPages(t *testing.T) {
	e := newEnv(t)
	const queues = 450
	names := make([]string, queues)
	for i := range queues {
		names[i] = fmt.Sprintf("q%03d", i)
		require.NoError(t, e.Redis.ZAdd(t.Context(), "ql:queues", zmember(float64(i), names[i])).Err())
	}
	for _, wanted := range []struct{ query, queues, scripts int }{
		{0, queues, 3}, {-1, 0, 1}, {1, 1, 1}, {200, 200, 1}, {201, 201, 2}, {1000, queues, 3},
	} {
		calls := 0
		client := e.observing(func(qless.Command) { calls++ })
		o, err := inspect.New(client).Overview(t.Context(), inspect.OverviewQuery{Queues: wanted.query})
		require.NoError(t, err)
		require.Equal(t, queues, o.Total)
		require.Equal(t, wanted.scripts, calls)
		require.Len(t, o.Queues, wanted.queues)
		for i := range o.Queues {
			require.Equal(t, names[i], o.Queues[i].Name)
		}
	}
	o := e.overview(inspect.OverviewQuery{Queues: -1, StatsOf: names})
	require.Len(t, o.Stats, queues)
}

func TestAnOverviewChecksWhatIsAsked(t *testing.T) {
	e := newEnv(t)
	for _, query := range []inspect.OverviewQuery{{Queues: -2}, {StatsOf: []string{""}}} {
		requireCode(t, qless.ErrInvalid, errOf(e.inspect().Overview(t.Context(), query)))
	}
}

func TestAnOverviewPassesOverTheFirstQueues(t *testing.T) {
	e := newEnv(t)
	for i := range 5 {
		e.Put(fmt.Sprint("q", i))
		e.Clock.Advance(time.Second)
	}
	e.fail("q0", "g")
	o := e.overview(inspect.OverviewQuery{From: 2, Queues: 2})
	require.Equal(t, 5, o.Total)
	require.Equal(t, []string{"q2", "q3"}, []string{o.Queues[0].Name, o.Queues[1].Name})
	require.Len(t, o.Queues, 2)
	require.Equal(t, map[string]int{"g": 1}, o.FailureGroups)
	require.Empty(t, e.overview(inspect.OverviewQuery{From: 7}).Queues)
	require.ErrorIs(t, errOf(e.inspect().Overview(t.Context(), inspect.OverviewQuery{From: -1})), qless.ErrInvalid)
}
