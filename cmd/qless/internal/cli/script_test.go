package cli_test

import (
	"crypto/sha1"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func TestTheScriptIsPrintedAsItIs(t *testing.T) {
	e := newEnv(t)
	e.url = "" // no server is needed
	require.Equal(t, qless.DropInScript(), e.ok("script"))
}

func TestTheScriptIsLoaded(t *testing.T) {
	classic := newEnv(t).ok("script", "--classic")
	require.Less(t, len(classic), len(qless.DropInScript())*3/4)
	for words, text := range map[string]string{
		"script --load":           qless.DropInScript(),
		"script --classic --load": classic,
	} {
		e, _ := newReal(t)
		e.put("mail", "Welcome", 0)
		sha := fmt.Sprintf("%x", sha1.Sum([]byte(text)))
		require.Equal(t, sha+"\n", e.ok(strings.Fields(words)...), words)
		length := must(e.rdb.EvalSha(t.Context(), sha, nil, "length", "1", "mail").Result())(t)
		require.EqualValues(t, 1, length, words)
		require.JSONEq(t, `{"sha":"`+sha+`"}`, e.ok(strings.Fields(words+" --json")...), words)
	}
}

func TestTheVersionNamesTheOldestServer(t *testing.T) {
	e := newEnv(t)
	e.url = ""
	require.Regexp(t, `^qless \S+, go1\S+ \S+/\S+, for Redis 6.2 or later\n$`, e.ok("version"))
	var version map[string]string
	require.NoError(t, json.Unmarshal([]byte(e.ok("version", "--json")), &version))
	require.Equal(t, runtime.Version(), version["go"])
	require.Equal(t, "6.2", version["lowest_redis"])
}

func TestCompletionIsPrintedForFourShells(t *testing.T) {
	e := newEnv(t)
	e.url = ""
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		text := e.ok("completion", shell)
		require.Contains(t, text, "qless", shell)
		program, err := exec.LookPath(shell)
		if err != nil || shell == "powershell" {
			continue // it is not installed, or can't only check the syntax
		}
		path := filepath.Join(t.TempDir(), "completion")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		said, err := exec.Command(program, "-n", path).CombinedOutput()
		require.NoError(t, err, "%s: %s", shell, said)
	}
	require.Contains(t, e.ok("__complete", "config", ""), "dump")
	require.Contains(t, e.ok("__complete", "serve", "--log-format", ""), "json")
}
