// Package out is the visible part of the program: tables, questions, errors and exit statuses.
package out

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/qless/qless-go/cmd/qless/internal/text"
)

// A Console holds the streams of the program, and the flags for output and questions.
type Console struct {
	In       io.Reader
	Out, Err io.Writer

	JSON, JIDs  bool
	yes, DryRun bool

	Watch *Watch
}

// AddFlags adds the console's flags.
func (c *Console) AddFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&c.JSON, "json", false, "print JSON")
	flags.BoolVar(&c.JIDs, "jids", false, "print only the jids, one a line")
	flags.BoolVarP(&c.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&c.DryRun, "dry-run", false, "print what would be done, and do nothing")
}

// Confirm reports whether to continue with a change, such as "cancel 3 jobs". It asks on a
// terminal. Elsewhere, it returns an error unless --yes is set.
func (c *Console) Confirm(what string) (bool, error) {
	switch {
	case c.DryRun:
		return false, c.would(what)
	case c.yes:
		return true, nil
	case !text.IsTerminal(c.In) || !text.IsTerminal(c.Err):
		return false, Error(fmt.Errorf("this would %s: confirm it with --yes", what))
	}
	c.Watch.Stop()
	defer c.Watch.Resume()
	what = text.Clean(what)
	fmt.Fprintf(c.Err, "%s%s? [y/N] ", strings.ToUpper(what[:1]), what[1:])
	answer, err := bufio.NewReader(c.In).ReadString('\n')
	if err != nil && err != io.EOF {
		return false, err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, nil
	}
	fmt.Fprintln(c.Err, "nothing was done")
	return false, nil
}

// GoOn reports whether to act when no confirmation is needed. It is false in a dry run.
func (c *Console) GoOn(format string, values ...any) bool {
	if c.DryRun {
		_ = c.would(fmt.Sprintf(format, values...))
	}
	return !c.DryRun
}

// would prints the omitted action of a dry run.
func (c *Console) would(what string) error {
	c.Say("would %s", what)
	return c.PrintJSON(map[string]string{"would": what})
}

// Say prints a message about a completed action.
func (c *Console) Say(format string, values ...any) {
	fmt.Fprintln(c.Err, text.Clean(fmt.Sprintf(format, values...)))
}
