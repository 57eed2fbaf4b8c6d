package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tiny returns options for a very short run of a workload, with the peers that need only Go.
func tiny(workload string) *options {
	return &options{
		workloads: names{workload},
		peers: names{"qless-single", "qless-unbatched", "qless-worker", "qless-bulk", "qless-dropin",
			"asynq"},
		against: names{"asynq"},
		lua:     names{"../lua"},
		rounds:  1, jobs: 200, lasting: time.Second,
		concurrency: numbers{1, 16}, payload: numbers{100, 10000},
		waiting: numbers{0, 1000}, kept: numbers{0, keptJobs},
		clients: numbers{0, 1}, workers: 6, queues: 30, poll: 300 * time.Millisecond,
	}
}

// figuresOf runs a workload, and returns its figures. It fails if a run misses a job.
func figuresOf(t *testing.T, name string) []figure {
	t.Helper()
	w, o := workloads[workloadAt(name)], tiny(name)
	if w.builds {
		o.peers = names{"qless-lmstfy", "qless-workq"}
	}
	if name == "single" || name == "pickup" {
		o.jobs = 5 // some peers look for a job once a second
	}
	b, err := newBench(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(b.close)
	b.settle = 100 * time.Millisecond
	require.NoError(t, b.start(t.Context(), w))
	var table bytes.Buffer
	r := &report{workload: name, out: &table}
	require.NoError(t, b.run(t.Context(), w, r))
	require.NoError(t, r.write())
	r.json = true
	require.NoError(t, r.write())
	t.Log(table.String())
	return r.figures
}

// values returns the figures with a name, in order.
func values(figures []figure, what string) []float64 {
	var all []float64
	for _, f := range figures {
		if f.What == what {
			all = append(all, f.Value)
		}
	}
	return all
}

func TestComparedWorkloads(t *testing.T) {
	for _, w := range []struct {
		name  string
		what  string
		cases int
	}{
		{"job", "CPU us/job", 2 * 2 * 3 * 6},    // payloads, concurrencies, phases, peers
		{"waiting", "CPU us/job", 2 * 2 * 6},    // scripts, depths, phases
		{"scheduled", "CPU us/job", 2 * 2 * 6},  // the same
		{"kept", "CPU us/job", 2 * 2 * 6},       // the same
		{"pickup", "p50 ms", 2 * 2},             // numbers of workers, peers that wait
		{"single", "CPU us/job", 3 * (3*2 + 2)}, // numbers of workers; gaps or slots, peers; our queues
		{"paced", "CPU us/job", 3 * 2},          // rates, peers that wait
		{"order", "CPU us/job", 2*8 + 1},        // concurrencies, backlogs; and a rate
		{"rest", "CPU us/job", 1 + 2},           // none, peers that wait
		{"memory", "B/job", 2 * 2},              // settings, layouts
		{"gateways", "jobs/s", 2 * 2 * 2},       // numbers of clients, phases, gateways
	} {
		t.Run(w.name, func(t *testing.T) {
			figures := figuresOf(t, w.name)
			measured := values(figures, w.what)
			require.Len(t, measured, w.cases)
			for _, value := range measured {
				require.Positive(t, value)
			}
			require.True(t, slices.ContainsFunc(figures, func(f figure) bool { return f.Spread != nil }))
		})
	}
}

// The numbers of server commands run by each of our operations. A change that makes an operation
// more expensive must update the operation's number here.
func TestCommandsOfEachOperation(t *testing.T) {
	want := map[string]float64{ // commands per call, including TIME
		"put, qless":           7,
		"put.many(100), qless": 206,
		"pop(1), qless":        16 + 2.0/16, // one jid in 16 takes two more commands
		"pop(10), qless":       18 + 9*5,
		"empty pop, qless":     6,
		"heartbeat, qless":     7,
		"complete, qless":      14,
		"reserve(16), qless":   62, // the first one takes two fewer
		"finish(16), qless":    58, // one in ten, depending on the time, takes one more

		"put, qless-dropin":       6, // the caller passes the time
		"pop(1), qless-dropin":    15 + 2.0/16,
		"pop(10), qless-dropin":   17 + 9*5,
		"empty pop, qless-dropin": 5,
		"heartbeat, qless-dropin": 6,
		"complete, qless-dropin":  13,
	}
	varies := map[string]float64{"reserve(16), qless": 0.5, "finish(16), qless": 1}
	got := map[string]float64{}
	for _, f := range figuresOf(t, "ops") {
		switch f.What {
		case "cmds/job":
			got[f.Case] += f.Value
		case "scripts/job":
			got[f.Case] = math.Round(got[f.Case]/f.Value*1000) / 1000
		}
	}
	require.Len(t, got, len(want))
	for name, commands := range want {
		assert.InDelta(t, commands, got[name], cmp.Or(varies[name], 0.001), name)
	}
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

// fake is a session that reports a fixed number of done jobs.
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

// docs/outbox.md quotes the statements and round trips of a batch.
func TestTheOutboxIsMeasuredBesideRiver(t *testing.T) {
	figures := figuresOf(t, "outbox")
	speeds := values(figures, "jobs a second")
	require.Len(t, speeds, 2*4+1)
	for _, speed := range speeds {
		require.Positive(t, speed)
	}
	require.LessOrEqual(t, values(figures, "statements a batch")[0], 14.0)
	require.LessOrEqual(t, values(figures, "round trips to Redis a batch")[0], 3.0)
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
		require.Contains(t, usage, "\n  "+w.name+" ", w.name)
		require.True(t, (w.do == nil) != (w.groups == nil), w.name)
	}
	for _, args := range [][]string{
		{"job"}, {"-jobs", "1000000"}, {"-workload", "none"}, {"-workers", "0"}, {"-poll", "0"},
		{"-clients", "-1"}, {"-for", "0s"}, {"-profile", "."}, {"-instructions", "-workload", "idle"},
	} {
		_, err := parse(args)
		require.Error(t, err, args)
	}
	o, err := parse([]string{"-workload", "idle,states", "-clients", "0,3", "-jobs", "1000000"})
	require.NoError(t, err)
	require.Equal(t, names{"idle", "states"}, o.workloads)
	require.Equal(t, numbers{0, 3}, o.clients)
}

func TestTablesHaveTheMoreNumerousInRows(t *testing.T) {
	most := 10.0
	figures := []figure{
		{Case: "a", What: "one", Unit: "ms", Value: 1}, {Case: "a", What: "two", Value: 12.345},
		{Case: "b", What: "one", Unit: "ms", Value: 3},
		{Case: "c", What: "two", Value: 12, AtMost: &most},
	}
	require.Equal(t, ""+
		"|     | one, ms | two          |\n"+
		"| --- | ------- | ------------ |\n"+
		"| a   | 1       | 12.3         |\n"+
		"| b   | 3       |              |\n"+
		"| c   |         | 12, above 10 |\n", tableOf(figures))
	require.Equal(t, ""+
		"|         | a    |\n"+
		"| ------- | ---- |\n"+
		"| one, ms | 1    |\n"+
		"| two     | 12.3 |\n", tableOf(figures[:2]))
}

func TestTheChartHasABarForEachPeer(t *testing.T) {
	figures := []figure{
		{Workload: "memory", Case: "waiting, qless", What: "B/job", Value: 1000},
		{Workload: "memory", Case: "waiting, a<b", What: "B/job", Value: 500},
		{Workload: "memory", Case: "waiting, qless packed=1", What: "B/job", Value: 1},
		{Workload: "job", Table: "16", Case: "total, asynq", What: "CPU us/job", Value: 7},
		{Workload: "job", Table: "100", Case: "total, asynq", What: "CPU us/job", Value: 8},
		{Workload: "paced", Table: "rate=100", Case: "put to done, asynq", What: "p99 ms", Value: 8},
		{Workload: "paced", Table: "rate=1000", Case: "put to done, asynq", What: "p99 ms", Value: 6},
	}
	path := filepath.Join(t.TempDir(), "chart.svg")
	require.NoError(t, drawChart(path, figures))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 4, strings.Count(string(text), "<rect"))
	require.Contains(t, string(text), ">a&lt;b<")
	require.NotContains(t, string(text), ">8<", "a figure of another table")
	require.NoError(t, xml.Unmarshal(text, new(struct{})))
}

func TestAWorkloadThatFailsEndsTheRun(t *testing.T) {
	defer func(all []workload) { workloads = all }(workloads)
	workloads = []workload{{name: "fails", do: func(_ context.Context, _ *bench, r *report) error {
		r.bound("measured", 12.34, "ms", 10)
		return errors.New("jobs are lost")
	}}}
	wanted := map[string]string{"-json": `"value":12.34`, "-json=false": "12.3, above 10"}
	for flag, want := range wanted {
		var out strings.Builder
		require.EqualError(t, runMain(t.Context(), []string{flag, "-workload", "fails"}, &out),
			"fails: jobs are lost")
		require.Contains(t, out.String(), want)
	}
}
