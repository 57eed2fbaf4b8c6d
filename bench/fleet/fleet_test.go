package main

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tiny are options for which each workload takes a moment.
func tiny() *options {
	return &options{
		clients: numbers{0, 1}, workers: 6, patterns: 3, queues: 30, jobs: 200, tenants: 4,
		kills: 2, rate: 100, poll: 300 * time.Millisecond, duration: 1200 * time.Millisecond,
	}
}

func TestMain(m *testing.M) {
	if role, ok := os.LookupEnv(memberVariable); ok {
		os.Exit(memberMain(role, os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// figures runs a workload, which fails if it loses a job, or if something grows.
func figures(t *testing.T, name string) map[string][]float64 {
	t.Helper()
	return figuresWith(t, name, tiny())
}

func figuresWith(t *testing.T, name string, o *options) map[string][]float64 {
	t.Helper()
	for _, w := range workloads {
		if w.name != name {
			continue
		}
		r := &report{workload: name}
		failed := w.run(t.Context(), o, r)
		var table bytes.Buffer
		require.NoError(t, writeTable(&table, r))
		require.NoError(t, writeJSON(&table, r))
		t.Log(table.String())
		require.NoError(t, failed)
		all := map[string][]float64{}
		for _, f := range r.figures {
			all[f.What] = append(all[f.What], f.Value)
		}
		return all
	}
	t.Fatalf("there is no workload %s", name)
	return nil
}

func TestIdleWorkersSignOff(t *testing.T) {
	all := figures(t, "idle")
	require.Equal(t, []float64{0, 0}, all["idle by the server's account then"])
	for _, reserves := range all["reserves among them"] {
		require.Positive(t, reserves)
	}
}

func TestNewQueuesDisturbOnlyWorkersThatWantThem(t *testing.T) {
	all := figures(t, "newqueues")
	others := append(all["reserves"], all["reserves of others"]...)
	require.Len(t, others, 3)
	for _, reserves := range others {
		require.LessOrEqual(t, reserves, 12.0, "6 workers that were told of 20 queues would be 120")
	}
	require.Len(t, all["reserves a queue and worker"], 2)
	for _, reserves := range all["reserves a queue and worker"] {
		require.GreaterOrEqual(t, reserves, 1/3.0, "at least one of 3 workers takes the job")
	}
}

func TestManyQueuesAreWatched(t *testing.T) {
	all := figures(t, "queues")
	require.Len(t, all["until all are idle"], 2)
	require.Len(t, all["commands for one job, put to done"], 1)
	require.Greater(t, all["commands for one job, put to done"][0], 30.0)
}

func TestDepthCostsNoCommands(t *testing.T) {
	all := figures(t, "depth")
	require.Equal(t, []float64{7, 7}, all["put, commands"])
	require.Equal(t, []float64{14, 14}, all["complete, commands"])
	require.Greater(t, all["memory of a job"][0], 300.0)
}

func TestJobsOfEachStateAreWeighed(t *testing.T) {
	all := figures(t, "states")
	require.Len(t, all, len(jobStates))
	for state, memory := range all {
		require.Greater(t, memory[0], 300.0, state)
	}
}

func TestTenantsWorkOneJobEach(t *testing.T) {
	all := figures(t, "tenants")
	require.Len(t, all["a job in each, commands a job"], 2)
	for _, commands := range all["a job in each, commands a job"] {
		require.Greater(t, commands, 30.0)
	}
}

func TestBulkCallsDoAll(t *testing.T) {
	all := figures(t, "bulk")
	require.Len(t, all["scripts"], len(bulkCalls))
	for _, scripts := range all["scripts"] {
		require.Positive(t, scripts)
	}
}

func TestAFileThatIsAlwaysWrittenLosesNothing(t *testing.T) {
	all := figures(t, "durability")
	require.Len(t, all["acknowledged puts"], 2)
	for _, jobs := range all["acknowledged puts"] {
		require.GreaterOrEqual(t, jobs, 400.0)
	}
	always := 1
	require.Zero(t, all["lost before they were run"][always])
	require.Zero(t, all["gone after they were run"][always])
	require.Equal(t, []float64{0, 0}, all["there, but not run"])
}

func TestNoJobIsLostWhenTheServerIsRestarted(t *testing.T) {
	all := figures(t, "restart")
	require.Equal(t, make([]float64, 2*len(disturbances)), all["lost"])
	require.Equal(t, []float64{6, 6}, all["idle by the server's account"], "they were killed")
}

func TestLoadingTakesMemoryOnce(t *testing.T) {
	all := figures(t, "load")
	require.InDelta(t, 0.45, all["memory of texts"][0], 0.1)
	require.InDelta(t, 1, all["memory of Lua"][0], 0.5)
	require.Less(t, all["load again"][0], all["load"][0])
}

func TestNothingGrows(t *testing.T) {
	all := figures(t, "soak")
	require.Len(t, all["keys"], legs+1)
	require.Len(t, all["jobs"], legs)
	for _, jobs := range all["jobs"] {
		require.Positive(t, jobs)
	}
}

func TestNothingGrowsOrIsLeftWithEverythingOn(t *testing.T) {
	o := tiny()
	o.endure = 5 * time.Second
	all := figuresWith(t, "soak", o)
	require.Equal(t, []float64{10}, all["workers killed"])
	require.Len(t, all["goroutines, more late"], 6)
	for _, jobs := range all["jobs, pages"] {
		require.Positive(t, jobs)
	}
}

func TestGrowthAfterTheFirstTenthIsAnError(t *testing.T) {
	e := &endurance{o: &options{endure: time.Hour}, samples: map[string][]size{}}
	for i := range 100 {
		e.samples["a"] = append(e.samples["a"], size{"goroutines": float64(100 - min(i, 10))})
	}
	require.NoError(t, e.judge(&report{}))
	for i := range 100 {
		e.samples["b"] = append(e.samples["b"], size{"goroutines": float64(i)})
	}
	require.EqualError(t, e.judge(&report{}), "goroutines of b has grown by 60")
}

func TestWorkersThatNeedMoreFilesThanAllowedAreRefused(t *testing.T) {
	require.NoError(t, checkFiles(10, 10))
	require.ErrorContains(t, checkFiles(math.MaxInt32, 1), "ulimit -n")
}

func TestGrowthIsAnError(t *testing.T) {
	from := size{"keys": 100, "elements": 50, "heap": 1000}
	require.NoError(t, growth(&report{}, from, size{"keys": 120, "elements": 10, "heap": 3100}, 0))
	r := &report{}
	err := growth(r, from, size{"keys": 121, "elements": 50, "heap": 3101}, 0)
	require.EqualError(t, err, "these have grown: keys by 21, heap by 2101 KB")
	var table strings.Builder
	require.NoError(t, writeTable(&table, r))
	require.Contains(t, table.String(), "20, exceeded")
}

func TestLostJobsAreAnError(t *testing.T) {
	var all outcome
	for _, one := range []life{
		{acknowledged: true, runs: 1}, {acknowledged: true, runs: 2}, {acknowledged: true}, {}, {runs: 1},
	} {
		all.count(one, false)
	}
	require.Equal(t, outcome{
		acknowledged: 3, lost: 1, forgotten: 2, repeated: 1, unexpected: 1, refused: 2,
	}, all)
	require.ErrorContains(t, all.check(false), "lost")
	require.NoError(t, all.check(true))
	all.count(life{acknowledged: true}, true)
	require.ErrorContains(t, all.check(true), "not run")
}

func TestAWorkloadThatFailsEndsTheRun(t *testing.T) {
	defer func(all []workload) { workloads = all }(workloads)
	workloads = []workload{{"fails", func(_ context.Context, _ *options, r *report) error {
		r.add("measured", 12.34, "ms")
		return errors.New("jobs are lost")
	}}}
	for flag, want := range map[string]string{"-json": `"value":12.34`, "-json=false": "12.3"} {
		var out strings.Builder
		require.EqualError(t, runMain(t.Context(), []string{flag}, &out), "fails: jobs are lost")
		require.Contains(t, out.String(), want)
	}
}

func TestTheFlagsExplainThemselves(t *testing.T) {
	for _, w := range workloads {
		require.Contains(t, about, "\n  "+w.name+" ")
	}
	for _, args := range [][]string{
		{"idle"}, {"-workload", "none"}, {"-workers", "0"}, {"-poll", "0"}, {"-clients", "-1"},
	} {
		_, err := parse(args)
		require.Error(t, err, args)
	}
	o, err := parse([]string{"-workload", "idle,soak", "-clients", "0,3"})
	require.NoError(t, err)
	require.True(t, o.wants("soak"))
	require.False(t, o.wants("bulk"))
	require.Equal(t, numbers{0, 3}, o.clients)
}
