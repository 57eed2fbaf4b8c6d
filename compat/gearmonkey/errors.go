package gearmonkey

import (
	"errors"
	"fmt"
	"strings"

	"github.com/qless/qless-go/internal/redisx"
)

// A Code identifies the kind of an [Error].
type Code string

// The error codes. Each has a sentinel of the same name for use with [errors.Is].
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

// Sentinels for use with [errors.Is], as in errors.Is(err, gearmonkey.ErrTimeout).
var (
	// ErrFinished means that the job has ended and accepts no more progress.
	ErrFinished = &Error{Code: CodeFinished, Message: "the job has ended"}

	// ErrInvalid means that an argument is invalid. Nothing was changed.
	ErrInvalid = &Error{Code: CodeInvalid, Message: "invalid argument"}

	// ErrNoWorkers means that a roll call found no worker. Nothing was changed.
	ErrNoWorkers = &Error{Code: CodeNoWorkers, Message: "no worker accepts the function"}

	// ErrNotFound means that the job does not exist: the job was never created, or ended more than 25
	// hours ago.
	ErrNotFound = &Error{Code: CodeNotFound, Message: "no such job"}

	// ErrScript means that the server's digest of the protocol's script differs from the protocol's
	// digest. No worker can run on such a server.
	ErrScript = &Error{Code: CodeScript, Message: "the script has a different digest"}

	// ErrServer means that the server rejected a command, for instance because a key has the wrong
	// type.
	ErrServer = &Error{Code: CodeServer, Message: "the server refused"}

	// ErrStopped is the cause of the cancellation of a handler's context when its worker was stopped
	// and the job ran longer than the ShutdownTimeout.
	ErrStopped = &Error{Code: CodeStopped, Message: "the worker is stopping"}

	// ErrTimeout means that the job did not end within the time given to [Blocking]. The job
	// continues.
	ErrTimeout = &Error{Code: CodeTimeout, Message: "the job was not finished in time"}

	// ErrUnavailable means that the server could not be reached or did not reply. The operation may
	// still have taken effect.
	ErrUnavailable = &Error{Code: CodeUnavailable, Message: "no answer from the server"}
)

// Error is the type of all errors returned by this package. Compare errors with the sentinels using
// [errors.Is], or inspect them using [errors.As].
type Error struct {
	// Op is the operation that failed, such as "run".
	Op string

	// Code is the kind of error.
	Code Code

	// Function is the function concerned, empty for none.
	Function string

	// ID is the job concerned, 0 for none.
	ID int64

	// Message describes the problem.
	Message string

	// Err is the underlying error, such as a network error or a context's error; nil for none.
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

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the sentinel of e's code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Op == "" && t.Function == ""
}

// A JobError is the error of a failed job. [State.Err] returns it.
type JobError struct {
	Function string
	ID       int64
	Message  string // the job's output
}

// Error returns the job and the message.
func (e *JobError) Error() string {
	return fmt.Sprintf("gearmonkey: the job %s:%d failed: %s", e.Function, e.ID, e.Message)
}

// newError returns an error of the sentinel's kind. An empty message means the sentinel's.
func newError(sentinel *Error, op, fn string, id int64, message string) *Error {
	if message == "" {
		message = sentinel.Message
	}
	return &Error{Op: op, Code: sentinel.Code, Function: fn, ID: id, Message: message}
}

// invalid returns the error for an invalid argument.
func invalid(op, fn, format string, args ...any) *Error {
	return newError(ErrInvalid, op, fn, 0, fmt.Sprintf(format, args...))
}

// wrap turns an error of go-redis into an [Error].
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
