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

// The scripts have the defaults that they use.
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
