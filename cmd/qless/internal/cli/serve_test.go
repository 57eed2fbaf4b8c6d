package cli_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// serve starts a server, and returns the first line with its address.
func (e *env) serve(args ...string) (line string, s *serving) {
	command := e.command(args...)
	s = &serving{t: e.t, command: command, log: new(bytes.Buffer), ended: make(chan error, 1)}
	command.Stderr = s.log
	out, err := command.StdoutPipe()
	require.NoError(e.t, err)
	require.NoError(e.t, command.Start())
	lines := bufio.NewReader(out)
	for !strings.Contains(line, "listening on") {
		line, err = lines.ReadString('\n')
		require.NoError(e.t, err)
	}
	go func() { s.ended <- command.Wait() }()
	return line, s
}

func TestServeLmstfy(t *testing.T) {
	e := newEnv(t)
	for _, redis := range []string{e.url, ""} {
		e.url = redis
		line, s := e.serve("serve", "lmstfy", "--skip-tokens",
			"--listen", anywhere, "--admin-listen", anywhere)
		address := regexp.MustCompile(`listening on ([^,]+)`).FindStringSubmatch(line)[1]
		answer, err := http.Get("http://" + address + "/api/ns/q/size")
		require.NoError(t, err)
		require.Equal(t, 200, answer.StatusCode)
		require.NoError(t, answer.Body.Close())
		http.DefaultClient.CloseIdleConnections()
		require.Equal(t, 0, s.end(), s.log)
	}
}

func TestServeWorkq(t *testing.T) {
	e := newEnv(t)
	for _, redis := range []string{e.url, ""} {
		e.url = redis
		_, s := e.serve("serve", "workq", "--listen", anywhere)
		require.Equal(t, 0, s.end(), s.log)
	}
}

func TestServeLmstfyTakesTheFlagsOfLmstfy(t *testing.T) {
	e := newEnv(t)
	file, pid := filepath.Join(t.TempDir(), "config.toml"), filepath.Join(t.TempDir(), "pid")
	config := fmt.Sprintf("Colour = 'blue'\nHost = '127.0.0.1'\nPort = 7777\nAdminPort = 7778\n[AdminRedis]\nAddr = '%[1]s'\n[Pool.default]\nAddr = '%[1]s'\n", e.Addr())
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	_, s := e.serve("serve", "lmstfy", "-c", file, "-p", pid, "--bt", "warn",
		"--listen", anywhere, "--admin-listen", anywhere)
	id, err := os.ReadFile(pid)
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(s.command.Process.Pid), string(id))
	require.NoError(t, s.command.Process.Signal(syscall.SIGHUP))
	testkit.Soon(t, "the end", s.ended)
	require.Equal(t, 0, s.command.ProcessState.ExitCode(), s.log)
	require.NoFileExists(t, pid)
	require.Contains(t, s.log.String(), "Colour")

	require.Equal(t, 2, e.fields("serve lmstfy --foo").status)
	require.Equal(t, 2, e.fields("serve lmstfy foo").status)
	require.Equal(t, 1, e.fields("serve lmstfy -c missing.toml").status)
}

func TestServeWorkqTakesTheFlagsOfWorkq(t *testing.T) {
	e := newEnv(t)
	_, s := e.serve("serve", "workq", "--listen", anywhere, "--cmdlog-path", t.TempDir(),
		"--cmdlog-seg-size", "1024", "--cmdlog-sync", "always", "--cmdlog-sync-int=5",
		"--cmdlog-clean-int", "7")
	require.Equal(t, 0, s.end(), s.log)
	require.Contains(t, s.log.String(), "--cmdlog-path has no effect")

	require.Equal(t, 2, e.fields("serve workq --foo").status)
	require.Equal(t, 2, e.fields("serve workq foo").status)
}
