//go:build interop

package mixed

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const interop = "../../tests/interop/install"

// pythonCommand installs the Python client, and returns the command for running its programs.
func pythonCommand(t *testing.T, s settings) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), interop).CombinedOutput()
	require.NoError(t, err, "%s", out)
	python, err := filepath.Abs("../../.cache/interop/venv/bin/python")
	require.NoError(t, err)
	return []string{
		python, "python/program.py", s.URL, lmstfyQueue, workqQueue, workqUrgent, workqScheduled,
	}
}
