package api

import (
	"context"
	"encoding/json"
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

// timeless returns an overview without time-dependent fields.
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

// The methods of overviewOnEach are tests on a real server, and on miniredis.
type overviewOnEach struct{}

func TestOverviewsOnEachServer(t *testing.T) { runEach(t, overviewOnEach{}) }

func (overviewOnEach) AnOverviewAgreesWithTheOtherCalls(t *testing.T, e *env) {
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
	for _, query := range []inspect.OverviewQuery{{From: -1}, {Queues: -2}, {StatsOf: []string{""}}} {
		requireCode(t, qless.ErrInvalid, errOf(e.inspect().Overview(t.Context(), query)))
	}
}

// register registers a worker like its script, some seconds after the worker's start.
func (e *env) register(worker string, age int, info string) {
	e.T.Helper()
	e.run("worker.register", worker, fmt.Sprint(age), info)
}

// infos returns the information about the listed workers, by name.
func (e *env) infos() map[string]*inspect.WorkerInfo {
	e.T.Helper()
	workers := must(e.inspect().Workers(e.T.Context()))(e.T)
	all := map[string]*inspect.WorkerInfo{}
	for _, w := range workers {
		all[w.Name] = w.Info
	}
	require.Len(e.T, all, len(workers))
	return all
}

func (overviewOnEach) WorkersAreListedWithTheirInformation(t *testing.T, e *env) {
	e.Put("q")
	require.Len(t, e.Pops("q", 1), 1) // by w1, which sends no information
	e.Clock.Advance(time.Second)
	e.register("idle", 60, `{"queues":["a","b-*"],"klasses":["K"],"slots":7,"language":"rust",`+
		`"version":"v3","host":"h","pid":12,"paused":true,"more":[1]}`)
	workers := must(e.inspect().Workers(t.Context()))(t)
	require.Equal(t, []string{"idle", "w1"}, []string{workers[0].Name, workers[1].Name}, "the latest first")
	require.Equal(t, inspect.WorkerStatus{Name: "w1", Jobs: 1}, workers[1])
	now := noon.Add(time.Second)
	info := workers[0].Info
	require.WithinDuration(t, now, info.Seen, time.Millisecond)
	require.Equal(t, time.Minute, info.Seen.Sub(info.Started))
	require.Equal(t, &inspect.WorkerInfo{
		Queues: []string{"a", "b-*"}, Klasses: []string{"K"}, Slots: 7, Language: "rust",
		Version: "v3", Host: "h", PID: 12, Paused: true, Seen: info.Seen, Started: info.Started,
	}, info)

	var again inspect.WorkerStatus
	require.NoError(t, json.Unmarshal([]byte(jsonOf(t, workers[0])), &again))
	require.JSONEq(t, jsonOf(t, workers[0]), jsonOf(t, again))
}

func (overviewOnEach) AWorkerThatNoLongerRegistersHasGone(t *testing.T, e *env) {
	e.register("w", 0, `{"queues":["q"]}`)
	ttl := e.Redis.TTL(t.Context(), "ql:x:worker:w").Val()
	require.InDelta(t, 86400, ttl.Seconds(), 5)
	heard(t, e.Redis, "ql:x:wake:w") // it lives
	e.Clock.Advance(149 * time.Second)
	require.NotNil(t, e.infos()["w"])
	e.Clock.Advance(2 * time.Second)
	require.Equal(t, map[string]*inspect.WorkerInfo{"w": nil}, e.infos(), "it is still listed")
	workers := must(e.inspect().Workers(t.Context()))(t)
	require.Equal(t, []string{"q"}, workers[0].Gone.Queues)
	require.WithinDuration(t, e.Clock.Now().Add(-151*time.Second), workers[0].Gone.Seen, time.Millisecond)
	e.register("w", 151, `{"queues":["q"]}`)
	require.NotNil(t, e.infos()["w"])
	e.Clock.Advance(25 * time.Hour)
	require.Empty(t, e.infos())
}

// A killed worker is no longer subscribed. It has gone when it misses a registration, or when its
// locks expire, whichever comes first.
func (overviewOnEach) AWorkerThatIsNotSubscribedHasGoneSoon(t *testing.T, e *env) {
	gone := func() (names []string) {
		for _, w := range must(e.inspect().Workers(t.Context()))(t) {
			if w.Gone != nil {
				names = append(names, w.Name)
			}
		}
		return names
	}
	e.Set("q-heartbeat", 30*time.Second)
	e.Put("q")
	e.register("idle", 0, `{"queues":["q"]}`)
	require.Len(t, e.Pops("q", 1), 1)
	e.register("w1", 0, `{"queues":["q"]}`)
	e.Clock.Advance(29 * time.Second)
	require.Empty(t, gone())
	e.Clock.Advance(time.Second)
	require.Equal(t, []string{"w1"}, gone(), "its lock has expired")
	e.Clock.Advance(39 * time.Second)
	require.Equal(t, []string{"w1"}, gone())
	e.Clock.Advance(time.Second)
	require.Equal(t, []string{"w1", "idle"}, gone(), "it has not registered")
	e.register("idle", 70, `{"queues":["q"]}`)
	require.Equal(t, []string{"w1"}, gone())
}

func (overviewOnEach) ARegistrationLastsWhileTheWorkerIsListed(t *testing.T, e *env) {
	for age, kept := range map[string]float64{
		"3600": 3600, "10": 150, "1000000000000": 2592000, "nonsense": 86400,
	} {
		require.NoError(t, e.Redis.HSet(t.Context(), "ql:config", "max-worker-age", age).Err())
		e.register("w", 0, `{}`)
		ttl := e.Redis.TTL(t.Context(), "ql:x:worker:w").Val()
		require.InDelta(t, kept, ttl.Seconds(), 5, age)
	}
}

func TestAWorkerThatLeavesIsUnregistered(t *testing.T) {
	for name, leave := range map[string]func(e *env) error{
		"depart":     func(e *env) error { return errOf(e.Run(e.T.Context(), "depart", "", "w", "", "0")) },
		"deregister": func(e *env) error { return e.inspect().ForgetWorkers(e.T.Context(), "v", "w") },
	} {
		runOnEach(t, name, func(t *testing.T, e *env) {
			e.register("w", 0, `{}`)
			require.NoError(t, leave(e))
			require.Empty(t, e.infos())
			require.Zero(t, e.Redis.Exists(t.Context(), "ql:x:worker:w").Val())
		})
	}
}

func TestADamagedRegistrationIsNone(t *testing.T) {
	e := newEnv(t)
	for i, damaged := range []string{"", "x", "|", "x|y|{}", "1704196800|1704196800|{", "1704196800|1704196800|[]",
		"1704196800", "inf|0|{}", "\xff|\xff|\xff", "1704196800|0|\"\xff\""} {
		worker := fmt.Sprint("w", i)
		e.register(worker, 0, `{}`)
		require.NoError(t, e.Redis.Set(t.Context(), "ql:x:worker:"+worker, damaged, 0).Err())
	}
	e.register("list", 0, `{}`)
	require.NoError(t, e.Redis.Del(t.Context(), "ql:x:worker:list").Err())
	require.NoError(t, e.Redis.RPush(t.Context(), "ql:x:worker:list", "x").Err())
	e.register("whole", 0, `{}`)
	for name, info := range e.infos() {
		require.Equal(t, name != "whole", info == nil, name)
	}
	e.register("list", 0, `{}`)
	require.NotNil(t, e.infos()["list"], "it was registered again")
}

func TestCommandsThatAListOfWorkersCosts(t *testing.T) {
	e := newEnv(t)
	cost := func() int { return e.cost(func() { require.NotEmpty(t, e.infos()) }) }
	e.register("first", 0, `{}`)
	one := cost()
	for i := range 1000 {
		e.register(fmt.Sprint("w", i), 0, `{}`)
	}
	require.InDelta(t, one+3*1000, cost(), 20, "in three steps")
	require.Len(t, e.Server.Commands(t, func() { e.register("first", 0, `{}`) }), 6, "and the time")
}
