package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// What the table of docs/inspecting.md says of costs.
func TestCommandsThatLookingCosts(t *testing.T) {
	e := newEnv(t)
	const jobs = 20
	for i := range jobs {
		e.fail("q", "g", qless.JID(fmt.Sprint("f", i, "j")))
		e.put("q", qless.JID(fmt.Sprint("w", i, "j")))
	}
	ctx := t.Context()
	for name, c := range map[string]struct {
		want int
		run  func() error
	}{
		"list": {2 + 2*jobs, func() error { return errOf(e.Queue("q").List(ctx, qless.ListWaiting, qless.Range{})) }},
		"list with data": {2 + 4*jobs, func() error {
			return errOf(e.Queue("q").List(ctx, qless.ListWaiting, qless.Range{}, qless.DataBytes(5)))
		}},
		"list of failed ones": {2 + 2*jobs, func() error { return errOf(e.ListFailed(ctx, "g", qless.Range{})) }},
		"find nothing": {2 + jobs, func() error {
			return errOf(e.Queue("q").Find(ctx, qless.ListWaiting, qless.Filter{Klass: "L"}, ""))
		}},
		"find all": {2 + 4*jobs, func() error {
			return errOf(e.Queue("q").Find(ctx, qless.ListWaiting, qless.Filter{Klass: "K"}, ""))
		}},
		"latency":  {3 + 4, func() error { return errOf(e.Queue("q").Latency(ctx)) }},
		"failures": {2 + jobs, func() error { return errOf(e.SummarizeFailures(ctx, "g", 0)) }},
	} {
		var err error
		// The script's own EVALSHA is counted too.
		require.InDelta(t, c.want, len(e.server.Commands(t, func() { err = c.run() })), 1, name)
		require.NoError(t, err)
	}
}

func TestCommandsThatRepairingCosts(t *testing.T) {
	e := newEnv(t)
	cost := func(count int, run func() (qless.BulkResult, error)) int {
		t.Helper()
		for i := range count {
			e.fail("q", "g", qless.JID(fmt.Sprint("f", i, "j")))
		}
		var r qless.BulkResult
		var err error
		commands := len(e.server.Commands(t, func() { r, err = run() }))
		require.NoError(t, err)
		require.Equal(t, count, r.Count)
		require.NoError(t, errOf(e.Queue("q").Cancel(t.Context(), qless.ListWaiting, qless.Filter{All: true})))
		e.clock.Advance(time.Second)
		return commands
	}
	for name, c := range map[string]struct {
		each int
		run  func() (qless.BulkResult, error)
	}{
		"retry":  {7, func() (qless.BulkResult, error) { return e.Retry(t.Context(), "g", -1) }},
		"cancel": {16, func() (qless.BulkResult, error) { return e.CancelFailed(t.Context(), "g", -1) }},
	} {
		cost(1, c.run)
		got := cost(9, c.run) - cost(8, c.run)
		require.LessOrEqual(t, got, c.each, name)
		require.Greater(t, got, c.each-4, name)
	}
}
