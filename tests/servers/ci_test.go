package servers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A failing step leaves no other step out, and is named in the last lines of the output.
func TestAFailedStepOfTheChecksIsNamedLast(t *testing.T) {
	for name, failing := range map[string]string{
		"none":           "",
		"one":            "vuln",
		"the tests, too": "test gateway",
	} {
		t.Run(name, func(t *testing.T) {
			output, made, err := check(t, failing)
			for _, step := range []string{"test", "vuln", "-C bench smoke", "newest-valkey NEWEST=conformance wake"} {
				require.Contains(t, made, step)
			}
			if failing == "" {
				require.NoError(t, err)
				require.NotContains(t, output, "failed:")
				return
			}
			require.Error(t, err)
			lines := strings.Split(strings.TrimSpace(output), "\n")
			var want []string
			for _, step := range strings.Fields(failing) {
				want = append(want, "failed: make "+step)
			}
			require.ElementsMatch(t, want, lines[len(lines)-len(want):])
		})
	}
}

// check runs .ci/run with a make with targets that print their names, and sometimes fail. It
// returns the output, and the targets made.
func check(t *testing.T, failing string) (output string, made []string, err error) {
	t.Helper()
	folder := t.TempDir()
	script, err := os.ReadFile("../../.ci/run")
	require.NoError(t, err)
	write := func(name, text string) {
		file := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o755))
	}
	write(".ci/run", string(script))
	write(".ci/install", "#!/bin/sh\n")
	write("bin/go", "#!/bin/sh\n")
	write("bin/make", "#!/bin/sh\necho \"$*\" >>"+folder+"/made\necho \"$*\"\n"+
		"case \" "+failing+" \" in *\" $* \"*) exit 1;; esac\n")
	run := exec.Command("bash", filepath.Join(folder, ".ci/run"))
	run.Env = append(os.Environ(), "PATH="+filepath.Join(folder, "bin")+":"+os.Getenv("PATH"))
	printed, err := run.CombinedOutput()
	targets, problem := os.ReadFile(filepath.Join(folder, "made"))
	require.NoError(t, problem)
	return string(printed), strings.Split(strings.TrimSpace(string(targets)), "\n"), err
}
