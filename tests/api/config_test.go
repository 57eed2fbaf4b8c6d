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
		"application":                   "qless",
		qless.ConfigBackoffFactor:       "3",
		qless.ConfigBackoffInitialDelay: "0",
		qless.ConfigGracePeriod:         "10",
		qless.ConfigHeartbeat:           "60",
		qless.ConfigHistogramHistory:    "7",
		qless.ConfigJobsHistory:         "604800",
		qless.ConfigJobsHistoryCount:    "50000",
		qless.ConfigMaxJobHistory:       "100",
		qless.ConfigMaxWorkerAge:        "86400",
		qless.ConfigStatsHistory:        "30",
	}
	all, err := e.Config().All(t.Context())
	require.NoError(t, err)
	require.Equal(t, defaults, all)
	for name, want := range defaults {
		got, err := e.Config().Get(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, name := range []string{"unknown", qless.ConfigJobsFailedHistory, "sync-enabled"} {
		got, err := e.Config().Get(t.Context(), name)
		require.NoError(t, err)
		require.Empty(t, got)
	}
}

func TestSettingsAreSetAndUnset(t *testing.T) {
	e := newEnv(t)
	for _, c := range []struct {
		name  string
		value any
		want  string
	}{
		{qless.ConfigHeartbeat, 90 * time.Second, "90"},
		{qless.ConfigHeartbeat, 1500 * time.Millisecond, "1.5"},
		{qless.ConfigHeartbeat, "75", "75"},
		{qless.ConfigGracePeriod, 0, "0"},
		{qless.ConfigJobsHistoryCount, int64(7), "7"},
		{qless.ConfigJobsHistoryCount, "7", "7"},
		{qless.ConfigMaxJobHistory, uint8(7), "7"},
		{qless.ConfigMaxJobHistory, 7.0, "7"},
		{"application", "mine é \"x\"", "mine é \"x\""},
		{qless.ConfigBackoffFactor, 1.5, "1.5"},
		{qless.ConfigBackoffInitialDelay, 2 * time.Minute, "120"},
		{qless.ConfigJobsFailedHistory, 7 * 24 * time.Hour, "604800"},
		{qless.ConfigJobsFailedHistory, 0, "0"},
		{"sync-enabled", true, "1"},
		{"sync-enabled", "0", "0"},
		{"a queue-max-concurrency", 3, "3"},
		{"a queue-heartbeat", 2.5, "2.5"},
	} {
		require.NoError(t, e.Config().Set(t.Context(), c.name, c.value))
		got, err := e.Config().Get(t.Context(), c.name)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	require.NoError(t, errOf(e.Do(t.Context(), "config.set", "anything", "at all")))
	all, err := e.Config().All(t.Context())
	require.NoError(t, err)
	require.Equal(t, "75", all[qless.ConfigHeartbeat])
	require.Equal(t, "at all", all["anything"])
	require.Equal(t, "604800", all[qless.ConfigJobsHistory])

	require.NoError(t, e.Config().Unset(t.Context(), qless.ConfigHeartbeat))
	require.NoError(t, e.Config().Unset(t.Context(), "unknown"))
	got, err := e.Config().Get(t.Context(), qless.ConfigHeartbeat)
	require.NoError(t, err)
	require.Equal(t, "60", got)
}

func TestSetRefusesWhatASettingCannotBe(t *testing.T) {
	e := newEnv(t)
	bad := map[string][]any{
		"application":                   {"", "\xff", 5, true, nil},
		qless.ConfigBackoffFactor:       {"", "x", -1, time.Second},
		qless.ConfigBackoffInitialDelay: {"", "x", -1, -time.Second},
		qless.ConfigGracePeriod:         {"", "x", "nan", "inf", "1e400", true, nil, -1, []byte("1")},
		qless.ConfigHeartbeat:           {"", "x", "+Inf", 0, -1, time.Duration(0), -time.Second, "1,5"},
		"q-heartbeat":                   {"", "x", 0, -1},
		"q-max-concurrency":             {"", "many", -1, -3.5, 2.5, "2.5", 1e10, time.Second},
		qless.ConfigHistogramHistory:    {"x", -1, 0.5, time.Hour},
		qless.ConfigJobsFailedHistory:   {"", "x", -1, true},
		qless.ConfigJobsHistory:         {"x", -1},
		qless.ConfigJobsHistoryCount:    {"x", -1, 0.5},
		qless.ConfigMaxJobHistory:       {"x", -1, 0.5},
		qless.ConfigMaxWorkerAge:        {"x", -1},
		qless.ConfigStatsHistory:        {"x", -1, 0.5},
		"sync-enabled":                  {"", "yes", 2, nil},
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
		got, err := q.Settings(ctx)
		require.NoError(t, err)
		require.Equal(t, qless.QueueSettings{Heartbeat: want}, got)
		e.Put("q")
		require.WithinDuration(t, e.Clock.Now().Add(want), e.Pop("q").Expires, time.Second)
	}
	requireHeartbeat(time.Minute)
	e.Set(qless.ConfigHeartbeat, 90)
	requireHeartbeat(90 * time.Second)
	require.NoError(t, q.SetHeartbeat(ctx, 2500*time.Millisecond))
	requireHeartbeat(2500 * time.Millisecond)
	require.NoError(t, errOf(e.Do(ctx, "config.set", "q-heartbeat", "-5")))
	requireHeartbeat(-5 * time.Second)
	require.NoError(t, errOf(e.Do(ctx, "config.set", "q-heartbeat", "soon")))
	requireHeartbeat(90 * time.Second)
	require.NoError(t, q.SetHeartbeat(ctx, 0))
	requireHeartbeat(90 * time.Second)
	require.NoError(t, errOf(e.Do(ctx, "config.set", qless.ConfigHeartbeat, "soon")))
	requireHeartbeat(time.Minute)
	requireCode(t, qless.ErrInvalid, q.SetHeartbeat(ctx, -1))
	require.NotContains(t, e.Dump()["ql:config"], "q-heartbeat")
}

func TestAQueuesMaxConcurrency(t *testing.T) {
	e := newEnv(t)
	ctx, q := t.Context(), e.Queue("q")
	requireLimit := func(want int) {
		t.Helper()
		got, err := q.Settings(ctx)
		require.NoError(t, err)
		require.Equal(t, want, got.MaxConcurrency)
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
