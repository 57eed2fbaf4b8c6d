package cli_test

import (
	"bufio"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// serve starts the program, and returns the first line, which has its address.
func (e *env) serve(args ...string) (line string, stop func()) {
	command := e.command(args...)
	out, err := command.StdoutPipe()
	require.NoError(e.t, err)
	require.NoError(e.t, command.Start())
	lines := bufio.NewReader(out)
	for !strings.Contains(line, "listening on") {
		line, err = lines.ReadString('\n')
		require.NoError(e.t, err)
	}
	return line, func() {
		require.NoError(e.t, command.Process.Signal(syscall.SIGTERM))
		require.NoError(e.t, command.Wait())
	}
}

func TestServeLmstfy(t *testing.T) {
	e := newEnv(t)
	for _, redis := range []string{e.url, ""} {
		e.url = redis
		line, stop := e.serve("serve", "lmstfy", "--skip-tokens",
			"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
		address := regexp.MustCompile(`listening on ([^,]+)`).FindStringSubmatch(line)[1]
		answer, err := http.Get("http://" + address + "/api/ns/q/size")
		require.NoError(t, err)
		require.Equal(t, 200, answer.StatusCode)
		require.NoError(t, answer.Body.Close())
		http.DefaultClient.CloseIdleConnections()
		stop()
	}
}

func TestServeWorkq(t *testing.T) {
	e := newEnv(t)
	for _, redis := range []string{e.url, ""} {
		e.url = redis
		_, stop := e.serve("serve", "workq", "--listen", "127.0.0.1:0")
		stop()
	}
}
