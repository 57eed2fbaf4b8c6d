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
		return false, a.would(what)
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
		_ = a.would(fmt.Sprintf(format, values...))
	}
	return !a.dryRun
}

// would prints what a dry run does not do.
func (a *app) would(what string) error {
	a.say("would %s", what)
	return a.printJSON(map[string]string{"would": what})
}

// say prints a message about a completed action.
func (a *app) say(format string, values ...any) {
	fmt.Fprintln(a.err, text.Clean(fmt.Sprintf(format, values...)))
}
