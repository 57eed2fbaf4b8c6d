package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/redisx"
)

// The program's exit statuses.
const (
	statusDone     = 0
	statusError    = 1
	statusUsage    = 2
	statusNotFound = 3
	statusRefused  = 4 // because of the state of a job
	statusNoServer = 5
)

// A usageError reports wrong arguments.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// statusByCode has the statuses of codes with a status of their own.
var statusByCode = map[qless.Code]int{
	qless.ErrInvalid:       statusUsage,
	qless.ErrNotFound:      statusNotFound,
	qless.ErrUnavailable:   statusNoServer,
	qless.ErrExists:        statusRefused,
	qless.ErrFinished:      statusRefused,
	inspect.ErrFollowed:    statusRefused,
	qless.ErrHasDependents: statusRefused,
	qless.ErrLockLost:      statusRefused,
	qless.ErrNotDepending:  statusRefused,
	qless.ErrNotFailed:     statusRefused,
	qless.ErrNotRunning:    statusRefused,
	qless.ErrNotScheduled:  statusRefused,
	qless.ErrRunning:       statusRefused,
	qless.ErrUnfinished:    statusRefused,
	qless.ErrWrongQueue:    statusRefused,
}

// statusOf returns the exit status for an error.
func statusOf(err error) int {
	var checked checkedError
	var usage usageError
	var left leftError
	var missing missingError
	var coded *qless.Error
	switch {
	case err == nil:
		return statusDone
	case errors.As(err, &checked):
		return checked.status
	case errors.As(err, &usage):
		return statusUsage
	case errors.As(err, &missing):
		return statusNotFound
	case errors.As(err, &left):
		return left.status()
	case errors.Is(err, context.DeadlineExceeded):
		return statusNoServer
	case errors.As(err, &coded):
		if status, known := statusByCode[coded.Code]; known {
			return status
		}
	}
	return statusError
}

// hintFor returns a hint for an error of the server or the network, or the empty string.
func hintFor(err error) string {
	var network *net.OpError
	if errors.As(err, &network) && network.Op == "dial" {
		return "hint: --redis, $QLESS_REDIS_URL or a context names another server"
	}
	if redisx.IsDamage(err) {
		return "hint: a key is damaged: qless doctor says which"
	}
	if hint := redisx.Hint(err); hint != "" {
		return "hint: " + hint
	}
	return ""
}

// A checkedError ends the program with the status of a check.
type checkedError struct {
	status int
	error  // an error in the arguments, or nil if the result has been printed
}

func (e checkedError) Unwrap() error { return e.error }

// isPrinted reports whether an error is the result of a check or an exam, which has been printed.
func isPrinted(err error) bool {
	var checked checkedError
	return errors.Is(err, errBroken) || errors.As(err, &checked) && checked.error == nil
}

// errBroken makes the status 1 when something is broken. The findings have been printed.
var errBroken = errors.New("something is broken")

// A missingError reports that something does not exist.
type missingError struct{ error }

// notFound returns an error with the status of missing things.
func notFound(noun string, names ...string) error {
	for i, name := range names {
		names[i] = text.Clean(name)
	}
	return missingError{fmt.Errorf("no such %s: %s", noun, strings.Join(names, ", "))}
}

// missing returns an error that names the wanted things that were not found, or nil.
func missing(noun string, wanted []string, found func(func(string) bool)) error {
	there := slices.Collect(found)
	gone := slices.DeleteFunc(slices.Clone(wanted), func(name string) bool {
		return slices.Contains(there, name)
	})
	if len(gone) == 0 {
		return nil
	}
	return notFound(noun, gone...)
}

// A leftError reports that some jobs, or other things, were not changed.
type leftError struct {
	sum  inspect.Repair
	noun string
}

func (e leftError) Error() string {
	was := "were"
	if e.sum.Unchanged == 1 {
		was = "was"
	}
	return fmt.Sprintf("%s %s left", text.Count(e.sum.Unchanged, e.noun), was)
}

// status returns the exit status, that of missing jobs if nothing else is wrong.
func (e leftError) status() int {
	for _, err := range e.sum.Reasons {
		if err.Code != qless.ErrNotFound {
			return statusRefused
		}
	}
	return statusNotFound
}

// damage returns an error if keys are damaged, so that figures are missing.
func damage(found []inspect.DamagedKey) error {
	if len(found) == 0 {
		return nil
	}
	keys := make([]string, len(found))
	for i, damaged := range found {
		keys[i] = damaged.Key
	}
	return fmt.Errorf("damaged keys, which qless doctor examines: %s",
		text.Clean(strings.Join(keys, ", ")))
}
