package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/cmd/qless/internal/cli"
	"github.com/qless/qless-go/internal/testkit"
)

// ran runs the program in this process, and requires an error message if it fails.
func ran(t *testing.T, input string, words ...string) (out string, status int) {
	t.Helper()
	var printed, errs bytes.Buffer
	status = cli.Main(words, strings.NewReader(input), &printed, &errs)
	require.Contains(t, []int{0, 1, 2, 3, 4}, status, errs.String())
	if status != 0 {
		require.NotEmpty(t, errs.String())
	}
	require.NotContains(t, errs.String(), "panic")
	return printed.String(), status
}

// serverOf starts the server of the program.
func serverOf(f *testing.F) *redis.Client {
	server := testkit.Start(f)
	f.Setenv("QLESS_REDIS_URL", "redis://"+server.Addr())
	f.Setenv("HOME", f.TempDir())
	return server.Client(f)
}

// FuzzJobsOfAFile puts the jobs of any file, and then the jobs not yet put.
func FuzzJobsOfAFile(f *testing.F) {
	rdb := serverOf(f)
	for _, line := range []string{
		`{"queue": "q", "klass": "K", "data": {"a": 1}, "jid": "a", "tags": ["x"], "depends": ["b"]}`,
		`{"queue": "q", "klass": "K", "jid": "b", "priority": 3, "delay": "90s", "unique": ["a", 1], "ttl": 60}`,
		`{"jid": "c", "klass": "K", "state": "failed", "queue": "q", "history": [{"what": "put"}], "retries": 5,
			"failure": {"group": "g", "message": "m"}, "until": "2099-01-01T00:00:00Z", "on_failure": "run"}`,
		`[{"jid": "d", "klass": "K", "queue": "q", "state": "waiting"}]`, `{`, "\xff", `{"queue": 1}`,
		`{"queue": "q", "klass": "K", "at": "2026-11-22T18:00:00Z", "headers": {"a": "b"}, "limits": ["l"]}`,
	} {
		f.Add(line+"\n"+line, false)
		f.Add(line, true)
	}
	left := filepath.Join(f.TempDir(), "left")
	f.Fuzz(func(t *testing.T, file string, stops bool) {
		words := []string{"job", "put", "q", "K", "--from", "-", "--left", left}
		if stops {
			words = append(words, "--stop-on-error")
		}
		_ = os.Remove(left)
		ran(t, file, words...)
		if size, err := rdb.DBSize(t.Context()).Result(); err == nil && size > 1000 {
			require.NoError(t, rdb.FlushDB(t.Context()).Err())
		}
		out, _ := ran(t, "", "job", "show", "a", "b", "c", "--json")
		if out != "" {
			ran(t, out, "job", "put", "--from", "-")
		}
	})
}

// FuzzDump loads any dump. If that succeeds, it requires the same dump afterwards, and loads it
// again.
func FuzzDump(f *testing.F) {
	rdb := serverOf(f)
	for _, dump := range []string{
		`{"settings": {"heartbeat": "60", "x": "y"}, "paused": ["q"], "limits": {"l": {"concurrency": 3}}}`,
		`{"limits": {"a:*": {"rate": 5, "per": "1m"}}}`, `{"paused": [""]}`, `{"settings": {"grace-period": -1}}`,
		`{"limits": {"l": {"concurrency": 1e99, "rate": -1, "per": "100us"}}}`, `{}`, `[]`, `null`, `{"other": 1}`,
	} {
		f.Add(dump, true)
		f.Add(dump, false)
	}
	f.Fuzz(func(t *testing.T, dump string, clears bool) {
		require.NoError(t, rdb.FlushDB(t.Context()).Err())
		words := []string{"config", "load", "-", "--yes"}
		if clears {
			words = append(words, "--clear")
		}
		_, status := ran(t, dump, words...)
		first, _ := ran(t, "", "config", "dump")
		if status != 0 {
			return
		}
		require.NoError(t, rdb.FlushDB(t.Context()).Err())
		_, status = ran(t, first, "config", "load", "-", "--yes")
		require.Zero(t, status)
		second, _ := ran(t, "", "config", "dump")
		require.Equal(t, first, second)
	})
}

// FuzzContexts reads any file of contexts, and changes it.
func FuzzContexts(f *testing.F) {
	home := f.TempDir()
	f.Setenv("HOME", home)
	f.Setenv("XDG_CONFIG_HOME", home)
	f.Setenv("QLESS_REDIS_URL", "")
	quietly := func(words ...string) {
		cli.Main(words, strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{})
	}
	quietly("context", "set", "first", "--redis", "redis://localhost:6379")
	found, err := filepath.Glob(filepath.Join(home, "*", "contexts.json"))
	require.NoError(f, err)
	require.Len(f, found, 1)
	good, err := os.ReadFile(found[0])
	require.NoError(f, err)
	for _, file := range []string{
		string(good), `{}`, `null`, `[]`, `{"contexts": null}`, `{"contexts": {"a": null}}`, "",
		`{"current": "none", "contexts": {"": {"redis": ":", "namespace": "\u0000"}}}`,
	} {
		f.Add(file, "first")
		f.Add(file, "")
	}
	f.Fuzz(func(t *testing.T, file, name string) {
		require.NoError(t, os.WriteFile(found[0], []byte(file), 0o600))
		ran(t, "", "context", "ls", "--json")
		ran(t, "", "context", "show", "--", name)
		ran(t, "", "context", "use", "--", name)
		ran(t, "", "context", "rm", "--yes", "--", name)
		if _, status := ran(t, "", "context", "set", "--redis", "redis://:secret@localhost:1", "--", "new"); status == 0 {
			out, _ := ran(t, "", "context", "ls")
			require.Contains(t, out, "new")
			require.NotContains(t, out, "secret")
		}
	})
}
