package luasrc_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/luasrc"
)

func TestFactsAreReadFromTheHeader(t *testing.T) {
	facts, err := luasrc.FactsOf(tree(map[string]string{
		"a.lua": "-- a: does it.\n--\n-- ARGV     NOW, then\n--          Repeat  no\n-- Repeat   safe\n" +
			"-- Waits    for replicas\n-- Needs    get publish\n--          pubsub|numsub set\n--\n-- More.\n\nreturn 1\n",
	}), "a")
	require.NoError(t, err)
	require.Equal(t, luasrc.Facts{
		Repeatable: true, Replicated: true, Needs: []string{"get", "publish", "pubsub|numsub", "set"},
	}, facts)

	facts, err = luasrc.FactsOf(tree(map[string]string{"a.lua": "-- Repeat  once\n-- Needs  get\n\nreturn 1\n"}), "a")
	require.NoError(t, err)
	require.Equal(t, luasrc.Facts{Needs: []string{"get"}}, facts)

	facts, err = luasrc.FactsOf(tree(map[string]string{"a.lua": "-- Repeat  once, unless new\n-- Needs  get\n\nreturn 1\n"}), "a")
	require.NoError(t, err)
	require.Equal(t, luasrc.Facts{RepeatableNew: true, Needs: []string{"get"}}, facts)
}

func TestAHeaderThatLacksAFactIsAnError(t *testing.T) {
	for header, message := range map[string]string{
		"-- Needs  get":                                "a: the header lacks \"Repeat safe\" or \"Repeat once\"",
		"-- Repeat  twice\n-- Needs  get":              "a: the header lacks \"Repeat safe\" or \"Repeat once\"",
		"-- Repeat  safe":                              "a: the header lacks \"Needs\"",
		"-- Repeat  safe\n-- Waits  long\n-- Needs  x": "a: the header has \"Waits long\"",
		"-- Repeat  safe\n-- Needs  get set":           "but the script calls\n  get",
		"-- Repeat  safe\n-- Needs  hget":              "but the script calls\n  get",
	} {
		sources := tree(map[string]string{"a.lua": header + "\n\nreturn redis.call('get', KEYS[1])\n"})
		require.ErrorContains(t, luasrc.Check(sources), message, header)
	}
}

// Code that calls a Redis command has its name as a literal, so that Calls finds it. Helpers that
// pass on commands are the exception: their callers have it.
func TestCallsFindsEveryCommand(t *testing.T) {
	calls := regexp.MustCompile(`\b(?:call|try|run)\(`)
	literal := regexp.MustCompile(`\b(?:call|try|run)\((?:'[a-z]+'|\.\.\.\)|operation, key, )`)
	commands, err := luasrc.Commands(real)
	require.NoError(t, err)
	for _, command := range commands {
		text := flat(t, command)
		require.Equal(t, len(calls.FindAllString(text, -1)), len(literal.FindAllString(text, -1)), command)
		require.Equal(t, 1, strings.Count(text, "redis.call"), command)
		require.LessOrEqual(t, strings.Count(text, "redis.pcall"), 1, command)
	}
}
