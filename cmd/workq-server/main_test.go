package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// asProgram is set in the environment of a test binary that is to be the program.
const asProgram = "QLESS_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestTheProgramListensAndEndsBySIGTERM(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), program, "-listen", "127.0.0.1:0")
	command.Env = []string{asProgram + "=1"}
	command.Dir = t.TempDir()
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	lines := bufio.NewReader(out)
	line := ""
	for !strings.HasPrefix(line, "listening on 127.0.0.1:") {
		line, err = lines.ReadString('\n')
		require.NoError(t, err)
	}
	require.NoError(t, command.Process.Signal(syscall.SIGTERM))
	require.NoError(t, command.Wait())
}
