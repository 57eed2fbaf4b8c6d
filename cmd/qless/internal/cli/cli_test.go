package cli_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/cli"
	"github.com/qless/qless-go/qlesstest"
)

var update = flag.Bool("update", false, "write what commands print to testdata")

// asProgram is set in the environment of a test binary acting as the program.
const asProgram = "QLESS_TEST_AS_PROGRAM"

// atTime is set in this environment to the time of a stopped server clock.
const atTime = "QLESS_TEST_AT"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		cli.StopClock(os.Getenv(atTime))
		os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// noSleep stops the race detector from waiting for a second at the end of each program.
const noSleep = "GORACE=atexit_sleep_ms=0"

// An env is a server, and the program with that server in its environment.
type env struct {
	*qlesstest.Server
	t       *testing.T
	url     string
	environ []string
	folder  string        // where the program runs
	real    *qless.Client // in place of the client of Server
}

func newEnv(t *testing.T) *env {
	server := qlesstest.New(t)
	return &env{Server: server, t: t, url: "redis://" + server.Addr()}
}

// newStill returns an env with a stopped clock. The program's clock is stopped 45 s later.
func newStill(t *testing.T) *env {
	server := qlesstest.New(t)
	client, err := qless.New(server.Redis(), &qless.ClientConfig{Clock: server.Clock().Now, WorkerName: "test-worker"})
	require.NoError(t, err)
	at := server.Clock().Now().Add(45 * time.Second).Format(time.RFC3339Nano)
	return &env{
		Server: server, t: t, url: "redis://" + server.Addr(), environ: []string{atTime + "=" + at}, real: client,
	}
}

// A run is the result of a run of the program.
type run struct {
	status      int
	out, errors string
}

// command returns the program with its arguments, to be started.
func (e *env) command(args ...string) *exec.Cmd {
	program, err := os.Executable()
	require.NoError(e.t, err)
	command := exec.CommandContext(e.t.Context(), program, args...)
	command.Env = []string{asProgram + "=1", "QLESS_REDIS_URL=" + e.url, "HOME=" + e.t.TempDir()}
	command.Dir = e.folder
	command.Env = append(command.Env, noSleep)
	command.Env = append(command.Env, e.environ...)
	return command
}

// run runs the program with an input other than a terminal.
func (e *env) run(input string, args ...string) run {
	e.t.Helper()
	return e.finish(e.command(args...), input)
}

// finish runs a command with an input other than a terminal.
func (e *env) finish(command *exec.Cmd, input string) run {
	e.t.Helper()
	var out, errs bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &out, &errs
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(e.t, err)
	}
	return run{command.ProcessState.ExitCode(), out.String(), errs.String()}
}

// ok runs the program, which must succeed, and returns the output.
func (e *env) ok(args ...string) string {
	e.t.Helper()
	r := e.run("", args...)
	require.Equal(e.t, 0, r.status, r.errors)
	return r.out
}

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}

func TestWrongUseIsStatus2(t *testing.T) {
	e := newEnv(t)
	for _, args := range []string{"nonsense", "queue nonsense", "queue pause", "--nonsense", "queue ls x"} {
		r := e.run("", strings.Fields(args)...)
		require.Equal(t, 2, r.status, "%s: %s", args, r.errors)
		require.Empty(t, r.out, args)
	}
	r := e.run("", "job", "put")
	require.Contains(t, r.errors, "\nusage: qless job put QUEUE KLASS [DATA]\n")
}

func TestWithoutAServerTheStatusIs5(t *testing.T) {
	e := newEnv(t)
	r := e.run("", "queue", "ls", "--redis", "redis://:secret@127.0.0.1:1")
	require.Equal(t, 5, r.status)
	require.NotContains(t, r.errors, "secret")
	require.Equal(t, 2, strings.Count(r.errors, "\n"), r.errors)
}

func TestNothingAskedIsStatus2(t *testing.T) {
	var walk func(command *cobra.Command)
	walk = func(command *cobra.Command) {
		if !command.HasSubCommands() {
			return
		}
		args := strings.Fields(command.CommandPath())[1:]
		for _, more := range [][]string{nil, {"--json"}} {
			var out, errs bytes.Buffer
			status := cli.Main(append(slices.Clone(args), more...), strings.NewReader(""), &out, &errs)
			require.Equal(t, 2, status, args)
			require.Empty(t, out.String(), args)
			require.Contains(t, errs.String(), "qless: want ", args)
			if command.Name() != "serve" {
				require.Contains(t, errs.String(), "Usage:", args)
			}
		}
		for _, below := range command.Commands() {
			walk(below)
		}
	}
	walk(cli.Root())
}

func TestNoOutputChangesTheTerminal(t *testing.T) {
	e := newEnv(t)
	const name = "q\u009b31m\u202e\x7f\x1b[31m"
	_, err := e.Client().Queue(name).Put(t.Context(), name, nil, qless.JID(name), qless.Tags{name})
	require.NoError(t, err)
	for _, args := range [][]string{
		{"queue", "ls", "--json"}, {"queue", "ls"}, {"job", "show", name, "--json"}, {"job", "show", name},
		{"status", "--namespace", name}, {"status", "--json"}, {"tag", "ls", "--json"},
		{"job", "cancel", name, "--dry-run"}, {"job", "tag", name, "--tag", name},
	} {
		r := e.run("", args...)
		require.Equal(t, 0, r.status, r.errors)
		require.NotRegexp(t, "[\\x{7f}-\\x{9f}\\x{202e}\\x1b]", r.out+r.errors, args)
	}
}
