package workq_test

import (
	"fmt"
	"net"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// The conversations were recorded with Workq 0.2.0; testdata/workq.py replays them. Some have waits
// of 50 ms, which a busy machine can miss, so a failed conversation is tried twice more.
func TestConversationsWithWorkq(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	e := newEnv(t)
	command := exec.CommandContext(t.Context(), python, "workq.py", "replay", "--addr", e.addr,
		"--jobs", "8", "--retries", "2", "--slack", "1000", "--patience", "20000",
		"--restart", fmt.Sprintf("%s -c 'import socket; "+
			"socket.create_connection((\"127.0.0.1\", %d)).recv(1)'", python, e.restarts()),
		"workq-public.jsonl.gz")
	command.Dir = "testdata"
	out, err := command.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err)
	require.Contains(t, string(out), "623 passed, 0 failed")
}

// restarts returns a port. A connection to that port restarts the gateway, and is then closed.
func (e *env) restarts() int {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(e)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			e.stop()
			e.serve(e.addr)
			_ = connection.Close()
		}
	}()
	e.Cleanup(func() {
		_ = listener.Close()
		<-ended
	})
	return listener.Addr().(*net.TCPAddr).Port
}
