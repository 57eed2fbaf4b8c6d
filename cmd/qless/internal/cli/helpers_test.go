package cli_test

import (
	"context"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func nothing(context.Context, *qless.Job) error { return nil }

// fields runs the program with words as its arguments.
func (e *env) fields(words string) run {
	e.t.Helper()
	return e.run("", strings.Fields(words)...)
}

// A typing is a run of the program on a terminal with a typing user.
type typing struct {
	t       *testing.T
	command *exec.Cmd
	keys    io.Writer
	shown   chan string
}

// onTerminal starts the program on a terminal with 80 columns.
func (e *env) onTerminal(words string) *typing {
	return e.typing(e.command(strings.Fields(words)...))
}

// typing starts a command on a terminal with 80 columns.
func (e *env) typing(command *exec.Cmd) *typing {
	e.t.Helper()
	command.Env = append(command.Env, "TERM=xterm")
	command.Env = append(command.Env, e.environ...)
	tty, err := pty.StartWithSize(command, &pty.Winsize{Rows: 24, Cols: 80})
	require.NoError(e.t, err)
	shown := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(tty) // ends with an error when the program does
		shown <- string(text)
	}()
	e.t.Cleanup(func() { _ = tty.Close() })
	return &typing{e.t, command, tty, shown}
}

// typed types keys, and returns everything that was shown, and the status.
func (c *typing) typed(keys string) (shown string, status int) {
	c.t.Helper()
	_, err := io.WriteString(c.keys, keys)
	require.NoError(c.t, err)
	shown = <-c.shown
	_ = c.command.Wait()
	return strings.ReplaceAll(shown, "\r\n", "\n"), c.command.ProcessState.ExitCode()
}

func jobOf(t *testing.T, client *qless.Client, jid string) *qless.Job {
	t.Helper()
	job, err := client.Job(t.Context(), jid)
	require.NoError(t, err)
	return job
}
