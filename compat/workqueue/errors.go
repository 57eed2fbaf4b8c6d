package workqueue

import (
	"fmt"
	"strings"

	"github.com/qless/qless-go/internal/redisx"
)

// A Code identifies the kind of an [Error].
type Code string

// The error codes. Each has a sentinel of the same name for use with [errors.Is].
const (
	CodeInvalid     Code = "invalid"
	CodeLeaseLost   Code = "lease_lost"
	CodeServer      Code = "server"
	CodeStopped     Code = "stopped"
	CodeUnavailable Code = "unavailable"
)

// Sentinels for use with [errors.Is], as in errors.Is(err, workqueue.ErrUnavailable).
var (
	// ErrInvalid means that an argument is invalid. Nothing was changed.
	ErrInvalid = &Error{Code: CodeInvalid, Message: "invalid argument"}

	// ErrLeaseLost is the cause of the cancellation of a handler's context when another client
	// completed or leased the item, the worker leased the item again, or the lease could not be
	// renewed in time.
	ErrLeaseLost = &Error{Code: CodeLeaseLost, Message: "the lease is lost"}

	// ErrServer means that the server rejected a command, for instance because a key has the wrong
	// type.
	ErrServer = &Error{Code: CodeServer, Message: "the server refused"}

	// ErrStopped is the cause of the cancellation of a handler's context when its worker was stopped
	// and the handler ran longer than the ShutdownTimeout.
	ErrStopped = &Error{Code: CodeStopped, Message: "the worker is stopping"}

	// ErrUnavailable means that the server could not be reached or did not reply, or that the context
	// ended. The operation may still have taken effect.
	ErrUnavailable = &Error{Code: CodeUnavailable, Message: "no answer from the server"}
)

// Error is the type of all errors returned by this package. Compare errors with the sentinels using
// [errors.Is], or inspect them using [errors.As].
type Error struct {
	// Op is the operation that failed, such as "lease".
	Op string

	// Code is the kind of error.
	Code Code

	// ID is the item concerned, empty for none or several.
	ID string

	// Message describes the problem.
	Message string

	// Err is the underlying error, such as a network error or a context's error; nil for none.
	Err error
}

// Error returns the operation, the item and the message.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("workqueue: ")
	if e.Op != "" {
		b.WriteString(e.Op)
		if e.ID != "" {
			b.WriteString(" " + e.ID)
		}
		b.WriteString(": ")
	}
	b.WriteString(e.Message)
	return b.String()
}

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the sentinel of e's code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Op == "" && t.ID == ""
}

// invalid returns the error for an invalid argument.
func invalid(op, format string, args ...any) *Error {
	return &Error{Op: op, Code: CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

// wrap turns an error of go-redis into an [Error].
func wrap(op, id string, err error) error {
	if err == nil {
		return nil
	}
	code := CodeUnavailable
	if redisx.IsRefusal(err) {
		code = CodeServer
	}
	return &Error{Op: op, Code: code, ID: id, Message: err.Error(), Err: err}
}
