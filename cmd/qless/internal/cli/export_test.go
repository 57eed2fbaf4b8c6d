package cli

import (
	"io"
	"net"
	"time"

	"github.com/spf13/cobra"
)

// StopClock has the program run at one time, and wait for completions, unless that is empty.
func StopClock(text string) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return
	}
	now = func() time.Time { return at }
	completionTime = time.Minute
	testClock = now
}

// Root returns the root of all commands.
func Root() *cobra.Command {
	return (&app{out: io.Discard, err: io.Discard}).root()
}

// Limited returns a listener that takes some connections at a time.
func Limited(l net.Listener, most int) net.Listener { return limited(l, most) }
