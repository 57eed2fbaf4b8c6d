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
func (a *app) confirm(what string) (bool, error) {
	switch {
	case a.dryRun:
		fmt.Fprintf(a.err, "would %s\n", text.Clean(what))
		return false, nil
	case a.yes:
		return true, nil
	case !text.IsTerminal(a.in) || !text.IsTerminal(a.err):
		return false, usageError{fmt.Errorf("this would %s: confirm it with --yes", what)}
	}
	a.watch.stop()
	defer a.watch.resume()
	what = text.Clean(what)
	fmt.Fprintf(a.err, "%s%s? [y/N] ", strings.ToUpper(what[:1]), what[1:])
	answer, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil && err != io.EOF {
		return false, err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, nil
	}
	fmt.Fprintln(a.err, "nothing was done")
	return false, nil
}

// goOn reports whether to act when no confirmation is needed. It is false in a dry run.
func (a *app) goOn(format string, values ...any) bool {
	if a.dryRun {
		a.say("would "+format, values...)
	}
	return !a.dryRun
}

// say prints a message about a completed action.
func (a *app) say(format string, values ...any) {
	fmt.Fprintln(a.err, text.Clean(fmt.Sprintf(format, values...)))
}
