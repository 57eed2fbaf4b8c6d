package lmstfy_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/gateway/lmstfy"
)

const otherServer = "github.com/bitleak/lmstfy@v1.0.15"

// setup takes the place of the client's own TestMain, which needs Docker.
const setup = `package client

import (
	"os"
	"strconv"
	"testing"
)

var (
	Host      = os.Getenv("LMSTFY_HOST")
	Port      int
	Namespace = "client-ns"
	Token     = os.Getenv("LMSTFY_TOKEN")
)

func TestMain(m *testing.M) {
	Port, _ = strconv.Atoi(os.Getenv("LMSTFY_PORT"))
	os.Exit(m.Run())
}
`

// The tests of lmstfy's own Go client pass against this server.
func TestTheTestsOfTheClientPass(t *testing.T) {
	source := download(t)
	g := start(t, func(config *lmstfy.Config) { config.SkipTokens = false })
	status, text := g.askAt(g.admin, "POST", "/token/client-ns?description=client", "")
	require.Equal(t, 201, status)
	host, port, err := net.SplitHostPort(g.api)
	require.NoError(t, err)

	dir := t.TempDir()
	files := must(filepath.Glob(filepath.Join(source, "client", "*.go")))(t)
	for _, file := range files {
		if filepath.Base(file) != "setup_test.go" {
			copyFile(t, file, filepath.Join(dir, filepath.Base(file)))
		}
	}
	copyFile(t, "../go.mod", filepath.Join(dir, "go.mod"))
	copyFile(t, "../go.sum", filepath.Join(dir, "go.sum"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "setup_test.go"), []byte(setup), 0o600))
	drop := exec.CommandContext(t.Context(), "go", "mod", "edit",
		"-droprequire", "github.com/qless/qless-go") // the client does not need it
	drop.Dir = dir
	require.NoError(t, drop.Run())
	tests := exec.CommandContext(t.Context(), "go", "test", "-mod=mod", "-count=1", "-v", ".")
	tests.Dir = dir
	tests.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "LMSTFY_HOST="+host,
		"LMSTFY_PORT="+port, fmt.Sprint("LMSTFY_TOKEN=", g.decode(text)["token"]))
	out, err := tests.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, 20, strings.Count(string(out), "--- PASS: "), "%s", out)
}

// download returns the folder of the other server's source. The test is skipped if the source can't
// be downloaded.
func download(t *testing.T) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", otherServer)
	command.Dir = t.TempDir()
	command.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := command.Output()
	var module struct{ Dir, Error string }
	if json.Unmarshal(out, &module) != nil || err != nil || module.Dir == "" {
		t.Skipf("%s can't be had: %s", otherServer, module.Error)
	}
	return module.Dir
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text := must(os.ReadFile(from))(t)
	require.NoError(t, os.WriteFile(to, text, 0o600))
}
