package cli

import (
	"io"
	"net"
	"time"

	"github.com/spf13/cobra"
)

// StopClock sets the time of the program, and the wait for completions, unless the text is empty.
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
	return (&app{newPlace(&console{out: io.Discard, err: io.Discard})}).root()
}

// Limited returns a listener that accepts up to most connections at a time.
func Limited(l net.Listener, most int) net.Listener { return limited(l, most) }

// Meant has the commands that people mean by other words.
var Meant = meant
