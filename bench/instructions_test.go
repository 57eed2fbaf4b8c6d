package main

import (
	"encoding/json"
	"flag"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

var instructions = flag.String("instructions", "",
	`"check" compares the instructions of each operation with the committed ones, "update" writes them`)

// figuresFile holds what each operation cost when somebody last looked.
const figuresFile = "results/instructions.json"

// The share that an operation may cost more than the committed figure. Another build of the server
// or of its libraries shares the work out differently between commands and Lua.
const (
	allowed        = 0.03
	allowedOfOther = 0.10
)

// figures are instructions per job, or per call without one, on one build of the server.
type figures struct {
	Server     string             `json:"server"`
	Reference  float64            `json:"reference"`
	Operations map[string]float64 `json:"operations"`
}

// Instructions do not depend on how busy the machine is, so that an operation that costs more has
// become more expensive. The reference, which contains none of our scripts, shows how many more
// instructions another build of the server needs for the same work.
func TestNoOperationCostsMoreInstructions(t *testing.T) {
	switch *instructions {
	case "":
		t.Skip("make instructions runs this")
	case "update":
		text, err := json.MarshalIndent(countOperations(t), "", "  ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(figuresFile, append(text, '\n'), 0o644))
	case "check":
		text, err := os.ReadFile(figuresFile)
		require.NoError(t, err)
		var committed figures
		require.NoError(t, json.Unmarshal(text, &committed))
		compare(t, committed, countOperations(t))
	default:
		t.Fatalf("unknown -instructions %q", *instructions)
	}
}

func compare(t *testing.T, committed, now figures) {
	limit, scale := 1+allowed, now.Reference/committed.Reference
	if now.Server != committed.Server {
		t.Logf("the figures are of %s, this is %s: up to %.0f %% more is allowed",
			committed.Server, now.Server, 100*allowedOfOther)
		limit = 1 + allowedOfOther
	}
	t.Logf("reference %.0f, %.4f times the committed one", now.Reference, scale)
	require.Len(t, now.Operations, len(committed.Operations))
	for name, was := range committed.Operations {
		is, known := now.Operations[name]
		require.True(t, known, name)
		change := is / (was * scale)
		t.Logf("%-14s %10.0f  %.4f times the committed one", name, is, change)
		if change > limit {
			t.Errorf("%s costs %.1f %% more instructions. If that is worth it: make instructions-update",
				name, 100*(change-1))
		}
	}
}

func countOperations(t *testing.T) figures {
	b, err := newBench(t.Context(), &options{
		workloads: names{"ops"}, lua: names{"../lua"}, rounds: 1, jobs: batchUnit, instructions: true,
	})
	require.NoError(t, err)
	t.Cleanup(b.close)
	version, err := b.server.build(t.Context())
	require.NoError(t, err)
	counted := figures{Server: version + " " + runtime.GOARCH, Operations: map[string]float64{}}

	reference, err := b.price(t.Context(), referenceWork())
	require.NoError(t, err)
	counted.Reference = reference.instructionsPerJob()
	require.NoError(t, b.server.empty(t.Context()))

	phases, err := b.operating(b.scripts[0], "", b.everyCommand).do(t.Context())
	require.NoError(t, err)
	for _, phase := range phases {
		counted.Operations[phase.phase] = phase.instructionsPerJob()
	}
	return counted
}

// referenceWork is what scripts like ours do, and in about the same proportions.
func referenceWork() price {
	return price{
		name:    "reference",
		prepare: "job('p:job') fill('p:zset', 400)",
		loop: `
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
call('publish', 'p:channel', entry)`,
	}
}

func TestTheTotalIsRead(t *testing.T) {
	total, err := readTotal([]byte("summary: 7\n\nfn=(1) totals\n0 7\n\ntotals: 1234\n"))
	require.NoError(t, err)
	require.EqualValues(t, 1234, total)
	_, err = readTotal([]byte("events: Ir\n"))
	require.ErrorContains(t, err, "no totals")
}

func TestThePriceListIsComplete(t *testing.T) {
	prices := readPrices()
	require.Equal(t, price{name: "nothing"}, price{name: prices[0].name})
	for _, p := range prices {
		require.NotContains(t, p.prepare+p.loop, "-- loop", p.name)
	}
}
