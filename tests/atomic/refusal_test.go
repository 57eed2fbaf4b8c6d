package atomic

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// consumes reports whether a call on the scene is a worker's. Other calls are producers'.
func consumes(line string) bool {
	for _, command := range []string{"pop", "reserve", "complete", "fail", "retry", "release", "heartbeat", "renew",
		"finish", "end", "forget", "sweep", "cancel", "timeout", "depart", "peek", "jobs", "queues", "unrecur"} {
		if strings.HasPrefix(line, command+"|") {
			return true
		}
	}
	return false
}

func TestAFullServerIsWorkedOff(t *testing.T) {
	b := newBench(t)
	for _, line := range append(commands, "pop|30|empty|w9|1", "reserve|30|w9|1|10|0|empty") {
		t.Run(line, func(t *testing.T) {
			b.restore(t)
			_, err := b.run(t.Context(), line)
			require.NoError(t, err)
			want := b.keys(t)

			b.restore(t)
			before := b.keys(t)
			require.NoError(t, b.rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
			_, err = b.run(t.Context(), line)
			require.NoError(t, b.rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
			if err == nil {
				requireSame(t, want, b.keys(t), "only partly done")
				return
			}
			require.False(t, consumes(line), "%v", err)
			require.ErrorContains(t, err, "OOM ")
			requireSame(t, before, b.keys(t), "refused, but not as it was")
		})
	}
}

// messages returns how many messages were published so far.
func (b *bench) messages(t *testing.T) int {
	t.Helper()
	stats := b.rdb.InfoMap(t.Context(), "commandstats")
	require.NoError(t, stats.Err())
	calls, _, _ := strings.Cut(strings.TrimPrefix(stats.Item("Commandstats", "cmdstat_publish"), "calls="), ",")
	n, _ := strconv.Atoi(calls)
	return n
}

// isSilent reports whether a command works without the right to publish, like a classic client's.
// Workers then notice at their next poll.
func isSilent(line string) bool {
	return slices.ContainsFunc([]string{"unfail", "peek|", "pause|", "repair|30|unfail|"},
		func(command string) bool { return strings.HasPrefix(line, command) })
}

func TestAUserWithoutChannelsChangesNothingOrAll(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.rdb.Do(t.Context(), "acl", "setuser", "app", "on", ">secret", "+@all", "~*",
		"resetchannels").Err())
	options := *b.rdb.Options()
	options.Username, options.Password = "app", "secret"
	app := &bench{rdb: redis.NewClient(&options)}
	t.Cleanup(func() { _ = app.rdb.Close() })
	for _, line := range commands {
		t.Run(line, func(t *testing.T) {
			b.restore(t)
			messages := b.messages(t)
			_, err := b.run(t.Context(), line)
			require.NoError(t, err)
			messages = b.messages(t) - messages
			want := b.keys(t)

			b.restore(t)
			before := b.keys(t)
			_, err = app.run(t.Context(), line)
			if err == nil {
				require.True(t, messages == 0 || isSilent(line), "done without its messages")
				requireSame(t, want, b.keys(t), "only partly done")
				return
			}
			require.ErrorContains(t, err, "NOPERM ")
			requireSame(t, before, b.keys(t), "refused, but not as it was")
		})
	}
}
