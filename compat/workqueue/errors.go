package workqueue

import (
	"fmt"
	"strings"

	"github.com/qless/qless-go/internal/redisx"
)

// A Code says what kind of error an [Error] is.
type Code string

// The codes of errors. Each has a sentinel of the same name for [errors.Is].
const (
	CodeInvalid     Code = "invalid"
	CodeLeaseLost   Code = "lease_lost"
	CodeServer      Code = "server"
	CodeStopped     Code = "stopped"
	CodeUnavailable Code = "unavailable"
)

// Sentinels to compare errors with: errors.Is(err, workqueue.ErrUnavailable).
var (
	// ErrInvalid means that an argument can't be used. Nothing was changed.
	ErrInvalid = &Error{Code: CodeInvalid, Message: "invalid argument"}

	// ErrLeaseLost is the cause with which a handler's context ends when the item was
	// completed or leased by somebody else, or the lease could not be renewed in time.
	ErrLeaseLost = &Error{Code: CodeLeaseLost, Message: "the lease is lost"}

	// ErrServer means that the server refused a command, for instance because a key holds
	// something else.
	ErrServer = &Error{Code: CodeServer, Message: "the server refused"}

	// ErrStopped is the cause with which a handler's context ends when its worker was
	// stopped and the handler took longer than the ShutdownTimeout.
	ErrStopped = &Error{Code: CodeStopped, Message: "the worker is stopping"}

	// ErrUnavailable means that the server could not be reached, or did not answer, or that
	// the context ended. What was asked for may have been done nevertheless.
	ErrUnavailable = &Error{Code: CodeUnavailable, Message: "no answer from the server"}
)

// Error is what every function of this package returns when it fails. Compare it with the
// sentinels by [errors.Is], or take it apart with [errors.As].
type Error struct {
	// Op is what failed, such as "lease".
	Op string

	// Code is the kind of error.
	Code Code

	// ID is the item that it is about, empty for none or several.
	ID string

	// Message says what is wrong.
	Message string

	// Err is the error beneath, such as a network error or the end of a context; nil for none.
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

// Unwrap returns the error beneath.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the sentinel of e's code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Op == "" && t.ID == ""
}

// invalid returns the error for an argument that can't be used.
func invalid(op, format string, args ...any) *Error {
	return &Error{Op: op, Code: CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

// wrap turns what go-redis returned into an [Error].
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
