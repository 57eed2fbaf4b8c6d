package cli_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

func TestBenchMeasuresAndLeavesNothingBehind(t *testing.T) {
	e, _ := newReal(t)
	e.put("mail", "Welcome", 0)
	before := testkit.Dump(t, e.rdb, "*")

	var found map[string]any
	text := e.ok("bench", "--duration", "200ms", "--concurrency", "3", "--json")
	require.NoError(t, json.Unmarshal([]byte(text), &found))
	for _, name := range []string{
		"round_trip_p50", "round_trip_p99", "puts_per_second", "concurrent_puts_per_second",
		"bulk_puts_per_second", "jobs_per_second", "start_p50", "start_p99",
	} {
		require.Positive(t, found[name], name)
	}
	require.Contains(t, found["server"], "Redis ")
	require.Equal(t, before, testkit.Dump(t, e.rdb, "*"))

	screen, status := e.terminal("bench --duration 50ms").typed("")
	require.Equal(t, 0, status)
	require.Contains(t, screen, "puts, 10 at a time")
	require.Equal(t, before, testkit.Dump(t, e.rdb, "*"))
}

func TestABenchThatIsInterruptedCleansUp(t *testing.T) {
	e, _ := newReal(t)
	command := e.command("bench", "--duration", "1h")
	require.NoError(t, command.Start())
	testkit.Until(t, "jobs are put", func() bool {
		n, err := e.rdb.DBSize(t.Context()).Result()
		return err == nil && n > 20
	})
	require.NoError(t, command.Process.Signal(os.Interrupt))
	require.Error(t, command.Wait())
	require.Empty(t, testkit.Dump(t, e.rdb, "*"))
	require.Equal(t, 2, e.run("", "bench", "--concurrency", "0").status)
}
