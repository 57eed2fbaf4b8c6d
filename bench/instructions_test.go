package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

var instructions = flag.String("instructions", "",
	`"check" compares what each operation costs with the committed figures, "update" writes those`)

// figuresFile holds the committed cost of each operation.
const figuresFile = "results/instructions.json"

// The shares by which an operation may exceed the committed figure. Other builds of the server or
// its libraries divide the work differently between commands and Lua.
const (
	allowed        = 0.03
	allowedOfOther = 0.10
)

// figures are instructions per job, or per call without jobs, on one build of the server.
type figures struct {
	Server     string             `json:"server"`
	Reference  float64            `json:"reference"`
	Operations map[string]float64 `json:"operations"`
}

// Instructions do not depend on the load of the machine, so an operation with a higher count has
// become more expensive. The reference, which contains none of our scripts, shows how many more
// instructions another build of the server needs for the same work.
func TestNoOperationCostsMoreInstructions(t *testing.T) {
	switch *instructions {
	case "":
		t.Skip("make instructions runs this")
	case "update":
		text, err := json.MarshalIndent(countRepeatedly(t), "", "  ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(figuresFile, append(text, '\n'), 0o644))
	case "check":
		text, err := os.ReadFile(figuresFile)
		require.NoError(t, err)
		var committed figures
		require.NoError(t, json.Unmarshal(text, &committed))
		check(t, committed)
	default:
		t.Fatalf("unknown -instructions %q", *instructions)
	}
}

// mostToLoad limits the instructions for loading the script, during which the server does nothing
// else.
const mostToLoad = 98e6

func TestTheScriptIsLoadedCheaply(t *testing.T) {
	if *instructions != "check" {
		t.Skip("make instructions runs this")
	}
	b := newCountingBench(t)
	load, err := b.server.sample(t.Context(), "load", 1, func() error {
		return b.server.admin.ScriptLoad(t.Context(), qless.DropInScript()+"-- not loaded before").Err()
	})
	require.NoError(t, err)
	t.Logf("%.1f million instructions", load.instructionsPerJob()/1e6)
	require.Less(t, load.instructionsPerJob(), mostToLoad)
	require.Greater(t, load.instructionsPerJob(), mostToLoad/10)
}

// attempts is how often operations are counted. The counts vary by some per cent, for instance with
// the random levels of skip lists.
const attempts = 5

// countRepeatedly counts several times, and returns the lowest counts.
func countRepeatedly(t *testing.T) figures {
	lowest := countOperations(t)
	for range attempts - 1 {
		for name, count := range countOperations(t).Operations {
			lowest.Operations[name] = min(lowest.Operations[name], count)
		}
	}
	return lowest
}

func check(t *testing.T, committed figures) {
	now := countOperations(t)
	limit := 1 + allowed
	if now.Server != committed.Server {
		t.Logf("the figures are of %s, this is %s: up to %.0f %% more is allowed",
			committed.Server, now.Server, 100*allowedOfOther)
		limit = 1 + allowedOfOther
	}
	changes := compare(t, committed, now)
	for range attempts - 1 {
		if !exceeds(changes, limit) {
			break
		}
		t.Log("counting again: the counts vary")
		for name, again := range compare(t, committed, countOperations(t)) {
			changes[name] = min(changes[name], again)
		}
	}
	for name, change := range changes {
		if change > limit {
			t.Errorf("%s costs %.1f %% more instructions. If that is worth it: make instructions-update",
				name, 100*(change-1))
		}
	}
}

// compare divides the present cost of each operation by the committed figure.
func compare(t *testing.T, committed, now figures) map[string]float64 {
	scale := now.Reference / committed.Reference
	t.Logf("reference %.0f, %.4f times the committed one", now.Reference, scale)
	require.Len(t, now.Operations, len(committed.Operations))
	changes := map[string]float64{}
	for name, was := range committed.Operations {
		is, known := now.Operations[name]
		require.True(t, known, name)
		changes[name] = is / (was * scale)
		t.Logf("%-14s %10.0f  %.4f times the committed one", name, is, changes[name])
	}
	return changes
}

func exceeds(changes map[string]float64, limit float64) bool {
	for _, change := range changes {
		if change > limit {
			return true
		}
	}
	return false
}

func TestOperationsAreComparedOnTheScaleOfTheReference(t *testing.T) {
	committed := figures{Reference: 100, Operations: map[string]float64{"put": 1000}}
	now := figures{Reference: 110, Operations: map[string]float64{"put": 1144}}
	changes := compare(t, committed, now)
	require.InDelta(t, 1.04, changes["put"], 1e-9)
	require.True(t, exceeds(changes, 1.03))
	require.False(t, exceeds(changes, 1.05))
}

// newCountingBench returns a bench with a server that counts its instructions.
func newCountingBench(t *testing.T) *bench {
	b, err := newBench(t.Context(), &options{
		workloads: names{"ops"}, lua: names{"../lua"}, rounds: 1, jobs: batchUnit, instructions: true,
	})
	require.NoError(t, err)
	t.Cleanup(b.close)
	require.NoError(t, b.start(t.Context(), workload{}))
	return b
}

// build returns the server's version, with details that distinguish programs of that version.
func build(ctx context.Context, s *server) (string, error) {
	version, err := s.about(ctx, "redis_version")
	id, failed := s.about(ctx, "redis_build_id")
	return version + " " + id, errors.Join(err, failed)
}

func countOperations(t *testing.T) figures {
	b := newCountingBench(t)
	version, err := build(t.Context(), b.server)
	require.NoError(t, err)
	counted := figures{Server: version + " " + runtime.GOARCH, Operations: map[string]float64{}}

	// A wait of more than a second costs more to count, and a time with more digits more to write, so
	// the clock must not depend on the machine.
	now := time.Unix(1_800_000_000, 0)
	b.scripts[0].clock = func() time.Time {
		now = now.Add(time.Microsecond)
		return now
	}

	require.NoError(t, b.server.restCollector(t.Context()))
	counted.Reference = countReference(t, b)
	require.NoError(t, b.server.empty(t.Context()))

	phases, err := b.operating(b.scripts[0], "", b.everyCommand).do(t.Context())
	require.NoError(t, err)
	for _, phase := range phases {
		counted.Operations[phase.phase] = phase.instructionsPerJob()
	}
	return counted
}

// referenceScript does the same kinds of work as our scripts, in about the same proportions.
const referenceScript = `
local call = redis.call
call('hset', 'p:job', 'jid', 'a2f5c', 'klass', 'Bench', 'data', '{}', 'priority', '0',
  'tags', '[]', 'state', 'waiting', 'worker', '', 'expires', '0', 'queue', 'bench',
  'retries', '5', 'remaining', '5', 'time', '1700000000.123456')
for i = 1, 400 do
  call('zadd', 'p:zset', string.format('%d.%06d', 1700000000 + i, i), 'member number ' .. i)
end
collectgarbage()
for i = 1, tonumber(ARGV[1]) do
local now = string.format('%.6f', 1700000000 + i / 64)
local job = call('hmget', 'p:job', 'jid', 'klass', 'data', 'priority', 'tags', 'state')
local entry = cjson.encode({jid = job[1], event = 'put', queue = 'bench'})
for j = 1, 40 do
  local take = function(value) return value .. now end
  job[#job + 1] = take(j)
end
call('hset', 'p:job', 'state', 'running', 'worker', 'w', 'time', now)
call('rpush', 'p:history', '[' .. now .. ',"put",' .. entry .. ']')
call('zadd', 'p:zset', now, 'member')
call('zrem', 'p:zset', 'member')
call('publish', 'p:channel', entry)
end
return 1`

// countReference returns the cost of one iteration of the reference's loop.
func countReference(t *testing.T, b *bench) float64 {
	var both [2]sample
	for i, turns := range []int{0, 1000} {
		sha, err := b.server.admin.ScriptLoad(t.Context(), referenceScript).Result()
		require.NoError(t, err)
		require.NoError(t, b.server.empty(t.Context()))
		both[i], err = b.server.sample(t.Context(), "reference", turns, func() error {
			return b.server.admin.EvalSha(t.Context(), sha, nil, turns).Err()
		})
		require.NoError(t, err)
	}
	return both[1].minus(both[0]).instructionsPerJob()
}

func TestTheTotalIsRead(t *testing.T) {
	total, err := readTotal([]byte("summary: 7\n\nfn=(1) totals\n0 7\n\ntotals: 1234\n"))
	require.NoError(t, err)
	require.EqualValues(t, 1234, total)
	total, err = readCount([]byte("fn=(1) main\n0 7\ncfn=(23) serverCron\ncalls=2 0 \n0 200\n" +
		"fn=(1)\ncfn=(23)\ncalls=1 0 \n0 30\ncfn=(2) call\ncalls=1 0 \n0 5\n\ntotals: 1234\n"))
	require.NoError(t, err)
	require.Equal(t, int64(1004), total, "without housekeeping")
	_, err = readTotal([]byte("events: Ir\n"))
	require.ErrorContains(t, err, "no totals")
}
