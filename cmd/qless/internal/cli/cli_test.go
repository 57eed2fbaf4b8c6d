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

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/cli"
	"github.com/qless/qless-go/internal/testkit"
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
	*qlesstest.Server // or nil
	t                 *testing.T
	url               string
	environ           []string
	folder            string          // where the program runs
	real              *testkit.Server // in place of Server, or nil
	rdb               *redis.Client
	client            *qless.Client
}

func newEnv(t *testing.T) *env { return envOf(t, qlesstest.New(t)) }

// newLiveEnv is newEnv with a running clock.
func newLiveEnv(t *testing.T) *env {
	server := must(qlesstest.Start())(t)
	t.Cleanup(server.Close)
	return envOf(t, server)
}

func envOf(t *testing.T, server *qlesstest.Server) *env {
	url := "redis://" + server.Addr()
	return &env{Server: server, t: t, url: url, rdb: server.Redis(), client: server.Client()}
}

// newStill returns an env with a stopped clock. The program's clock is stopped 45 s later.
func newStill(t *testing.T) *env {
	e := newEnv(t)
	e.client = must(e.NewClient(&qless.ClientConfig{WorkerName: "test-worker"}))(t)
	at := e.Clock().Now().Add(45 * time.Second).Format(time.RFC3339Nano)
	e.environ = []string{atTime + "=" + at}
	return e
}

// newReal returns an env with a real server, and its client.
func newReal(t *testing.T, arguments ...string) (*env, *qless.Client) {
	server := testkit.Start(t, arguments...)
	rdb := server.Client(t)
	client := must(qless.New(rdb, nil))(t)
	t.Cleanup(func() { _ = client.Close() })
	return &env{t: t, url: "redis://" + server.Addr(), real: server, rdb: rdb, client: client}, client
}

// Client returns a client of the server.
func (e *env) Client() *qless.Client { return e.client }

// places are the servers for a test: one in memory, and a real one.
var places = map[string]func(t *testing.T) *env{
	"in memory": newEnv,
	"real":      func(t *testing.T) *env { e, _ := newReal(t); return e },
}

// A run is the result of a run of the program.
type run struct {
	status      int
	out, errors string
}

// command returns the program with its arguments, to be started.
func (e *env) command(args ...string) *exec.Cmd {
	program := must(os.Executable())(e.t)
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

// fields runs the program with words as its arguments.
func (e *env) fields(words string) run {
	e.t.Helper()
	return e.run("", strings.Fields(words)...)
}

// exits runs the program, which must end with a status, and returns its errors.
func (e *env) exits(status int, words string) string {
	e.t.Helper()
	r := e.fields(words)
	require.Equal(e.t, status, r.status, "%s: %s%s", words, r.out, r.errors)
	return r.errors
}

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	want := must(os.ReadFile(path))(t)
	require.Equal(t, string(want), text)
}

func TestWrongUseIsStatus2(t *testing.T) {
	e := newEnv(t)
	for _, args := range []string{"nonsense", "queue nonsense", "queue pause", "--nonsense", "queue ls x"} {
		r := e.run("", strings.Fields(args)...)
		require.Equal(t, 2, r.status, "%s: %s", args, r.errors)
		require.Empty(t, r.out, args)
	}
	require.Contains(t, e.exits(2, "job put"), "\nusage: qless job put QUEUE KLASS [DATA]\n")
}

func TestWithoutAServerTheStatusIs5(t *testing.T) {
	e := newEnv(t)
	for _, words := range []string{"queue ls", "status", "doctor", "bench", "exporter"} {
		r := e.fields(words + " --redis redis://:secret@127.0.0.1:1")
		require.Equal(t, 5, r.status, words)
		require.Empty(t, r.out, words)
		require.NotContains(t, r.errors, "secret", words)
		require.Regexp(t, "^qless: .*connection refused\nhint: --redis, \\$QLESS_REDIS_URL or a context "+
			"names another server\n$", r.errors, words)
	}
}

func TestNothingAskedIsStatus2(t *testing.T) {
	for _, command := range cli.All(cli.Root()) {
		if !command.HasSubCommands() {
			continue
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
	}
}

func TestNoOutputChangesTheTerminal(t *testing.T) {
	e := newEnv(t)
	const name = "q\u009b31m\u202e\x7f\x1b[31m"
	must(e.Client().Queue(name).Put(t.Context(), name, nil, qless.JID(name), qless.Tags{name}))(t)
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
