package docs

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// build builds a program, and returns its path.
func build(t *testing.T, code string) string {
	t.Helper()
	folder := t.TempDir()
	source, program := filepath.Join(folder, "main.go"), filepath.Join(folder, "program")
	require.NoError(t, os.WriteFile(source, []byte(code), 0o644))
	command := exec.Command("go", "build", "-o", program, source)
	command.Dir = root
	output, err := command.CombinedOutput()
	require.NoError(t, err, string(output))
	return program
}

func TestFirstProgramPrintsItsOutputAndEndsAtCtrlC(t *testing.T) {
	const url = "redis://localhost:6379"
	all := blocks("README.md", read(t, "README.md"))
	var code, printed string
	for i, b := range all {
		if b.isProgram() {
			code, printed = b.code, all[i+1].code+"\n"
			break
		}
	}
	require.Contains(t, code, url)
	server := testkit.Start(t)
	program := build(t, strings.ReplaceAll(code, url, "redis://"+server.Addr()))

	command := exec.Command(program)
	command.Stderr = os.Stderr
	stdout, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	hung := time.AfterFunc(testkit.Patience, func() { _ = command.Process.Kill() })
	defer hung.Stop()

	lines := bufio.NewReader(stdout)
	for wanted := range strings.Lines(printed) {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, wanted, line)
	}
	require.NoError(t, command.Process.Signal(os.Interrupt))
	rest, err := io.ReadAll(lines)
	require.NoError(t, err)
	require.NoError(t, command.Wait())
	require.Empty(t, string(rest))
}
