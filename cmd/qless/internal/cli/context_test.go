package cli_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// A desk is the environment of a user: a home, and no variable with the name of a server.
type desk struct {
	*env
	home  string
	extra []string
}

func newDesk(t *testing.T) *desk { return &desk{env: newEnv(t), home: t.TempDir()} }

// command returns the program in the environment of the user.
func (d *desk) command(args ...string) *exec.Cmd {
	command := d.env.command(args...)
	command.Env = append([]string{asProgram + "=1", noSleep, "HOME=" + d.home}, d.extra...)
	return command
}

func (d *desk) run(input string, args ...string) run {
	d.t.Helper()
	return d.finish(d.command(args...), input)
}

func (d *desk) ok(args ...string) run {
	d.t.Helper()
	r := d.run("", args...)
	require.Equal(d.t, 0, r.status, r.errors)
	return r
}

// exits runs the program, which must end with a status, and returns its errors.
func (d *desk) exits(status int, words string) string {
	d.t.Helper()
	r := d.run("", strings.Fields(words)...)
	require.Equal(d.t, status, r.status, "%s: %s", words, r.errors)
	return r.errors
}

func (d *desk) file() string {
	return filepath.Join(d.home, ".config", "qless", "contexts.json")
}

func TestAContextNamesAServerAndANamespace(t *testing.T) {
	d := newDesk(t)
	require.Equal(t, "no contexts\n", d.ok("context", "ls").out)
	d.ok("context", "set", "here", "--redis", d.url, "--namespace", "mine:")
	mine := must(qless.New(d.Redis(), &qless.ClientConfig{Namespace: "mine:"}))(t)
	must(mine.Queue("mail").Put(t.Context(), "Welcome", nil))(t)
	require.Contains(t, d.ok("queue", "ls", "--context", "here").out, "mail")
	require.Equal(t, "no queues here; there are queues in mine: (--namespace)\n",
		d.ok("queue", "ls", "--redis", d.url).out)
	info := must(os.Stat(d.file()))(t)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestFlagBeatsEnvironmentBeatsContext(t *testing.T) {
	d := newDesk(t)
	for _, name := range []string{"a", "b", "c"} {
		d.ok("context", "set", name, "--redis", "redis://"+name, "--namespace", name+":")
	}
	show := func(args ...string) string {
		var shown struct{ Redis, Namespace, From string }
		text := d.ok(append(args, "context", "show", "--json")...).out
		require.NoError(t, json.Unmarshal([]byte(text), &shown))
		return shown.Redis + " " + shown.Namespace
	}
	require.Equal(t, "redis://localhost:6379 ql:", show())
	d.ok("context", "use", "a")
	require.Equal(t, "redis://a a:", show())
	d.extra = []string{"QLESS_NAMESPACE=env:"}
	require.Equal(t, "redis://a env:", show())
	d.extra = []string{"QLESS_CONTEXT=b"}
	require.Equal(t, "redis://b b:", show())
	require.Equal(t, "redis://b flag:", show("--namespace", "flag:"))
	require.Equal(t, "redis://c c:", show("--context", "c"))
	require.Equal(t, "redis://d ql:", show("--redis", "redis://d"))
	d.extra = []string{"QLESS_REDIS_URL=redis://e", "QLESS_NAMESPACE=env:"}
	require.Equal(t, "redis://e env:", show(), "the namespace of a context goes with its server")
	require.Equal(t, "redis://c c:", show("--context", "c"))
	d.ok("context", "use", "--none")
	d.extra = nil
	require.Equal(t, "redis://localhost:6379 ql:", show())
}

func TestTwoNamesOfAServerAreOneTooMany(t *testing.T) {
	d := newDesk(t)
	d.ok("context", "set", "a", "--redis", "redis://a")
	d.exits(2, "queue ls --context a --redis redis://b")
	d.extra = []string{"QLESS_CONTEXT=a", "QLESS_REDIS_URL=redis://b"}
	for _, args := range []string{"queue ls", "serve workq", "serve lmstfy"} {
		require.Contains(t, d.exits(2, args), "QLESS_CONTEXT", args)
	}
}

func TestNoPasswordIsPrinted(t *testing.T) {
	d := newDesk(t)
	r := d.run("rediss://ops:secret@redis.internal:6380/2\n",
		"context", "set", "production", "--redis", "-", "--description", "look, but do not touch")
	require.Equal(t, run{0, "", "added context production\n"}, r)
	text := string(must(os.ReadFile(d.file()))(t))
	require.Contains(t, text, "secret", "it is needed to connect")
	d.ok("context", "set", "staging", "--redis", "redis://:secret@staging", "--namespace", "{s}:ql:")
	d.ok("context", "use", "staging")

	all := d.ok("context", "ls").out
	golden(t, "context_ls.txt", all)
	golden(t, "context_show.txt", d.ok("context", "show", "production").out)
	all += d.ok("context", "show").out + d.ok("context", "ls", "--json").out
	for _, args := range []string{
		"context set x --redis redis://:secret%zz@h", "context set x --redis http://:secret@h",
		"queue ls --redis redis://:secret%zz@h", "context show --redis redis://:secret%zz@h",
	} {
		r := d.run("", strings.Fields(args)...)
		all += r.out + r.errors
	}
	require.NoError(t, os.WriteFile(d.file(), []byte(`{"contexts": {"x": {"redis": "secret`), 0o600))
	r = d.run("", "queue", "ls")
	require.Equal(t, 1, r.status)
	require.NotContains(t, all+r.errors, "secret")
	require.Contains(t, r.errors, "not JSON")
}

func TestAContextIsRemovedOnlyWhenConfirmed(t *testing.T) {
	d := newDesk(t)
	d.ok("context", "set", "a", "--redis", "redis://a")
	d.ok("context", "use", "a")
	for _, words := range []string{
		"context use b", "context rm b --yes", "context show b", "queue ls --context b",
	} {
		d.exits(3, words)
	}
	require.Equal(t, 2, d.run("y\n", "context", "rm", "a").status)
	require.Equal(t, run{0, "", "would remove context a\n"}, d.run("", "context", "rm", "a", "--dry-run"))

	screen, status := d.terminalOf(d.command("context", "rm", "a")).typed("n\n")
	require.Equal(t, 0, status)
	require.Contains(t, screen, "Remove context a? [y/N]")
	require.Contains(t, d.ok("context", "ls").out, "redis://a")

	_, status = d.terminalOf(d.command("context", "rm", "a")).typed("y\n")
	require.Equal(t, 0, status)
	require.Equal(t, "no contexts\n", d.ok("context", "ls").out)
	require.Contains(t, d.ok("context", "show").out, "localhost", "it is in use no more")
}

func TestTheFolderOfContextsIsThatOfXDG(t *testing.T) {
	d := newDesk(t)
	folder := t.TempDir()
	d.extra = []string{"XDG_CONFIG_HOME=" + folder}
	d.ok("context", "set", "a", "--redis", "redis://a")
	require.FileExists(t, filepath.Join(folder, "qless", "contexts.json"))
	left := must(os.ReadDir(filepath.Join(folder, "qless")))(t)
	require.Len(t, left, 1, "no draft is left behind")
	require.Equal(t, "a\n:4\n", d.ok("__complete", "context", "use", "").out)
}

func TestWithoutAHomeThereAreNoContexts(t *testing.T) {
	d := newDesk(t)
	for words, status := range map[string]int{
		"queue ls --redis " + d.url:       0,
		"context set a --redis redis://a": 1,
	} {
		command := d.command(strings.Fields(words)...)
		command.Env = []string{asProgram + "=1", noSleep}
		require.Equal(t, status, d.finish(command, "").status, words)
	}
}
