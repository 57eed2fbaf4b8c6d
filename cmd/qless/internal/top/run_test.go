package top

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"golang.org/x/term"

	"github.com/qless/qless-go/internal/testkit"
)

// asProgram is set in the environment of a test binary that shows a panicking source.
const asProgram = "QLESS_TEST_AS_PANICKING_TOP"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		os.Exit(m.Run())
	}
	err := Run(context.Background(), panicking{newFake()}, Config{
		Every: time.Minute, Timeout: time.Minute, In: os.Stdin, Out: os.Stdout,
	})
	if err != nil {
		os.Exit(1)
	}
}

// A panicking source panics when a queue is paused.
type panicking struct{ *fake }

func (panicking) SetPaused(context.Context, string, bool) error { panic("a defect") }

func TestAPanicRestoresTheTerminal(t *testing.T) {
	own, tty, err := pty.Open()
	require.NoError(t, err)
	defer func() { _ = own.Close() }()
	defer func() { _ = tty.Close() }()
	require.NoError(t, pty.Setsize(own, &pty.Winsize{Cols: 80, Rows: 24}))
	before, err := term.GetState(int(tty.Fd()))
	require.NoError(t, err)

	drawn := make(chan string, 1000)
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := own.Read(buffer)
			drawn <- string(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	var all string
	draws := func(text string) {
		t.Helper()
		for !strings.Contains(all, text) {
			all += testkit.Soon(t, text, drawn)
		}
	}

	program, err := os.Executable()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), program)
	command.Env = []string{asProgram + "=1", "TERM=xterm"}
	command.Stdin, command.Stdout = tty, tty
	require.NoError(t, command.Start())
	draws("\x1b[?1049h")
	draws("mail")
	_, err = own.WriteString("p")
	require.NoError(t, err)
	draws("y/n")
	_, err = own.WriteString("y")
	require.NoError(t, err)
	require.Error(t, command.Wait())
	draws("\x1b[?1049l")
	draws("\x1b[?25h")
	after, err := term.GetState(int(tty.Fd()))
	require.NoError(t, err)
	require.Equal(t, before, after)
}
