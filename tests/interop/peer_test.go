//go:build interop

package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// peer is the side running a program in another language.
type peer struct {
	requests io.Writer
	answers  *bufio.Scanner
	workers  []string // the names of its workers
	worker   []string // the command of a worker, to be called with its name and the URL
}

// startPeer starts the program in python/, or the one named by QLESS_PEER.
func startPeer(t *testing.T, server *testkit.Server) side {
	command := strings.Fields(os.Getenv("QLESS_PEER"))
	if len(command) == 0 {
		command = []string{venv(t), "python/driver.py"}
	}
	p := runPeer(t, server, command)
	p.workers = []string{"SerialWorker", "ForkingWorker"}
	p.worker = []string{venv(t), inFolder(t, "python/worker.py")}
	return p
}

// startPHP starts the program in php/.
func startPHP(t *testing.T, server *testkit.Server) side {
	lacking := "PHP shares no Redis here: please install what Debian calls php-cli and php-predis"
	if client := os.Getenv("QLESS_PHP"); client == "" {
		output, err := exec.Command("php", "-r", "require 'Predis/autoload.php';").CombinedOutput()
		require.NoError(t, err, "%s\n%s", lacking, output)
	}
	p := runPeer(t, server, []string{"php", "php/driver.php"})
	p.workers = []string{"first in PHP", "second in PHP"}
	p.worker = []string{"php", inFolder(t, "php/worker.php")}
	return p
}

// inFolder returns the absolute path of a file in this folder.
func inFolder(t *testing.T, name string) string {
	path, err := filepath.Abs(name)
	require.NoError(t, err)
	return path
}

// runPeer starts a program as a side.
func runPeer(t *testing.T, server *testkit.Server, command []string) *peer {
	process := exec.Command(command[0], append(command[1:], "redis://"+server.Addr())...)
	process.Stderr = os.Stderr
	requests, err := process.StdinPipe()
	require.NoError(t, err)
	answers, err := process.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, process.Start())
	t.Cleanup(func() {
		_ = requests.Close() // ends the program
		_ = process.Wait()
	})
	return &peer{requests: requests, answers: bufio.NewScanner(answers)}
}

// venv returns the Python of the environment with the client.
func venv(t *testing.T) string {
	path, err := filepath.Abs(clients + "venv/bin/python")
	require.NoError(t, err)
	return path
}

func (p *peer) String() string { return "theirs" }

// do asks the program to run an operation.
func (p *peer) do(_ context.Context, op string, a args) (any, error) {
	if a == nil {
		a = args{}
	}
	request, err := json.Marshal(map[string]any{"op": op, "args": a})
	if err != nil {
		return nil, err
	}
	if _, err := p.requests.Write(append(request, '\n')); err != nil {
		return nil, fmt.Errorf("the other program has ended: %w", err)
	}
	if !p.answers.Scan() {
		return nil, fmt.Errorf("the other program gives no answer: %v", p.answers.Err())
	}
	var answer struct {
		Reply any
		Error *struct{ Class, Text string }
	}
	if err := json.Unmarshal(p.answers.Bytes(), &answer); err != nil {
		return nil, fmt.Errorf("%w: %s", err, p.answers.Text())
	}
	if answer.Error != nil {
		return nil, refusal{answer.Error.Class, answer.Error.Text}
	}
	return answer.Reply, nil
}
