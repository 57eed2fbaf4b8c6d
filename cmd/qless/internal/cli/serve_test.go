package cli_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

func TestAServerAloneTakesARedisOrNone(t *testing.T) {
	e := newEnv(t)
	for _, redis := range []string{e.url, ""} {
		e.url = redis
		s := e.serving(1, "serve", "lmstfy", "--skip-tokens",
			"--listen", anywhere, "--admin-listen", anywhere)
		status, _ := s.get("", "/api/ns/q/size")
		require.Equal(t, 200, status)
		http.DefaultClient.CloseIdleConnections()
		require.Equal(t, 0, s.end(), s.log)

		s = e.serving(1, "serve", "workq", "--listen", anywhere)
		require.Equal(t, 0, s.end(), s.log)
	}
}

func TestServeLmstfyTakesTheFlagsOfLmstfy(t *testing.T) {
	e := newEnv(t)
	file, pid := filepath.Join(t.TempDir(), "config.toml"), filepath.Join(t.TempDir(), "pid")
	config := fmt.Sprintf("Colour = 'blue'\nHost = '127.0.0.1'\nPort = 7777\nAdminPort = 7778\n"+
		"[AdminRedis]\nAddr = '%[1]s'\n[Pool.default]\nAddr = '%[1]s'\n", e.Addr())
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	s := e.serving(1, "serve", "lmstfy", "-c", file, "-p", pid, "--bt", "warn",
		"--listen", anywhere, "--admin-listen", anywhere)
	id := must(os.ReadFile(pid))(t)
	require.Equal(t, strconv.Itoa(s.command.Process.Pid), string(id))
	require.NoError(t, s.command.Process.Signal(syscall.SIGHUP))
	testkit.Soon(t, "the end", s.ended)
	require.Equal(t, 0, s.command.ProcessState.ExitCode(), s.log)
	require.NoFileExists(t, pid)
	require.Contains(t, s.log.String(), "Colour")

	e.exits(2, "serve lmstfy --foo")
	e.exits(2, "serve lmstfy foo")
	e.exits(1, "serve lmstfy -c missing.toml")
}

func TestServeWorkqTakesTheFlagsOfWorkq(t *testing.T) {
	e := newEnv(t)
	s := e.serving(1, "serve", "workq", "--listen", anywhere, "--cmdlog-path", t.TempDir(),
		"--cmdlog-seg-size", "1024", "--cmdlog-sync", "always", "--cmdlog-sync-int=5",
		"--cmdlog-clean-int", "7")
	require.Equal(t, 0, s.end(), s.log)
	require.Contains(t, s.log.String(), "--cmdlog-path has no effect")

	e.exits(2, "serve workq --foo")
	e.exits(2, "serve workq foo")
}
