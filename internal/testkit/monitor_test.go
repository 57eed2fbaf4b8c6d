package testkit

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCommands(t *testing.T) {
	s := Start(t)
	client := s.Client(t)
	script := `redis.call('SET', KEYS[1], 'a\nb "c"'); return redis.call('get', KEYS[1])`

	names := s.Commands(t, func() {
		require.NoError(t, client.Set(t.Context(), "other", `[0 lua] "del"`, 0).Err())
		require.NoError(t, client.Eval(t.Context(), script, []string{"key"}).Err())
		require.NoError(t, client.Ping(t.Context()).Err())
	})
	assert.Equal(t, []string{"set", "get"}, names)

	assert.Empty(t, s.Commands(t, func() {}))
}

func TestParseMonitored(t *testing.T) {
	for line, want := range map[string][2]string{
		`1700000000.123456 [0 lua] "HGET" "key"`:               {"lua", "hget"},
		`1700000000.123456 [15 127.0.0.1:4242] "PING"`:         {"127.0.0.1:4242", "ping"},
		`1700000000.123456 [0 127.0.0.1:1] "set" "[0 lua] \"`:  {"127.0.0.1:1", "set"},
		`1700000000.123456 [0 unix:/tmp/redis.sock] "eval" ""`: {"unix:/tmp/redis.sock", "eval"},
	} {
		command := parseMonitored(line) // one line ends in the middle of a word
		assert.Equal(t, want, [2]string{command.Caller, strings.ToLower(command.Words[0])}, line)
	}
}

func TestWordsOfAMonitoredLine(t *testing.T) {
	for line, want := range map[string][]string{
		`"set" "key" "a \"b\" \\ \x00"`: {"set", "key", "a \"b\" \\ \x00"},
		`"set" "key" "["x","y"]" "1"`:   {"set", "key", `["x","y"]`, "1"}, // as written by Valkey 8.1
		`"set" "key" "\" "1"`:           {"set", "key", `\`, "1"},
	} {
		assert.Equal(t, want, words(line), line)
	}
}
