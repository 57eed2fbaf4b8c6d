package gearmonkey_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/compat/gearmonkey"
	"github.com/qless/qless-go/internal/testkit"
)

// sweeping is a sweeper's config with a clock moved by the test.
func sweeping(clock *time.Time) gearmonkey.SweeperConfig {
	return gearmonkey.SweeperConfig{
		After:     time.Minute,
		Clock:     func() time.Time { return *clock },
		Functions: []string{"F"},
		Logger:    testkit.Quiet(),
	}
}

// sweeps sweeps, and requires that the given number of jobs were requeued.
func (e *env) sweeps(want int, sweeper *gearmonkey.Sweeper) {
	e.t.Helper()
	swept := must(sweeper.Sweep(e.t.Context()))(e.t)
	require.Equal(e.t, want, swept)
}

func TestSweeper(t *testing.T) {
	e := newEnv(t)
	clock := now
	sweeper := gearmonkey.NewSweeper(e.Client, sweeping(&clock))
	for _, status := range []string{"idle", "busy", "success", "error", "busy"} {
		id := formatID(e.cli("INCR uid:F").(int64))
		e.cli("HMSET job:F:" + id + " input x status " + status)
	}
	e.cli("HMSET job:F:1:1 status busy") // a job of F:1
	e.cli("SET job:F:x status")
	e.sweeps(0, sweeper) // sees 2 and 5
	clock = clock.Add(59 * time.Second)
	e.cli("HMSET job:F:5 status:dividend 1 status:divisor 9")
	e.sweeps(0, sweeper)
	clock = clock.Add(time.Second)
	e.sweeps(1, sweeper) // 2; and 5 has made progress
	require.Equal(t, []any{"2"}, e.cli("LRANGE queue:F:normal 0 -1"))
	require.Equal(t, "idle", e.cli("HGET job:F:2 status"))
	e.sweeps(0, sweeper)
	clock = clock.Add(59 * time.Second)
	e.sweeps(1, sweeper)
	require.Equal(t, map[string]string{"status": "idle", "input": "x"}, e.rdb.HGetAll(t.Context(), "job:F:5").Val())
	require.Equal(t, []int64{2, 5}, e.works(2, echo))
	clock = clock.Add(time.Hour)
	e.sweeps(0, sweeper)
}

func TestSweeperForgetsWhatWasNotBusyMeanwhile(t *testing.T) {
	e := newEnv(t)
	clock := now
	cfg := sweeping(&clock)
	cfg.Priority = gearmonkey.High
	sweeper := gearmonkey.NewSweeper(e.Client, cfg)
	e.cli("HMSET job:F:1 status busy input x")
	e.sweeps(0, sweeper)
	clock = clock.Add(time.Minute)
	e.cli("HMSET job:F:1 status idle")
	e.sweeps(0, sweeper)
	e.cli("HMSET job:F:1 status busy")
	e.sweeps(0, sweeper)
	clock = clock.Add(time.Minute)
	e.sweeps(1, sweeper)
	require.Equal(t, []any{"1"}, e.cli("LRANGE queue:F:high 0 -1"))
}

func TestSweeperOfAnyName(t *testing.T) {
	e := newEnv(t)
	for _, fn := range []string{`a*b`, `[a]`, `^?\`, "{x}", "\x00\xff"} {
		clock := now
		cfg := sweeping(&clock)
		cfg.Functions = []string{fn}
		sweeper := gearmonkey.NewSweeper(e.Client, cfg)
		require.NoError(t, e.rdb.HSet(t.Context(), "job:"+fn+":1", "status", "busy").Err())
		e.sweeps(0, sweeper)
		clock = clock.Add(time.Minute)
		e.sweeps(1, sweeper)
	}
}

func TestSweeperRuns(t *testing.T) {
	e := newEnv(t)
	cfg := gearmonkey.SweeperConfig{After: time.Millisecond, Functions: []string{"F"}}
	cfg.Logger = sweeping(nil).Logger
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	e.cli("HMSET job:F:1 status busy input x")
	done := make(chan error, 1)
	go func() { done <- gearmonkey.NewSweeper(e.Client, cfg).Run(ctx) }()
	e.works(1, echo)
	stop()
	require.NoError(t, receive(t, done, "the end of the sweeper"))
}

func TestSweeperThatCannotSweep(t *testing.T) {
	e := newEnv(t)
	for name, change := range map[string]func(*gearmonkey.SweeperConfig){
		"After":     func(c *gearmonkey.SweeperConfig) { c.After = 0 },
		"Functions": func(c *gearmonkey.SweeperConfig) { c.Functions = nil },
		"a name":    func(c *gearmonkey.SweeperConfig) { c.Functions = []string{""} },
		"Interval":  func(c *gearmonkey.SweeperConfig) { c.Interval = -1 },
		"Priority":  func(c *gearmonkey.SweeperConfig) { c.Priority = "urgent" },
	} {
		clock := now
		cfg := sweeping(&clock)
		change(&cfg)
		require.ErrorIs(t, gearmonkey.NewSweeper(e.Client, cfg).Run(t.Context()), gearmonkey.ErrInvalid, name)
	}
}
