package settings

import (
	"os"
	"regexp"
	"slices"
	"strings"
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
		{"grace-period", 0, "0"},
		{"jobs-history-count", int64(7), "7"},
		{"jobs-history-count", "7", "7"},
		{"max-job-history", uint8(7), "7"},
		{"max-job-history", 7.0, "7"},
		{"backoff-factor", 1.5, "1.5"},
		{"backoff-initial-delay", 2 * time.Minute, "120"},
		{"jobs-failed-history", 7 * 24 * time.Hour, "604800"},
		{"jobs-failed-history", 0, "0"},
		{"application", "mine", "mine"},
		{"sync-enabled", true, "1"},
		{"sync-enabled", "0", "0"},
		{"mail" + SuffixMaxRate, "10/0.5", "10/0.5"},
		{"mail-max-concurrency", 3, "3"},
		{"mail" + SuffixHeartbeat, time.Second, "1"},
	} {
		written, err := Write(c.name, c.value)
		require.NoError(t, err, c.name)
		require.Equal(t, c.want, written, c.name)
	}
}

func TestWriteRefusesValues(t *testing.T) {
	for name, values := range map[string][]any{
		"application":           {5, 7, true, nil},
		"backoff-factor":        {"", "x", -1, time.Second},
		"backoff-initial-delay": {"", "x", -1, -time.Second},
		"grace-period":          {"", "x", "nan", "inf", "1e400", true, nil, -1, []byte("1")},
		"heartbeat":             {"", "x", "+Inf", "NaN", true, 0, -1, time.Duration(0), -time.Second, "1,5"},
		"q-heartbeat":           {"", "x", 0, -1},
		"q-max-concurrency":     {"", "many", -1, -3.5, 2.5, "2.5", 1e10, time.Second},
		"histogram-history":     {"x", -1, 0.5, time.Hour},
		"jobs-failed-history":   {"", "x", -1, true},
		"jobs-history":          {"x", -1},
		"jobs-history-count":    {"x", -1, 0.5, 1.5, time.Second},
		"max-job-history":       {"x", -1, 0.5},
		"max-worker-age":        {"x", -1},
		"stats-history":         {"x", -1, 0.5},
		"sync-enabled":          {"", "yes", "perhaps", 2, nil},
		"mail" + SuffixMaxRate:  {"0/60", "1/NaN"},
		SuffixHeartbeat:         {60},
	} {
		for _, value := range values {
			_, err := Write(name, value)
			require.Error(t, err, "%s = %v", name, value)
		}
	}
}

func TestAnUnknownNameHasASuggestion(t *testing.T) {
	for name, like := range map[string]string{
		"hartbeat": "heartbeat", "grace_period": "grace-period", "job-history": "jobs-history",
		"mail-max-concurency": "mail-max-concurrency", "my-mail-hartbeat": "my-mail-heartbeat",
		"-heartbeat": "heartbeat",
	} {
		_, err := Write(name, 1)
		require.EqualError(t, err, `no setting "`+name+`"; did you mean "`+like+`"?`)
	}
	for _, name := range []string{"colour", "grace-perxxxxx"} {
		_, err := Write(name, 60)
		require.EqualError(t, err, `no setting "`+name+`"`)
	}
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

// The scripts contain the defaults they use.
func TestTheScriptsHaveTheSameDefaults(t *testing.T) {
	text, err := os.ReadFile("../../lua/lib/settings.lua")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^local DEFAULT_(\w+) = (\d+)$`).FindAllStringSubmatch(string(text), -1)
	var names []string
	for _, match := range found {
		name := strings.ReplaceAll(strings.ToLower(match[1]), "_", "-")
		require.Equal(t, Default(name), match[2], name)
		names = append(names, name)
	}
	for name := range Defaults() {
		require.True(t, name == "application" || slices.Contains(names, name), name)
	}
}

// The comment of Config lists each setting that concerns Go, with its default.
func TestListOfSettings(t *testing.T) {
	text, err := os.ReadFile("../../config.go")
	require.NoError(t, err)
	listed := map[string]string{}
	row := regexp.MustCompile(`(?m)^//\t([a-z-]+) +([0-9]+|-) +\w`)
	for _, match := range row.FindAllStringSubmatch(string(text), -1) {
		listed[match[1]] = strings.TrimPrefix(match[2], "-")
	}
	for _, s := range OfNamespaces {
		given, has := listed[s.Name]
		require.Equal(t, s.Name != "application" && s.Name != "sync-enabled", has, s.Name)
		require.True(t, !has || given == s.Default, "%s: %q", s.Name, given)
	}
}
