package cli

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/qless/qless-go/cmd/qless/internal/text"
)

// confirm reports whether to continue with a change, such as "cancel 3 jobs". It asks on a
// terminal. Elsewhere, it returns an error unless --yes is set.
func (c *console) confirm(what string) (bool, error) {
	switch {
	case c.dryRun:
		return false, c.would(what)
	case c.yes:
		return true, nil
	case !text.IsTerminal(c.in) || !text.IsTerminal(c.err):
		return false, usageError{fmt.Errorf("this would %s: confirm it with --yes", what)}
	}
	c.watch.stop()
	defer c.watch.resume()
	what = text.Clean(what)
	fmt.Fprintf(c.err, "%s%s? [y/N] ", strings.ToUpper(what[:1]), what[1:])
	answer, err := bufio.NewReader(c.in).ReadString('\n')
	if err != nil && err != io.EOF {
		return false, err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, nil
	}
	fmt.Fprintln(c.err, "nothing was done")
	return false, nil
}

// goOn reports whether to act when no confirmation is needed. It is false in a dry run.
func (c *console) goOn(format string, values ...any) bool {
	if c.dryRun {
		_ = c.would(fmt.Sprintf(format, values...))
	}
	return !c.dryRun
}

// would prints what a dry run does not do.
func (c *console) would(what string) error {
	c.say("would %s", what)
	return c.printJSON(map[string]string{"would": what})
}

// say prints a message about a completed action.
func (c *console) say(format string, values ...any) {
	fmt.Fprintln(c.err, text.Clean(fmt.Sprintf(format, values...)))
}
