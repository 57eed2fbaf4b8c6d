package cli

import (
	"context"
	"errors"
	"net"

	"github.com/qless/qless-go"
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
