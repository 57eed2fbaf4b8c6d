package qless

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/wire"
)

// A Code is the kind of an [Error], and itself an error: errors.Is(err, qless.ErrNotFound) is true
// for an *Error with that code.
type Code string

// The codes of errors. ErrCanceled, ErrLockLost, ErrMaxRunTime and ErrStopped are also the causes
// with which a handler's context ends: see [context.Cause].
const (
	// ErrCanceled: the job was canceled, or its [StartBy] or [TTL] has passed.
	ErrCanceled Code = "canceled"

	// ErrExists: a job was not put because of an [If] or [Unique]. The error has the jid of the
	// existing job.
	ErrExists Code = "exists"

	// ErrFailed: a job has failed, and [ResultAs] has no result to decode.
	ErrFailed Code = "failed"

	// ErrFinished: the call is impossible because the job is complete or failed.
	ErrFinished Code = "finished"

	// ErrHasDependents: a job can't be canceled, or a failed one forgotten, because a job outside the
	// call depends on it.
	ErrHasDependents Code = "has_dependents"

	// ErrInvalid: an argument can't be used. Nothing was changed.
	ErrInvalid Code = "invalid"

	// ErrLockLost: the job now belongs to another worker.
	ErrLockLost Code = "lock_lost"

	// ErrMaxRunTime: the handler ran for longer than its MaxRunTime.
	ErrMaxRunTime Code = "max_run_time"

	// ErrNotDepending: the job is not waiting for other jobs, so its dependencies can't be changed,
	// nor members added to its batch.
	ErrNotDepending Code = "not_depending"

	// ErrNotFailed: the job has not failed, so it can't be unfailed.
	ErrNotFailed Code = "not_failed"

	// ErrNotFound: there is no such job or schedule.
	ErrNotFound Code = "not_found"

	// ErrNotReplicated: a job was put, but too few replicas are known to have it. If the error is
	// [ErrExists] as well, the job already existed. See Replicas in [ClientConfig].
	ErrNotReplicated Code = "not_replicated"

	// ErrNotRunning: no worker has the job.
	ErrNotRunning Code = "not_running"

	// ErrNotScheduled: the job is neither scheduled nor waiting to be popped.
	ErrNotScheduled Code = "not_scheduled"

	// ErrRunning: the call is impossible because a worker runs the job.
	ErrRunning Code = "running"

	// ErrServer: the server refused the command, for instance because it is out of memory.
	ErrServer Code = "server"

	// ErrStopped: the worker was stopped.
	ErrStopped Code = "stopped"

	// ErrUnavailable: there was no reply: the server could not be reached or accepted no commands, the
	// connection broke, or the caller's context ended. In the last case, the error wraps that of the
	// context. The command may have run nevertheless.
	ErrUnavailable Code = "unavailable"

	// ErrUnfinished: the job is neither complete nor failed.
	ErrUnfinished Code = "unfinished"

	// ErrWrongQueue: the job is running in a queue other than the one named.
	ErrWrongQueue Code = "wrong_queue"
)

// codeTexts describe the codes.
var codeTexts = map[Code]string{
	ErrCanceled:      "the job was canceled",
	ErrExists:        "the job exists",
	ErrFailed:        "the job has failed",
	ErrFinished:      "the job has ended",
	ErrHasDependents: "another job depends on it",
	ErrInvalid:       "invalid argument",
	ErrLockLost:      "the job belongs to another worker",
	ErrMaxRunTime:    "the job ran for too long",
	ErrNotDepending:  "the job does not wait for others",
	ErrNotFailed:     "the job has not failed",
	ErrNotFound:      "no such job",
	ErrNotReplicated: "too few replicas have it",
	ErrNotRunning:    "the job is not running",
	ErrNotScheduled:  "the job is not scheduled",
	ErrRunning:       "the job is running",
	ErrServer:        "the server refused",
	ErrStopped:       "the worker was stopped",
	ErrUnavailable:   "no answer from the server",
	ErrUnfinished:    "the job has not ended",
	ErrWrongQueue:    "the job is running in another queue",
}

// Error returns a short text for the code.
func (c Code) Error() string {
	if text := codeTexts[c]; text != "" {
		return "qless: " + text
	}
	return "qless: " + string(c)
}

// An Error is the error type of this package. Compare it with a [Code] using [errors.Is], or read
// its fields using [errors.As].
type Error struct {
	// Op is the failed command, such as "complete".
	Op string `json:"op"`

	// Code is the kind of error.
	Code Code `json:"code"`

	// JID is the job of the error. It is empty if there is none, or more than one.
	JID string `json:"jid,omitempty"`

	// Indices are the indices, in order, of jobs not put by [Queue.PutMany] or [Batch.Add] because of
	// an [If] or [Unique]. Only an [ErrExists] has them.
	Indices []int `json:"indices,omitempty"`

	// Withdrawn is true if the job of a [Queue.Call] whose context has ended will not run, because the
	// job was canceled before a worker took it, or was not put. It is false for other errors.
	Withdrawn bool `json:"withdrawn,omitempty"`

	// Message describes the error.
	Message string `json:"message"`

	// Err is the underlying error, such as a network error or the server's reply, or nil.
	Err error `json:"-"`
}

// Error returns the operation, the job and the message.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("qless: ")
	if e.Op != "" {
		b.WriteString(e.Op)
		if e.JID != "" {
			b.WriteString(" " + e.JID)
		}
		b.WriteString(": ")
	}
	b.WriteString(e.Message)
	return b.String()
}

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the code of the error.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Code
}

// invalid returns the error for an invalid argument.
func invalid(op, jid, format string, args ...any) *Error {
	return &Error{Op: op, Code: ErrInvalid, JID: jid, Message: fmt.Sprintf(format, args...)}
}

// noSuchJob returns the error for a missing job.
func noSuchJob(op, jid string) *Error {
	return &Error{Op: op, Code: ErrNotFound, JID: jid, Message: "no such job"}
}

// inState returns the error of an operation that is impossible in the state of a job.
func inState[S ~string](op, jid string, code Code, state S) *Error {
	return &Error{Op: op, Code: code, JID: jid, Message: "the job is " + string(state)}
}

// wrap turns the error of a command into an [Error].
func wrap(op, jid string, err error) error {
	if err == nil {
		return nil
	}
	var already *Error
	if errors.As(err, &already) {
		return err
	}
	if problem, raised := wire.RaisedProblem(redisx.Answer(err)); raised {
		return refusal(op, jid, problem, err)
	}
	code := ErrServer
	if redisx.IsUnanswered(err) {
		code = ErrUnavailable
	}
	message := cmp.Or(redisx.Answer(err), err.Error())
	return &Error{Op: op, Code: code, JID: jid, Message: message, Err: err}
}

// refusal returns the error for a problem found by the script. err is the server's error, if any.
func refusal(op, jid string, problem wire.Problem, err error) *Error {
	return &Error{
		Op: op, Code: Code(problem.Code), JID: jid, Message: problem.About(jid), Err: err,
	}
}

// errorOfOne returns the error of a call for one or several jobs as that of one job.
func errorOfOne(op, jid string, err error) error {
	var cause *Error
	if !errors.As(err, &cause) {
		return err
	}
	own := *cause
	own.Op, own.JID = op, jid
	if problem, raised := wire.RaisedProblem(redisx.Answer(own.Err)); raised {
		own.Message = problem.About(jid)
	}
	return &own
}
