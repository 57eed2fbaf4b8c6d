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

// The package has a constant for each setting that concerns Go, and its comment gives the default.
func TestConstantsOfSettings(t *testing.T) {
	text, err := os.ReadFile("../../config.go")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)((?:^\t// .*\n)+)\tConfig\w+ = "(.*)"$`).FindAllStringSubmatch(string(text), -1)
	comments := map[string]string{}
	for _, match := range found {
		comments[match[2]] = strings.Join(strings.Fields(strings.ReplaceAll(match[1], "//", " ")), " ")
	}
	for _, s := range OfNamespaces {
		switch comment, has := comments[s.Name]; {
		case s.Name == "application" || s.Name == "sync-enabled":
			require.False(t, has, s.Name)
		case s.Default == "":
			require.Contains(t, comment, "no default", s.Name)
		default:
			require.Regexp(t, `Defaults to `+s.Default+`\b`, comment, s.Name)
		}
	}
}
