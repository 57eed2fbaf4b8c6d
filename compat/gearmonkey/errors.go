package gearmonkey

import (
	"errors"
	"fmt"
	"strings"

	"github.com/qless/qless-go/internal/redisx"
)

// A Code says what kind of error an [Error] is.
type Code string

// The codes of errors. Each has a sentinel of the same name for [errors.Is].
const (
	CodeFinished    Code = "finished"
	CodeInvalid     Code = "invalid"
	CodeNoWorkers   Code = "no_workers"
	CodeNotFound    Code = "not_found"
	CodeScript      Code = "script"
	CodeServer      Code = "server"
	CodeStopped     Code = "stopped"
	CodeTimeout     Code = "timeout"
	CodeUnavailable Code = "unavailable"
)

// Sentinels to compare errors with: errors.Is(err, gearmonkey.ErrTimeout).
var (
	// ErrFinished means that the job has ended, so that it makes no more progress.
	ErrFinished = &Error{Code: CodeFinished, Message: "the job has ended"}

	// ErrInvalid means that an argument can't be used. Nothing was changed.
	ErrInvalid = &Error{Code: CodeInvalid, Message: "invalid argument"}

	// ErrNoWorkers means that a roll call found no worker. Nothing was changed.
	ErrNoWorkers = &Error{Code: CodeNoWorkers, Message: "no worker accepts the function"}

	// ErrNotFound means that there is no such job: it never was, or ended 25 hours ago.
	ErrNotFound = &Error{Code: CodeNotFound, Message: "no such job"}

	// ErrScript means that the server does not know the protocol's script by the digest
	// that the protocol gives it, so that a worker can't work there.
	ErrScript = &Error{Code: CodeScript, Message: "the script has another digest"}

	// ErrServer means that the server refused a command, for instance because a key holds
	// something else.
	ErrServer = &Error{Code: CodeServer, Message: "the server refused"}

	// ErrStopped is the cause with which a handler's context ends when its worker was
	// stopped and the job took longer than the ShutdownTimeout.
	ErrStopped = &Error{Code: CodeStopped, Message: "the worker is stopping"}

	// ErrTimeout means that a job was not finished in the time that [Blocking] gives. The
	// job goes on.
	ErrTimeout = &Error{Code: CodeTimeout, Message: "the job was not finished in time"}

	// ErrUnavailable means that the server could not be reached, or did not answer. What was
	// asked for may have been done nevertheless.
	ErrUnavailable = &Error{Code: CodeUnavailable, Message: "no answer from the server"}
)

// Error is what every function of this package returns when it fails. Compare it with the
// sentinels by [errors.Is], or take it apart with [errors.As].
type Error struct {
	// Op is what failed, such as "run".
	Op string

	// Code is the kind of error.
	Code Code

	// Function is the function that it is about, empty for none.
	Function string

	// ID is the job that it is about, 0 for none.
	ID int64

	// Message says what is wrong.
	Message string

	// Err is the error beneath, such as a network error or the end of a context; nil for none.
	Err error
}

// Error returns the operation, the job and the message.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("gearmonkey: ")
	if e.Op != "" {
		b.WriteString(e.Op)
		if e.Function != "" {
			b.WriteString(" " + e.Function)
		}
		if e.ID != 0 {
			fmt.Fprintf(&b, ":%d", e.ID)
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
	return ok && t.Code == e.Code && t.Op == "" && t.Function == ""
}

// A JobError says that a job ended with an error. [State.Err] returns it.
type JobError struct {
	Function string
	ID       int64
	Message  string // the job's output
}

// Error returns the job and the message.
func (e *JobError) Error() string {
	return fmt.Sprintf("gearmonkey: the job %s:%d failed: %s", e.Function, e.ID, e.Message)
}

// newError returns an error of a sentinel's kind about a function or a job, with the
// sentinel's message unless there is another.
func newError(sentinel *Error, op, fn string, id int64, message string) *Error {
	if message == "" {
		message = sentinel.Message
	}
	return &Error{Op: op, Code: sentinel.Code, Function: fn, ID: id, Message: message}
}

// invalid returns the error for an argument that can't be used.
func invalid(op, fn, format string, args ...any) *Error {
	return newError(ErrInvalid, op, fn, 0, fmt.Sprintf(format, args...))
}

// wrap turns what go-redis returned into an [Error].
func wrap(op, fn string, id int64, err error) error {
	if err == nil {
		return nil
	}
	var already *Error
	if errors.As(err, &already) {
		return err
	}
	code := CodeUnavailable
	if redisx.IsRefusal(err) {
		code = CodeServer
	}
	return &Error{Op: op, Code: code, Function: fn, ID: id, Message: err.Error(), Err: err}
}
