package settings

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWriteFormatsValues(t *testing.T) {
	for _, c := range []struct {
		name  string
		value any
		want  string
	}{
		{"heartbeat", 1500 * time.Millisecond, "1.5"},
		{"heartbeat", "30", "30"},
		{"jobs-history-count", uint8(7), "7"},
		{"backoff-factor", 1.5, "1.5"},
		{"application", "mine", "mine"},
		{"sync-enabled", true, "1"},
		{"sync-enabled", "0", "0"},
		{"mail" + SuffixMaxRate, "10/0.5", "10/0.5"},
		{"mail" + SuffixHeartbeat, time.Second, "1"},
	} {
		written, err := Write(c.name, c.value)
		require.NoError(t, err, c.name)
		require.Equal(t, c.want, written, c.name)
	}
}

func TestWriteRefusesValues(t *testing.T) {
	for _, c := range []struct {
		name  string
		value any
	}{
		{"heartbeat", 0}, {"heartbeat", "NaN"}, {"heartbeat", true}, {"grace-period", -1},
		{"jobs-history-count", 1.5}, {"jobs-history-count", time.Second}, {"application", 7},
		{"sync-enabled", "perhaps"}, {"mail" + SuffixMaxRate, "0/60"},
		{"mail" + SuffixMaxRate, "1/NaN"}, {SuffixHeartbeat, 60},
	} {
		_, err := Write(c.name, c.value)
		require.Error(t, err, "%s = %v", c.name, c.value)
	}
}

func TestAnUnknownNameHasASuggestion(t *testing.T) {
	_, err := Write("hartbeat", 60)
	require.EqualError(t, err, `no setting "hartbeat"; did you mean "heartbeat"?`)
	_, err = Write("colour", 60)
	require.EqualError(t, err, `no setting "colour"`)
}

func TestDefaultsAreValuesOfTheirSettings(t *testing.T) {
	defaults := Defaults()
	require.NotEmpty(t, defaults)
	for name, value := range defaults {
		_, err := Write(name, value)
		require.NoError(t, err)
		require.Equal(t, value, Default(name))
	}
	require.NotContains(t, defaults, "jobs-failed-history", "it has none")
}
