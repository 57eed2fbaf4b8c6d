package servers

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	fetched = regexp.MustCompile(`(?m)^have (\S+) `)
	named   = regexp.MustCompile("`([a-z]+-(?:\\d\\.\\d\\S*|newest))`")
	row     = regexp.MustCompile(`(?m)^\| ([a-z]+)-(\S+) \| (\w+) (\S+) \| ([a-z, ]+) \| (\S+) \|$`)
)

// The page names each fetchable server, and the exact versions that passed.
func TestThePageListsTheServersThatPassed(t *testing.T) {
	script, err := os.ReadFile("fetch.sh")
	require.NoError(t, err)
	page, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n## Servers\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	require.ElementsMatch(t, firsts(fetched, string(script)), firsts(named, section))

	rows := row.FindAllStringSubmatch(strings.ReplaceAll(section, "`", ""), -1)
	require.Len(t, rows, strings.Count(section, "\n| `"))
	for _, match := range rows {
		name, series, kind, version, suites, day := match[1], match[2], match[3], match[4], match[5], match[6]
		require.Equal(t, name, strings.ToLower(kind))
		require.Regexp(t, `^\d+\.\d+\.\d+$`, version)
		if number, _, _ := strings.Cut(series, "-"); number != "newest" {
			require.True(t, strings.HasPrefix(version, number+"."), "%s is none of %s", version, series)
		}
		for suite := range strings.SplitSeq(suites, ", ") {
			require.DirExists(t, "../"+suite)
		}
		on, err := time.Parse(time.DateOnly, day)
		require.NoError(t, err)
		require.False(t, on.After(time.Now()), day)
	}
}

// firsts returns the first group of each match.
func firsts(pattern *regexp.Regexp, text string) []string {
	var all []string
	for _, match := range pattern.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(all, match[1]) {
			all = append(all, match[1])
		}
	}
	return all
}
