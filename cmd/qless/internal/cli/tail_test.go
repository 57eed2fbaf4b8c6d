package cli_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/events"
	"github.com/qless/qless-go/internal/testkit"
)

// A follower is a continuing run of the program with its output.
type follower struct {
	t       *testing.T
	command *exec.Cmd
	lines   chan string
}

// begin starts the program, which prints lines until it ends.
func (e *env) begin(words string) *follower {
	e.t.Helper()
	command := e.command(strings.Fields(words)...)
	f := &follower{t: e.t, command: command, lines: make(chan string, 1000)}
	out := must(f.command.StdoutPipe())(e.t)
	require.NoError(e.t, f.command.Start())
	go func() {
		defer close(f.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			f.lines <- lines.Text()
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	return f
}

// follow starts the program, and returns once it listens.
func (e *env) follow(words string) *follower {
	e.t.Helper()
	f := e.begin(words)
	testkit.Until(e.t, "the program to listen", func() bool {
		channels := must(e.Redis().PubSubNumSub(e.t.Context(), "ql:log").Result())(e.t)
		return channels["ql:log"] > 0
	})
	return f
}

func (f *follower) next() string {
	f.t.Helper()
	return testkit.Soon(f.t, "a line", f.lines)
}

// interrupt sends the signal of Ctrl-C, and returns the exit status.
func (f *follower) interrupt() int {
	f.t.Helper()
	require.NoError(f.t, f.command.Process.Signal(os.Interrupt))
	for range f.lines { // until the end
		continue
	}
	_ = f.command.Wait()
	return f.command.ProcessState.ExitCode()
}

func TestTailPrintsEventsUntilItIsInterrupted(t *testing.T) {
	e := newLiveEnv(t)
	f := e.follow("tail")
	jid := e.put("mail", "Welcome", 0)
	require.Regexp(t, `^\d\d:\d\d:\d\d  put           `+jid+`  queue=mail$`, f.next())
	require.NoError(t, e.Client().Queue("mail").Pause(t.Context()))
	require.Regexp(t, `  paused        queue=mail$`, f.next())
	e.fail("thumbs", "Resize", "timeout", "took\ntoo \x1b[31mlong")
	require.Regexp(t, `  put           \w+  queue=thumbs$`, f.next())
	require.Regexp(t, `  failed        \w+  worker=\S+  group=timeout  took too \x{FFFD}\[31mlong$`, f.next())
	require.Equal(t, 0, f.interrupt())
}

func TestTailPrintsLinesOfJSON(t *testing.T) {
	e := newLiveEnv(t)
	f := e.follow("tail --json")
	jid := e.put("mail", "Welcome", 0)
	var event struct {
		Time       time.Time
		Event      events.Kind
		JID, Queue string
	}
	require.NoError(t, json.Unmarshal([]byte(f.next()), &event))
	require.Equal(t, events.Put, event.Event)
	require.Equal(t, jid, event.JID)
	require.Equal(t, "mail", event.Queue)
	require.WithinDuration(t, time.Now(), event.Time, testkit.Patience)
	require.Equal(t, 0, f.interrupt())
}

func TestTailFiltersByQueueKlassAndEvent(t *testing.T) {
	e := newLiveEnv(t)
	for _, filter := range []string{
		"--queue thumbs", "--klass Resize", "--event failed",
		"--queue thumbs,x --klass Resize --event failed",
	} {
		t.Run(filter, func(t *testing.T) {
			f := e.follow("tail " + filter)
			e.put("mail", "Welcome", 0)
			e.fail("thumbs", "Resize", "timeout", "took too long")
			for {
				line := f.next()
				require.NotContains(t, line, "queue=mail")
				if strings.Contains(line, "failed ") {
					break
				}
			}
			require.Equal(t, 0, f.interrupt())
		})
	}
}

func TestTailRefusesUnknownEvents(t *testing.T) {
	said := newLiveEnv(t).exits(2, "tail --event nonsense")
	require.Contains(t, said, "want one of advanced, canceled")
}

func TestTailGoesOnWhenTheConnectionWasLost(t *testing.T) {
	e := newLiveEnv(t)
	proxy := testkit.NewProxy(t, e.Addr())
	e.url = "redis://" + proxy.Addr()
	f := e.follow("tail --queue mail")
	e.put("mail", "Welcome", 0)
	require.Contains(t, f.next(), "put")
	proxy.CutAll()
	require.Contains(t, f.next(), "the connection was lost: events may be missing")
	e.put("mail", "Welcome", 0)
	require.Contains(t, f.next(), "put")
	require.Equal(t, 0, f.interrupt())
}
