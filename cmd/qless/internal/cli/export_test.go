package cli

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/place"
)

// StopClock sets the time of the program, and the wait for completions, unless the text is empty.
func StopClock(text string) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return
	}
	out.Now = func() time.Time { return at }
	place.CompletionTime = time.Minute
	place.Clock = out.Now
}

// Root returns the root of all commands.
func Root() *cobra.Command {
	return commands(&place.Place{Console: &out.Console{Out: io.Discard, Err: io.Discard}})
}

// All returns a command and all commands below it.
func All(command *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{command}
	for _, below := range command.Commands() {
		all = append(all, All(below)...)
	}
	return all
}
