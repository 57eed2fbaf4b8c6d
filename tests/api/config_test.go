package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func TestEachSettingHasItsDefault(t *testing.T) {
	e := newEnv(t)
	defaults := map[string]string{
		"application":           "qless",
		"backoff-factor":        "3",
		"backoff-initial-delay": "0",
		"grace-period":          "10",
		"heartbeat":             "60",
		"histogram-history":     "7",
		"jobs-history":          "604800",
		"jobs-history-count":    "50000",
		"max-job-history":       "100",
		"max-worker-age":        "86400",
		"stats-history":         "30",
	}
	require.Equal(t, defaults, must(e.Config().All(t.Context()))(t))
	for name, want := range defaults {
		require.Equal(t, want, must(e.Config().Get(t.Context(), name))(t))
	}
	for _, name := range []string{"unknown", "jobs-failed-history", "sync-enabled"} {
		require.Empty(t, must(e.Config().Get(t.Context(), name))(t))
	}
}

func TestSettingsAreSetAndUnset(t *testing.T) {
	e := newEnv(t)
	for _, c := range []struct {
		name  string
		value any
		want  string
	}{
		{"heartbeat", 90 * time.Second, "90"},
		{"heartbeat", 1500 * time.Millisecond, "1.5"},
		{"heartbeat", "75", "75"},
		{"grace-period", 0, "0"},
		{"jobs-history-count", int64(7), "7"},
		{"jobs-history-count", "7", "7"},
		{"max-job-history", uint8(7), "7"},
		{"max-job-history", 7.0, "7"},
		{"application", "mine é \"x\"", "mine é \"x\""},
		{"backoff-factor", 1.5, "1.5"},
		{"backoff-initial-delay", 2 * time.Minute, "120"},
		{"jobs-failed-history", 7 * 24 * time.Hour, "604800"},
		{"jobs-failed-history", 0, "0"},
		{"sync-enabled", true, "1"},
		{"sync-enabled", "0", "0"},
		{"a queue-max-concurrency", 3, "3"},
		{"a queue-heartbeat", 2.5, "2.5"},
	} {
		require.NoError(t, e.Config().Set(t.Context(), c.name, c.value))
		got := must(e.Config().Get(t.Context(), c.name))(t)
		require.Equal(t, c.want, got)
	}
	require.NoError(t, errOf(e.Do(t.Context(), "config.set", "anything", "at all")))
	all := must(e.Config().All(t.Context()))(t)
	require.Equal(t, "75", all["heartbeat"])
	require.Equal(t, "at all", all["anything"])
	require.Equal(t, "604800", all["jobs-history"])

	require.NoError(t, e.Config().Unset(t.Context(), "heartbeat"))
	require.NoError(t, e.Config().Unset(t.Context(), "unknown"))
	require.Equal(t, "60", must(e.Config().Get(t.Context(), "heartbeat"))(t))
}

func TestSetRefusesWhatASettingCannotBe(t *testing.T) {
	e := newEnv(t)
	bad := map[string][]any{
		"application":           {"", "\xff", 5, true, nil},
		"backoff-factor":        {"", "x", -1, time.Second},
		"backoff-initial-delay": {"", "x", -1, -time.Second},
		"grace-period":          {"", "x", "nan", "inf", "1e400", true, nil, -1, []byte("1")},
		"heartbeat":             {"", "x", "+Inf", 0, -1, time.Duration(0), -time.Second, "1,5"},
		"q-heartbeat":           {"", "x", 0, -1},
		"q-max-concurrency":     {"", "many", -1, -3.5, 2.5, "2.5", 1e10, time.Second},
		"histogram-history":     {"x", -1, 0.5, time.Hour},
		"jobs-failed-history":   {"", "x", -1, true},
		"jobs-history":          {"x", -1},
		"jobs-history-count":    {"x", -1, 0.5},
		"max-job-history":       {"x", -1, 0.5},
		"max-worker-age":        {"x", -1},
		"stats-history":         {"x", -1, 0.5},
		"sync-enabled":          {"", "yes", 2, nil},
	}
	e.Unchanged(func() {
		for name, values := range bad {
			for _, value := range values {
				err := e.Config().Set(t.Context(), name, value)
				require.ErrorIs(t, err, qless.ErrInvalid, "%s: %v", name, value)
			}
		}
	})
}

func TestSetRefusesUnknownNames(t *testing.T) {
	e := newEnv(t)
	e.Unchanged(func() {
		for name, want := range map[string]string{
			"hartbeat":            `no setting "hartbeat"; did you mean "heartbeat"?`,
			"grace_period":        `no setting "grace_period"; did you mean "grace-period"?`,
			"job-history":         `no setting "job-history"; did you mean "jobs-history"?`,
			"mail-max-concurency": `no setting "mail-max-concurency"; did you mean "mail-max-concurrency"?`,
			"my-mail-hartbeat":    `no setting "my-mail-hartbeat"; did you mean "my-mail-heartbeat"?`,
			"-heartbeat":          `no setting "-heartbeat"; did you mean "heartbeat"?`,
			"color":               `no setting "color"`,
		} {
			err := e.Config().Set(t.Context(), name, 1)
			require.Equal(t, want, requireCode(t, qless.ErrInvalid, err).Message)
		}
	})
}

func TestAQueuesHeartbeat(t *testing.T) {
	e := newEnv(t)
	ctx, q := t.Context(), e.Queue("q")
	requireHeartbeat := func(want time.Duration) {
		t.Helper()
		require.Equal(t, qless.QueueSettings{Heartbeat: want}, must(q.Settings(ctx))(t))
		e.Put("q")
		require.WithinDuration(t, e.Clock.Now().Add(want), e.Pop("q").Expires, time.Second)
	}
	requireHeartbeat(time.Minute)
	e.Set("heartbeat", 90)
	requireHeartbeat(90 * time.Second)
	require.NoError(t, q.SetHeartbeat(ctx, 2500*time.Millisecond))
	requireHeartbeat(2500 * time.Millisecond)
	require.NoError(t, errOf(e.Do(ctx, "config.set", "q-heartbeat", "-5")))
	requireHeartbeat(-5 * time.Second)
	require.NoError(t, errOf(e.Do(ctx, "config.set", "q-heartbeat", "soon")))
	requireHeartbeat(90 * time.Second)
	require.NoError(t, q.SetHeartbeat(ctx, 0))
	requireHeartbeat(90 * time.Second)
	require.NoError(t, errOf(e.Do(ctx, "config.set", "heartbeat", "soon")))
	requireHeartbeat(time.Minute)
	requireCode(t, qless.ErrInvalid, q.SetHeartbeat(ctx, -1))
	require.NotContains(t, e.Dump()["ql:config"], "q-heartbeat")
}

func TestAQueuesMaxConcurrency(t *testing.T) {
	e := newEnv(t)
	ctx, q := t.Context(), e.Queue("q")
	requireLimit := func(want int) {
		t.Helper()
		require.Equal(t, want, must(q.Settings(ctx))(t).MaxConcurrency)
	}
	requireLimit(0)
	require.NoError(t, q.SetMaxConcurrency(ctx, 2))
	requireLimit(2)
	for range 3 {
		e.Put("q")
	}
	require.Len(t, e.Pops("q", 3), 2)
	require.NoError(t, q.SetMaxConcurrency(ctx, -1))
	requireLimit(0)
	require.Len(t, e.Pops("q", 3), 1)
	require.NoError(t, q.SetMaxConcurrency(ctx, 1))
	require.NoError(t, q.SetMaxConcurrency(ctx, 0))
	requireLimit(0)
	requireCode(t, qless.ErrInvalid, q.SetMaxConcurrency(ctx, -2))
	require.NotContains(t, e.Dump(), "ql:config")
	require.NoError(t, errOf(e.Do(ctx, "config.set", "q-max-concurrency", "-5")))
	requireLimit(0)
}
