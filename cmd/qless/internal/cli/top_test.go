package cli_test

import (
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A lockedText is written by one goroutine and read by another.
type lockedText struct {
	lock sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.text.String()
}

// twoQueues returns a server with a job in alpha and two in mail.
func twoQueues(t *testing.T) *env {
	e := newLiveEnv(t)
	e.put("alpha", "Welcome", 0)
	e.put("mail", "Welcome", 10*time.Minute)
	e.put("mail", "Goodbye", time.Minute)
	return e
}

func TestTopFromTheStartToTheEnd(t *testing.T) {
	e := twoQueues(t)
	s := e.terminal("top --every 100ms")
	s.shows("queue mail has no workers")
	require.True(t, s.isAlternate())

	// The program keeps reading.
	e.put("zulu", "Welcome", 0)
	s.shows("zulu")

	s.press("w") // most waiting first
	s.shows(">mail")
	s.press("w")
	s.shows("^Wait")
	s.press("w")
	s.shows("vWait")

	s.press("\r") // into mail
	s.shows("[waiting 2]")
	s.shows("Goodbye")
	s.press("y")
	s.shows("No known worker takes jobs from the queue.")
	s.press("\x1b")
	s.shows("[waiting 2]")
	s.press("\x1b")
	s.shows("[1 queues]")

	s.press("2")
	s.shows("no workers")
	s.press("3")
	s.shows("no failed jobs")
	s.press("?")
	s.shows("pause or resume a queue")
	s.press("x")
	s.shows("[3 failures]")

	s.press("q")
	require.Equal(t, 0, s.exit())
	s.restored()
}

func TestTopPausesAQueueAfterAYes(t *testing.T) {
	e := twoQueues(t)
	paused := func() bool { return e.counts("mail").Paused }
	s := e.terminal("top --queue mail")
	s.shows("[waiting 2]")
	s.press("p")
	s.shows("Pause queue mail, with 2 waiting jobs? y/n")
	s.press("n")
	s.shows("nothing was done")
	require.False(t, paused())
	s.press("p")
	s.shows("Pause queue mail")
	s.press("y")
	s.shows("mail (paused)")
	require.True(t, paused())
	s.press("p")
	s.shows("Resume queue mail")
	s.press("y")
	s.hides("(paused)")
	require.False(t, paused())
	s.press("\x03")
	require.Equal(t, 0, s.exit())
	s.restored()
}

func TestTopIsEndedByASignal(t *testing.T) {
	s := twoQueues(t).terminal("top")
	s.shows("mail")
	require.NoError(t, s.command.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 0, s.exit())
	s.restored()
}

func TestTopIsSuspendedAndGoesOn(t *testing.T) {
	s := twoQueues(t).terminalInOwnGroup("top")
	s.shows("mail")
	s.press("\x1a")
	s.restored()
	s.until("the program goes on", func() bool {
		_ = s.command.Process.Signal(syscall.SIGCONT)
		return s.isAlternate()
	})
	s.shows("mail")
	s.press("q")
	require.Equal(t, 0, s.exit())
	s.restored()
}

func TestTopFollowsTheSizeOfTheWindow(t *testing.T) {
	s := twoQueues(t).terminal("top")
	s.shows("sTate")
	s.resize(60, 12)
	s.hides("sTate") // which is right of 60
	s.shows("q quit")
}

func TestTopWithoutColours(t *testing.T) {
	e := twoQueues(t)
	s := e.terminal("top")
	s.shows("queue mail has no workers")
	require.Regexp(t, "\x1b\\[[0-9;]*31m", s.raw.String())

	e.environ = []string{"NO_COLOR=1"}
	s = e.terminal("top")
	s.shows("queue mail has no workers")
	require.NotRegexp(t, "\x1b\\[[0-9;]*[34][0-9]m", s.raw.String())
}

func TestTopSaysThatTheServerIsAwayAndGoesOn(t *testing.T) {
	e, _ := newReal(t)
	e.put("mail", "Welcome", 0)
	s := e.terminal("top --every 100ms")
	s.shows("mail")
	e.real.Kill()
	s.shows("no answer since")
	s.shows("mail") // the output before the program
	e.real.Restart()
	s.hides("no answer since")
	s.press("q")
	require.Equal(t, 0, s.exit())
	s.restored()
}

func TestTopWantsATerminal(t *testing.T) {
	e := newLiveEnv(t)
	r := e.run("", "top")
	require.Equal(t, 2, r.status)
	require.Contains(t, r.errors, "qless status")
	require.Empty(t, r.out)
	e.exits(2, "top --every 0s")
}

func TestTopWithoutAServerLeavesTheTerminalAlone(t *testing.T) {
	e := newLiveEnv(t)
	s := e.terminal("top --redis redis://127.0.0.1:1")
	require.Equal(t, 5, s.exit())
	s.shows("qless: dial")
	s.restored()
}

func TestStatusHasColoursOnATerminal(t *testing.T) {
	s := twoQueues(t).terminal("status")
	require.Equal(t, 0, s.exit())
	s.shows("NEEDS ATTENTION")
	require.Contains(t, s.raw.String(), "\x1b[31m!")
	s.restored()
}

func TestTailEndsAtCtrlCOnATerminal(t *testing.T) {
	e := twoQueues(t)
	s := e.terminalInOwnGroup("tail")
	s.shows("listening")
	require.NoError(t, e.Client().Queue("mail").Pause(t.Context()))
	s.shows("paused")
	require.Contains(t, s.raw.String(), "\x1b[33mpaused")
	s.press("\x03")
	require.Equal(t, 0, s.exit())
}
