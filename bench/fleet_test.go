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
		kills: 2, rate: 100, poll: 300 * time.Millisecond, endure: 5 * time.Second,
	}
}

func TestMain(m *testing.M) {
	if role, ok := os.LookupEnv(memberVariable); ok {
		os.Exit(memberMain(role, os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// figuresOf runs a workload, which fails if it loses a job, or if something grows.
func figuresOf(t *testing.T, name string) map[string][]float64 {
	t.Helper()
	var table bytes.Buffer
	r := &report{workload: name, out: &table}
	failed := workloads[workloadAt(name)].run(t.Context(), &bench{options: tiny()}, r)
	require.NoError(t, r.write())
	r.json = true
	require.NoError(t, r.write())
	t.Log(table.String())
	require.NoError(t, failed)
	all := map[string][]float64{}
	for _, f := range r.figures {
		all[f.What] = append(all[f.What], f.Value)
	}
	return all
}

func TestIdleWorkersSignOff(t *testing.T) {
	all := figuresOf(t, "idle")
	require.Equal(t, []float64{0, 0}, all["idle by the server's account then"])
	for _, reserves := range all["reserves among them"] {
		require.Positive(t, reserves)
	}
}

func TestNewQueuesDisturbOnlyWorkersThatWantThem(t *testing.T) {
	all := figuresOf(t, "newqueues")
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
	all := figuresOf(t, "queues")
	require.Len(t, all["until all are idle"], 2)
	require.Len(t, all["commands for one job, put to done"], 1)
	require.Greater(t, all["commands for one job, put to done"][0], 30.0)
}

func TestDepthCostsNoCommands(t *testing.T) {
	all := figuresOf(t, "depth")
	require.Equal(t, []float64{7, 7}, all["put, commands"])
	require.Equal(t, []float64{14, 14}, all["complete, commands"])
	require.Greater(t, all["memory of a job"][0], 300.0)
}

func TestJobsOfEachStateAreWeighed(t *testing.T) {
	all := figuresOf(t, "states")
	require.Len(t, all, len(jobStates))
	for state, memory := range all {
		require.Greater(t, memory[0], 300.0, state)
	}
}

func TestTenantsWorkOneJobEach(t *testing.T) {
	all := figuresOf(t, "tenants")
	require.Len(t, all["a job in each, commands a job"], 2)
	for _, commands := range all["a job in each, commands a job"] {
		require.Greater(t, commands, 30.0)
	}
}

func TestBulkCallsDoAll(t *testing.T) {
	all := figuresOf(t, "bulk")
	require.Len(t, all["scripts"], len(bulkCalls))
	for _, scripts := range all["scripts"] {
		require.Positive(t, scripts)
	}
}

func TestAFileThatIsAlwaysWrittenLosesNothing(t *testing.T) {
	all := figuresOf(t, "durability")
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
	all := figuresOf(t, "restart")
	require.Equal(t, make([]float64, 2*len(disturbances)), all["lost"])
	require.Equal(t, []float64{6, 6}, all["idle by the server's account"], "they were killed")
}

func TestLoadingTakesMemoryOnce(t *testing.T) {
	all := figuresOf(t, "load")
	require.InDelta(t, 0.45, all["memory of texts"][0], 0.1)
	require.InDelta(t, 1, all["memory of Lua"][0], 0.5)
	require.Less(t, all["load again"][0], all["load"][0])
}

func TestNothingGrowsOrIsLeft(t *testing.T) {
	all := figuresOf(t, "soak")
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
	workloads = []workload{{name: "fails", run: func(_ context.Context, _ *bench, r *report) error {
		r.bound("measured", 12.34, "ms", 10)
		return errors.New("jobs are lost")
	}}}
	for flag, want := range map[string]string{"-json": `"value":12.34`, "-json=false": "10, exceeded"} {
		var out strings.Builder
		require.EqualError(t, runMain(t.Context(), []string{flag, "-workload", "fails"}, &out),
			"fails: jobs are lost")
		require.Contains(t, out.String(), want)
	}
}
