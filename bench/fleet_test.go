package main

import (
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if addr, ok := os.LookupEnv(doomedVariable); ok {
		panic(runDoomed(addr))
	}
	os.Exit(m.Run())
}

func TestIdleWorkersSignOff(t *testing.T) {
	for name, fleets := range map[string]int{"idle": 2, "queues": 2, "tenants": 2} {
		t.Run(name, func(t *testing.T) {
			all := figuresOf(t, name)
			require.Equal(t, make([]float64, fleets), values(all, "idle by the server's account then"))
			for _, commands := range values(all, "commands for a job, put to done") {
				require.Greater(t, commands, 30.0)
			}
			for _, reserves := range values(all, "reserves for a job") {
				require.Positive(t, reserves)
			}
		})
	}
}

func TestNewQueuesDisturbOnlyWorkersThatWantThem(t *testing.T) {
	all := figuresOf(t, "newqueues")
	others := values(all, "reserves of workers that don't want it")
	require.Len(t, others, 2)
	for _, reserves := range others {
		require.LessOrEqual(t, reserves, 12.0, "6 workers notified of 20 queues would make 120")
	}
	for _, reserves := range values(all, "reserves a queue and worker") {
		require.GreaterOrEqual(t, reserves, 1.0, "the worker takes the job")
	}
}

func TestJobsOfEachStateAreWeighed(t *testing.T) {
	all := figuresOf(t, "states")
	require.Len(t, all, len(jobStates))
	for _, memory := range all {
		require.Greater(t, memory.Value, 300.0, memory.Case)
	}
}

func TestWorkersRecover(t *testing.T) {
	all := figuresOf(t, "restart")
	waits := values(all, "put to handler, longest")
	require.Len(t, waits, len(disturbances))
	for _, wait := range waits {
		require.Positive(t, wait)
	}
	require.Positive(t, values(all, "connections opened a worker")[1], "the connections that were cut")
}

func TestLoadingTakesMemoryOnce(t *testing.T) {
	all := figuresOf(t, "load")
	require.InDelta(t, 1.4, values(all, "memory of Lua and the text")[0], 0.6)
	require.Positive(t, values(all, "load")[0])
}

func TestWorkersThatNeedMoreFilesThanAllowedAreRefused(t *testing.T) {
	require.NoError(t, checkFiles(10, 10))
	require.ErrorContains(t, checkFiles(math.MaxInt32, 1), "ulimit -n")
}
