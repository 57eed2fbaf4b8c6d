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
	e, client := newReal(t)
	_, err := client.Queue("mail").Put(t.Context(), "Welcome", nil)
	require.NoError(t, err)
	sha := strings.TrimSpace(e.ok("script", "--load"))
	require.Equal(t, fmt.Sprintf("%x", sha1.Sum([]byte(qless.DropInScript()))), sha)
	require.JSONEq(t, `{"sha":"`+sha+`"}`, e.ok("script", "--load", "--json"))
	length, err := redisOf(t, e).EvalSha(t.Context(), sha, nil, "length", "1", "mail").Result()
	require.NoError(t, err)
	require.EqualValues(t, 1, length)
}

func TestTheClassicScriptIsSmaller(t *testing.T) {
	e, client := newReal(t)
	_, err := client.Queue("mail").Put(t.Context(), "Welcome", nil)
	require.NoError(t, err)
	text := e.ok("script", "--classic")
	require.Less(t, len(text), len(qless.DropInScript())*3/4)
	sha := strings.TrimSpace(e.ok("script", "--classic", "--load"))
	require.Equal(t, fmt.Sprintf("%x", sha1.Sum([]byte(text))), sha)
	length, err := redisOf(t, e).EvalSha(t.Context(), sha, nil, "length", "1", "mail").Result()
	require.NoError(t, err)
	require.EqualValues(t, 1, length)
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
	for shell, syntax := range map[string][]string{
		"bash": {"bash", "-n"}, "zsh": {"zsh", "-n"}, "fish": {"fish", "-n"}, "powershell": nil,
	} {
		text := e.ok("completion", shell)
		require.Contains(t, text, "qless", shell)
		if len(syntax) == 0 {
			continue
		}
		program, err := exec.LookPath(syntax[0])
		if err != nil {
			continue // it is not installed
		}
		path := filepath.Join(t.TempDir(), "completion")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		said, err := exec.Command(program, append(syntax[1:], path)...).CombinedOutput()
		require.NoError(t, err, "%s: %s", shell, said)
	}
	require.Contains(t, e.ok("__complete", "config", ""), "dump")
	require.Contains(t, e.ok("__complete", "serve", "--log-format", ""), "json")
}
