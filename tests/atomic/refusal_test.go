package atomic

import (
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
			_, err := b.run(t.Context(), line)
			require.NoError(t, err)
			want := b.keys(t)

			b.restore(t)
			before := b.keys(t)
			_, err = app.run(t.Context(), line)
			if err == nil {
				requireSame(t, want, b.keys(t), "only partly done")
				return
			}
			require.ErrorContains(t, err, "NOPERM ")
			requireSame(t, before, b.keys(t), "refused, but not as it was")
		})
	}
}
