package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func TestSettingsHaveDefaults(t *testing.T) {
	e := newEnv(t)
	defaults := map[string]string{
		qless.ConfigApplication:      "qless",
		qless.ConfigGracePeriod:      "10",
		qless.ConfigHeartbeat:        "60",
		qless.ConfigHistogramHistory: "7",
		qless.ConfigJobsHistory:      "604800",
		qless.ConfigJobsHistoryCount: "50000",
		qless.ConfigStatsHistory:     "30",
	}
	all, err := e.Config().All(t.Context())
	require.NoError(t, err)
	require.Equal(t, defaults, all)
	for option, want := range defaults {
		got, err := e.Config().Get(t.Context(), option)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	got, err := e.Config().Get(t.Context(), "unknown")
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestSettingsAreSetAndUnset(t *testing.T) {
	e := newEnv(t)
	for _, c := range []struct {
		option string
		value  any
		want   string
	}{
		{qless.ConfigHeartbeat, 90 * time.Second, "90"},
		{qless.ConfigHeartbeat, 1500 * time.Millisecond, "1.5"},
		{qless.ConfigHeartbeat, "75", "75"},
		{qless.ConfigGracePeriod, 0, "0"},
		{qless.ConfigGracePeriod, -1, "-1"},
		{qless.ConfigJobsHistoryCount, int64(7), "7"},
		{qless.ConfigApplication, "mine é \"x\"", "mine é \"x\""},
		{"anything", true, "true"},
		{"a queue-max-concurrency", 3, "3"},
	} {
		require.NoError(t, e.Config().Set(t.Context(), c.option, c.value))
		got, err := e.Config().Get(t.Context(), c.option)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	all, err := e.Config().All(t.Context())
	require.NoError(t, err)
	require.Equal(t, "75", all[qless.ConfigHeartbeat])
	require.Equal(t, "true", all["anything"])
	require.Equal(t, "604800", all[qless.ConfigJobsHistory])

	require.NoError(t, e.Config().Unset(t.Context(), qless.ConfigHeartbeat))
	require.NoError(t, e.Config().Unset(t.Context(), "unknown"))
	got, err := e.Config().Get(t.Context(), qless.ConfigHeartbeat)
	require.NoError(t, err)
	require.Equal(t, "60", got)
}

func TestSettingsThatMustBeNumbers(t *testing.T) {
	e := newEnv(t)
	bad := map[string][]any{
		qless.ConfigApplication:      {"", "\xff"},
		qless.ConfigGracePeriod:      {"", "x", "nan", "inf", "1e400", true, nil},
		qless.ConfigHeartbeat:        {"", "x", "nan", "+Inf", 0, -1, time.Duration(0), -time.Second, "1,5"},
		"q-heartbeat":                {"", "x", 0, -1},
		"q-max-concurrency":          {"", "many"},
		qless.ConfigHistogramHistory: {"x"},
		qless.ConfigJobsHistory:      {"x"},
		qless.ConfigJobsHistoryCount: {"x"},
		qless.ConfigMaxJobHistory:    {"x"},
		qless.ConfigMaxWorkerAge:     {"x"},
		qless.ConfigStatsHistory:     {"x"},
	}
	e.unchanged(func() {
		for option, values := range bad {
			for _, value := range values {
				requireCode(t, qless.ErrInvalid, e.Config().Set(t.Context(), option, value))
			}
		}
	})
}
