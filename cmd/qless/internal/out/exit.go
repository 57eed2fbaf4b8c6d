package out

import (
	"context"
	"errors"
	"fmt"
	"net"
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

// A wrong error reports wrong arguments.
type wrong struct{ error }

func (e wrong) Unwrap() error { return e.error }

// Error returns an error with the status of wrong arguments.
func Error(err error) error { return wrong{err} }

// statusByCode has the statuses of codes with a special status.
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

// StatusOf returns the exit status for an error.
func StatusOf(err error) int {
	var checked checkedError
	var usage wrong
	var left Left
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

// HintFor returns a hint for an error of the server or the network, or the empty string.
func HintFor(err error) string {
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
	error  // or nil
}

func (e checkedError) Unwrap() error { return e.error }

// Checked returns an error that ends the program with the status of a check. err is nil if the
// result has been printed.
func Checked(status int, err error) error { return checkedError{status, err} }

// IsPrinted reports whether an error is the result of a check or an exam, already printed.
func IsPrinted(err error) bool {
	var checked checkedError
	return errors.Is(err, ErrBroken) || errors.As(err, &checked) && checked.error == nil
}

// ErrBroken makes the status 1 when something is broken. The findings have been printed.
var ErrBroken = errors.New("something is broken")

// A missingError reports that something does not exist.
type missingError struct{ error }

// Missing returns an error with the status of missing things.
func Missing(err error) error { return missingError{err} }

// NotFound returns an error that names missing things, or nil if nothing is missing.
func NotFound(noun string, names ...string) error {
	if len(names) == 0 {
		return nil
	}
	return missingError{fmt.Errorf("no such %s: %s", noun,
		strings.Join(Strings(names, text.Clean), ", "))}
}

// Left reports that some jobs, or other things, were not changed.
type Left struct {
	Sum  inspect.Repair
	Noun string
}

func (e Left) Error() string {
	was := "were"
	if e.Sum.Unchanged == 1 {
		was = "was"
	}
	return fmt.Sprintf("%s %s left", text.Count(e.Sum.Unchanged, e.Noun), was)
}

// status returns the exit status: missing jobs, unless something else is wrong.
func (e Left) status() int {
	for _, err := range e.Sum.Reasons {
		if err.Code != qless.ErrNotFound {
			return statusRefused
		}
	}
	return statusNotFound
}

// Damage returns an error if damaged keys make figures missing.
func Damage(found []inspect.DamagedKey) error {
	if len(found) == 0 {
		return nil
	}
	keys := Strings(found, func(damaged inspect.DamagedKey) string { return damaged.Key })
	return fmt.Errorf("damaged keys, which qless doctor examines: %s",
		text.Clean(strings.Join(keys, ", ")))
}

// IsOfJob reports whether an error is about one job. Other jobs may still be changed.
func IsOfJob(code qless.Code) bool {
	status := statusByCode[code]
	return status == statusNotFound || status == statusRefused
}
