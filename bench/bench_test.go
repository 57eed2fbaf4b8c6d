package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startBench starts a bench that is as small as possible, with the peers that need nothing but Go.
func startBench(t *testing.T) *bench {
	t.Helper()
	b, err := newBench(t.Context(), &options{
		workloads: names{"job"},
		peers:     names{"qless-single", "qless-unbatched", "qless-worker", "qless-bulk", "qless-dropin", "asynq", "floor"},
		against:   names{"asynq"},
		lua:       names{"../lua"},
		rounds:    1, jobs: 200, pickups: 3, idle: time.Second,
		concurrency: numbers{1, 16}, payload: numbers{100, 10000},
		waiting: numbers{0, 1000}, kept: numbers{0, keptJobs}, watched: numbers{1, 3},
	})
	require.NoError(t, err)
	t.Cleanup(b.close)
	b.settle = 100 * time.Millisecond
	return b
}

// rows measures groups of runs. A run that misses a job is an error.
func rows(t *testing.T, b *bench, groups []group) []row {
	t.Helper()
	var all []row
	for _, g := range groups {
		measured, err := b.measure(t.Context(), g)
		require.NoError(t, err)
		var table bytes.Buffer
		require.NoError(t, writeRows(&table, g, measured, false))
		require.NoError(t, writeRows(&table, g, measured, true))
		t.Log(table.String())
		all = append(all, measured...)
	}
	return all
}

func TestEveryWorkload(t *testing.T) {
	b := startBench(t)
	for _, w := range []struct {
		name   string
		groups []group
		rows   int
	}{
		{"job", b.jobGroups(), 2 * 2 * 3 * 7},         // payloads, concurrencies, phases, peers
		{"waiting", b.waitingGroups(), 2 * 2 * 3},     // scripts, depths, phases
		{"kept", b.keptGroups(), 2 * 2 * 3},           // the same
		{"watch", b.watchGroups(), 3 * 2 * (3 + 1)},   // places, queues, phases of ours, of the drop-in
		{"extensions", b.extensionsGroup(), 19*3 + 4}, // phases; one has a phase more, three have one
		{"pickup", b.pickUpGroups(), 2 * 2},           // numbers of workers, peers that wait
		{"rest", b.restGroup(), 1 + 2},
		{"memory", b.memoryGroup(), 2 * 3}, // settings, layouts
	} {
		t.Run(w.name, func(t *testing.T) {
			measured := rows(t, b, w.groups)
			require.Len(t, measured, w.rows)
			for _, r := range measured {
				require.Equal(t, w.name, r.Workload)
				require.NotEmpty(t, r.Against)
				require.Positive(t, r.Figures["CPU us/job"]+r.Figures["B/job"], "%+v", r)
			}
		})
	}
}

// The server commands of each operation of ours. A change that makes an operation more expensive
// must update its number here.
func TestCommandsOfEachOperation(t *testing.T) {
	b := startBench(t)
	measured := rows(t, b, b.opsGroup())
	calls := map[string]float64{ // commands per call, including TIME
		"put":           7,
		"put.many(100)": 304,
		"pop(1)":        16 + 2.0/16, // one jid in 16 takes two more
		"pop(10)":       18 + 9*5,
		"empty pop":     6,
		"heartbeat":     7,
		"complete":      14,
		"reserve(16)":   61,
		"finish(16)":    74,
	}
	dropIn := map[string]float64{ // the caller passes the time
		"put":       6,
		"pop(1)":    15 + 2.0/16,
		"pop(10)":   17 + 9*5,
		"empty pop": 5,
		"heartbeat": 6,
		"complete":  13,
	}
	for _, r := range measured {
		want := calls
		if r.Peer == "qless-dropin" {
			want = dropIn
		}
		commands, known := want[r.Phase]
		require.True(t, known, "%s of %s is not in the list", r.Phase, r.Peer)
		require.Equal(t, commands, math.Round(r.Figures["cmds/job"]/r.Figures["scripts/job"]*1000)/1000, "%s of %s", r.Phase, r.Peer)
		delete(want, r.Phase)
	}
	require.Empty(t, calls)
	require.Empty(t, dropIn)
}

func TestJobsThatAreMissingOrDoneTwiceAreErrors(t *testing.T) {
	late, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, newCrew(1).wait(late, fake(0)), context.DeadlineExceeded)

	twice := newCrew(1)
	twice.handled()
	twice.handled()
	require.ErrorContains(t, twice.wait(t.Context(), fake(1)), "handled 2 times")

	tooMany := newCrew(1)
	tooMany.handled()
	require.ErrorContains(t, tooMany.wait(t.Context(), fake(2)), "2 are done")

	failed := newCrew(1)
	failed.fail(context.Canceled)
	require.ErrorIs(t, failed.wait(t.Context(), fake(0)), context.Canceled)
}

// fake is a session that reports a fixed number of jobs as done.
type fake int

func (f fake) enqueue(context.Context, int) error { return nil }
func (f fake) work(context.Context, *crew) error  { return nil }
func (f fake) done(context.Context) (int, error)  { return int(f), nil }
func (f fake) close() error                       { return nil }

func TestRatiosArePairedByRound(t *testing.T) {
	var mine, base []sample
	for i := range 3 {
		n := time.Duration(i + 1)
		mine = append(mine, sample{jobs: 1, cost: cost{reading: reading{CPU: 10 * n * n}}})
		base = append(base, sample{jobs: 1, cost: cost{reading: reading{CPU: 10 * n}}})
	}
	require.Equal(t, spread{Median: 2, Min: 1, Max: 3}, ratios(mine, base, sample.cpuPerJob))
	require.Equal(t, spread{Median: 2.5, Min: 1, Max: 4}, spreadOf([]float64{4, 1, 2, 3}))
}

func TestPayloadsAreJSONOfTheirSize(t *testing.T) {
	for _, size := range []int{100, 1000, 10000} {
		payload := payloadOf(size)
		require.Len(t, payload, size)
		require.True(t, json.Valid([]byte(payload)))
	}
}

func TestTheFlagsExplainThemselves(t *testing.T) {
	for _, w := range workloads {
		require.Regexp(t, `\n  `+w.name+`\s`, about)
	}
	for _, args := range [][]string{
		{"job"}, {"-jobs", "1000000"}, {"-workload", "none"}, {"-workers", "0"}, {"-poll", "0"},
		{"-clients", "-1"}, {"-for", "1s"}, {"-workload", "prices"}, {"-instructions", "-workload", "idle"},
	} {
		_, err := parse(args)
		require.Error(t, err, args)
	}
	o, err := parse([]string{"-workload", "idle,soak", "-clients", "0,3", "-jobs", "1000000"})
	require.NoError(t, err)
	require.Equal(t, names{"idle", "soak"}, o.workloads)
	require.Equal(t, numbers{0, 3}, o.clients)
}
