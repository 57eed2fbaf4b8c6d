package api

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/inspect"
)

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

func TestWorkersAreListedWithTheirInformation(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
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
	})
}

func TestAWorkerThatNoLongerRegistersHasGone(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.register("w", 0, `{"queues":["q"]}`)
		ttl := e.Redis.TTL(t.Context(), "ql:x:worker:w").Val()
		require.InDelta(t, 86400, ttl.Seconds(), 5)
		heard := e.Redis.Subscribe(t.Context(), "ql:x:wake:w")
		defer heard.Close()
		require.NoError(t, errOf(heard.Receive(t.Context())))
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
	})
}

// A worker that was killed is no longer subscribed. It has gone when it misses a registration, or
// when its locks expire, whichever comes first.
func TestAWorkerThatIsNotSubscribedHasGoneSoon(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
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
	})
}

func TestARegistrationLastsWhileTheWorkerIsListed(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		for age, kept := range map[string]float64{
			"3600": 3600, "10": 150, "1000000000000": 2592000, "nonsense": 86400,
		} {
			require.NoError(t, e.Redis.HSet(t.Context(), "ql:config", "max-worker-age", age).Err())
			e.register("w", 0, `{}`)
			ttl := e.Redis.TTL(t.Context(), "ql:x:worker:w").Val()
			require.InDelta(t, kept, ttl.Seconds(), 5, age)
		}
	})
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

// Other clients get the list in the old form.
func TestOldClientsGetTheListOfWorkersUnchanged(t *testing.T) {
	e := newEnv(t)
	e.register("w", 0, `{"queues":["q"]}`)
	for _, args := range [][]any{nil, {""}, {"", "0", "-1"}, {"", "", "", ""}} {
		require.JSONEq(t, `[{"name":"w","jobs":0,"stalled":0}]`, e.run("workers", args...).(string))
	}
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
