package cli_test

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"github.com/stretchr/testify/require"
	"golang.org/x/term"

	"github.com/qless/qless-go/internal/testkit"
)

// A terminal runs the program and holds its screen.
type terminal struct {
	t       *testing.T
	command *exec.Cmd
	pty     *os.File
	tty     *os.File
	lock    sync.Mutex
	screen  vt10x.Terminal // under the lock
	raw     *lockedText
	before  *term.State
	ended   chan struct{}
}

// terminal starts the program in a terminal of 80 by 24.
func (e *env) terminal(words string) *terminal {
	return e.terminalOf(e.command(strings.Fields(words)...))
}

func (e *env) terminalOf(command *exec.Cmd) *terminal {
	e.t.Helper()
	own, tty, err := pty.Open()
	require.NoError(e.t, err)
	s := &terminal{
		t: e.t, command: command, pty: own, tty: tty, raw: &lockedText{}, ended: make(chan struct{}),
	}
	require.NoError(e.t, pty.Setsize(own, &pty.Winsize{Cols: 80, Rows: 24}))
	s.before = must(term.GetState(int(own.Fd())))(e.t)
	s.screen = vt10x.New(vt10x.WithSize(80, 24))
	command.Stdin, command.Stdout, command.Stderr = tty, tty, tty
	command.Env = append([]string{"TERM=xterm-256color"}, command.Env...)
	require.NoError(e.t, command.Start())
	go func() {
		defer close(s.ended)
		buffer := make([]byte, 4096)
		for {
			n, err := own.Read(buffer)
			_, _ = s.raw.Write(buffer[:n])
			s.lock.Lock()
			_, _ = s.screen.Write(buffer[:n])
			s.lock.Unlock()
			if err != nil {
				return
			}
		}
	}()
	e.t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		_ = tty.Close()
		_ = own.Close()
		<-s.ended
	})
	return s
}

// shows waits until a text is on the screen.
func (s *terminal) shows(text string) {
	s.t.Helper()
	s.until("the screen shows "+text, func() bool { return strings.Contains(s.text(), text) })
}

// hides waits until a text is not on the screen.
func (s *terminal) hides(text string) {
	s.t.Helper()
	s.until("the screen shows no "+text, func() bool { return !strings.Contains(s.text(), text) })
}

func (s *terminal) until(what string, condition func() bool) {
	s.t.Helper()
	defer func() {
		if s.t.Failed() {
			s.t.Log(s.text())
		}
	}()
	testkit.Until(s.t, what, condition)
}

func (s *terminal) press(keys string) {
	s.t.Helper()
	must(s.pty.WriteString(keys))(s.t)
}

// typed types keys, and returns everything that was shown until the end, and the status.
func (s *terminal) typed(keys string) (shown string, status int) {
	s.t.Helper()
	s.press(keys)
	status = s.exit()
	_ = s.tty.Close()
	testkit.Soon(s.t, "all that was shown", s.ended)
	return strings.ReplaceAll(s.raw.String(), "\r\n", "\n"), status
}

// exit waits for the end, and returns the status.
func (s *terminal) exit() int {
	s.t.Helper()
	done := make(chan struct{})
	go func() { _ = s.command.Wait(); close(done) }()
	testkit.Soon(s.t, "the end of the program", done)
	return s.command.ProcessState.ExitCode()
}

// isAlternate reports whether the program uses the alternate screen.
func (s *terminal) isAlternate() bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.screen.Mode()&vt10x.ModeAltScreen != 0
}

// text returns the text on the screen.
func (s *terminal) text() string {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.screen.String()
}

func (s *terminal) showsCursor() bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.screen.CursorVisible()
}

func (s *terminal) resize(width, height int) {
	s.t.Helper()
	s.lock.Lock()
	s.screen.Resize(width, height)
	s.lock.Unlock()
	size := &pty.Winsize{Cols: uint16(width), Rows: uint16(height)}
	require.NoError(s.t, pty.Setsize(s.pty, size))
	require.NoError(s.t, s.command.Process.Signal(syscall.SIGWINCH))
}

// restored requires that the terminal was restored.
func (s *terminal) restored() {
	s.t.Helper()
	s.until("the terminal is restored", func() bool {
		state := must(term.GetState(int(s.pty.Fd())))(s.t)
		return !s.isAlternate() && s.showsCursor() && *state == *s.before
	})
}

// terminalInOwnGroup is terminal for a program that receives the terminal's signals, and sends
// signals to its process group, which must not reach the test.
func (e *env) terminalInOwnGroup(words string) *terminal {
	command := e.command(strings.Fields(words)...)
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	return e.terminalOf(command)
}
