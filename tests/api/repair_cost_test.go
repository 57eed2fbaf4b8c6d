package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// These are the costs in the table of docs/inspecting.md.
func TestCommandsThatLookingCosts(t *testing.T) {
	e := newEnv(t)
	const jobs = 20
	for i := range jobs {
		e.fail("q", "g", qless.JID(fmt.Sprint("f", i, "j")))
		e.Put("q", qless.JID(fmt.Sprint("w", i, "j")))
	}
	ctx := t.Context()
	for name, c := range map[string]struct {
		want int
		run  func() error
	}{
		"list": {2 + 2*jobs, func() error {
			return errOf(e.inspect().Queue("q", inspect.Waiting).List(ctx, inspect.Range{}))
		}},
		"list with data": {2 + 4*jobs, func() error {
			return errOf(e.inspect().Queue("q", inspect.Waiting).WithData(5).List(ctx, inspect.Range{}))
		}},
		"list of failed ones": {2 + 2*jobs, func() error { return errOf(e.inspect().Failed("g").List(ctx, inspect.Range{})) }},
		"find nothing": {2 + jobs, func() error {
			return errOf(e.inspect().Queue("q", inspect.Waiting).Where(inspect.Filter{Klass: "L"}).Find(ctx, ""))
		}},
		"find all": {2 + 3*jobs, func() error {
			return errOf(e.inspect().Queue("q", inspect.Waiting).Where(inspect.Filter{Klass: "K"}).Find(ctx, ""))
		}},
		"latency":  {3 + 4, func() error { return errOf(e.inspect().Latency(ctx, "q")) }},
		"failures": {2 + jobs, func() error { return errOf(e.inspect().Failures(ctx, "g", 0)) }},
	} {
		var err error
		// The script's own EVALSHA is counted, too.
		require.InDelta(t, c.want, len(e.Server.Commands(t, func() { err = c.run() })), 1, name)
		require.NoError(t, err)
	}
}

func TestCommandsThatRepairingCosts(t *testing.T) {
	e := newEnv(t)
	cost := func(count int, run func() (inspect.Repair, error)) int {
		t.Helper()
		for i := range count {
			e.fail("q", "g", qless.JID(fmt.Sprint("f", i, "j")))
		}
		var r inspect.Repair
		var err error
		commands := len(e.Server.Commands(t, func() { r, err = run() }))
		require.NoError(t, err)
		require.Equal(t, count, r.Changed)
		require.NoError(t, errOf(e.inspect().Queue("q", inspect.Waiting).Cancel(t.Context())))
		e.Clock.Advance(time.Second)
		return commands
	}
	for name, c := range map[string]struct {
		each int
		run  func() (inspect.Repair, error)
	}{
		"unfail": {9, func() (inspect.Repair, error) { return e.inspect().Failed("g").Unfail(t.Context()) }},
		"cancel": {17, func() (inspect.Repair, error) { return e.inspect().Failed("g").Cancel(t.Context()) }},
	} {
		cost(1, c.run)
		got := cost(9, c.run) - cost(8, c.run)
		require.LessOrEqual(t, got, c.each, name)
		require.Greater(t, got, c.each-4, name)
	}
}
