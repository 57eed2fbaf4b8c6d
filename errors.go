package qless

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/qless/qless-go/internal/redisx"
)

// A Code says what kind of error an [Error] is, for programs that translate errors, such as a
// gateway to another protocol.
type Code string

// The codes of errors. Each has a sentinel of the same name for [errors.Is].
const (
	CodeCanceled      Code = "canceled"
	CodeExists        Code = "exists"
	CodeFailed        Code = "failed"
	CodeFinished      Code = "finished"
	CodeFollowed      Code = "followed"
	CodeHasDependents Code = "has_dependents"
	CodeInvalid       Code = "invalid"
	CodeLockLost      Code = "lock_lost"
	CodeMaxRunTime    Code = "max_run_time"
	CodeNotDepending  Code = "not_depending"
	CodeNotFailed     Code = "not_failed"
	CodeNotFound      Code = "not_found"
	CodeNotReplicated Code = "not_replicated"
	CodeNotRunning    Code = "not_running"
	CodeNotScheduled  Code = "not_scheduled"
	CodeRunning       Code = "running"
	CodeServer        Code = "server"
	CodeStopped       Code = "stopped"
	CodeUnavailable   Code = "unavailable"
	CodeUnfinished    Code = "unfinished"
	CodeWrongQueue    Code = "wrong_queue"
	CodeWrongShard    Code = "wrong_shard"
)

// Sentinels to compare errors with: errors.Is(err, qless.ErrLockLost). ErrLockLost, ErrCanceled,
// ErrMaxRunTime and ErrStopped are also why the context of a handler ended: see [context.Cause].
var (
	// ErrCanceled means that the job was canceled, or that its [StartBy] or [TTL] was over.
	ErrCanceled error = &Error{Code: CodeCanceled, Message: "the job was canceled"}

	// ErrExists means that a job was not put because there is one already, whose jid the error has.
	// See [ConflictOption] and [Unique].
	ErrExists error = &Error{Code: CodeExists, Message: "the job exists"}

	// ErrFailed means that the job of a [CallFor] has failed for good.
	ErrFailed error = &Error{Code: CodeFailed, Message: "the job has failed"}

	// ErrFinished means that the job can't be withdrawn, or ended, because it is complete or has
	// failed, or canceled because it is complete.
	ErrFinished error = &Error{Code: CodeFinished, Message: "the job has ended"}

	// ErrFollowed means that a schedule can't be forgotten because a worker follows it.
	ErrFollowed error = &Error{Code: CodeFollowed, Message: "a worker follows the schedule"}

	// ErrHasDependents means that a job can't be canceled, or a failed one forgotten, because a job
	// that is not being canceled depends on it.
	ErrHasDependents error = &Error{
		Code: CodeHasDependents, Message: "another job depends on it",
	}

	// ErrInvalid means that an argument can't be used. Nothing was changed.
	ErrInvalid error = &Error{Code: CodeInvalid, Message: "invalid argument"}

	// ErrLockLost means that the job now belongs to another worker.
	ErrLockLost error = &Error{Code: CodeLockLost, Message: "the job belongs to another worker"}

	// ErrMaxRunTime means that the handler ran for longer than its MaxRunTime.
	ErrMaxRunTime error = &Error{Code: CodeMaxRunTime, Message: "the job ran for too long"}

	// ErrNotDepending means that the job is not waiting for other jobs, so its dependencies can't
	// be changed, nor members added to its batch.
	ErrNotDepending error = &Error{
		Code: CodeNotDepending, Message: "the job does not wait for others",
	}

	// ErrNotFailed means that the job has not failed, so it can't be unfailed.
	ErrNotFailed error = &Error{Code: CodeNotFailed, Message: "the job has not failed"}

	// ErrNotFound means that there is no such job or schedule.
	ErrNotFound error = &Error{Code: CodeNotFound, Message: "no such job"}

	// ErrNotReplicated means that a job was put, but too few replicas are known to have it: if the
	// master is lost, the job may be lost too. An error that is [ErrExists] as well says this of a
	// job that was there already. See [WithReplicas].
	ErrNotReplicated error = &Error{
		Code: CodeNotReplicated, Message: "too few replicas have it",
	}

	// ErrNotRunning means that no worker has the job: it is waiting, failed or complete, or its
	// worker was timed out.
	ErrNotRunning error = &Error{Code: CodeNotRunning, Message: "the job is not running"}

	// ErrNotScheduled means that the job is neither scheduled nor waiting to be popped.
	ErrNotScheduled error = &Error{Code: CodeNotScheduled, Message: "the job is not scheduled"}

	// ErrRunning means that the job can't be withdrawn, rescheduled or forgotten because a worker runs it.
	ErrRunning error = &Error{Code: CodeRunning, Message: "the job is running"}

	// ErrServer means that the server refused the command, for instance because it is out of
	// memory or the user may not run it.
	ErrServer error = &Error{Code: CodeServer, Message: "the server refused"}

	// ErrStopped means that the worker was stopped.
	ErrStopped error = &Error{Code: CodeStopped, Message: "the worker was stopped"}

	// ErrUnavailable means that no answer came: the server could not be reached, the connection
	// broke, the server accepted no commands, for instance because it was busy with a long script, or
	// the caller's own context ended first; then errors.Is(err, context.Canceled) or
	// context.DeadlineExceeded holds as well. The command may still have run.
	ErrUnavailable error = &Error{Code: CodeUnavailable, Message: "no answer from the server"}

	// ErrUnfinished means that the job has no result yet, or can't be forgotten: it is neither
	// complete nor failed.
	ErrUnfinished error = &Error{Code: CodeUnfinished, Message: "the job has not ended"}

	// ErrWrongQueue means that the job is running in a queue other than the one named.
	ErrWrongQueue error = &Error{
		Code: CodeWrongQueue, Message: "the job is running in another queue",
	}

	// ErrWrongShard means that a job can't depend on a job of another shard, or be a member of a
	// batch there. See [Shards].
	ErrWrongShard error = &Error{Code: CodeWrongShard, Message: "the job is in another shard"}
)

// An Error is the error type of this package. Compare it with the sentinels using [errors.Is], or
// read its fields with [errors.As].
type Error struct {
	// Op is the command that failed, such as "complete".
	Op string

	// Code is the kind of error.
	Code Code

	// JID is the job that the error is about. It is empty if there is none, or more than one.
	JID string

	// Indices are the indices of the jobs that [Queue.PutMany] or [Batch.Add] did not put because of
	// a [ConflictOption] or [Unique], in order, with [ErrExists]. They are empty for other errors.
	Indices []int

	// Withdrawn says that the job of a [Queue.Call] whose context has ended will not run: it was
	// canceled before a worker had it, or was not put. It is false for other errors.
	Withdrawn bool

	// Message says what is wrong.
	Message string

	// Err is the underlying error, such as a network error or the server's reply, or nil.
	Err error
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

// Is reports whether target is the sentinel of e's code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Op == "" && t.JID == ""
}

// invalid returns the error for an argument that can't be used.
func invalid(op, jid, format string, args ...any) *Error {
	return &Error{Op: op, Code: CodeInvalid, JID: jid, Message: fmt.Sprintf(format, args...)}
}

// scriptError finds the message that a script raised, "Area(): message", in the server's error:
//
//	ERR user_script:12: Put(): message script: SHA, on @user_script:12.    Redis 7 and later
//	ERR user_script:12: Put(): message script: on @user_script:12.         Valkey 9
//	ERR Error running script (call to f_SHA): @user_script:12: user_script:12: Put(): message
//	<string>:12: Put(): message stack traceback: ...                       miniredis
var scriptError = regexp.MustCompile(`(?s)^.*?[: ]([A-Za-z]+(?:\.[a-z]+)?)\(\): (.*?)` +
	`(?: script: (?:[0-9a-f]{40}, )?on @?user_script:\d+\.?|\s+stack traceback:.*)?$`)

// whatScriptsSay matches what a script says about a job, which depends on the command. To depends,
// the state of a job that does not exist is false.
var whatScriptsSay = regexp.MustCompile(`(?s)^(?:Job (?:.*? )?(?:` +
	`(does not exist|not in the depends state: false)$|(not (?:currently )?running)(?:: \w+)?$|` +
	`((?:handed out to|given out to|given to|running with) another worker): |` +
	`(running in another queue): |(not in the depends state): \w+$|(has not failed): \w+$)|` +
	`(No recurring job) )`)

// codesByWords holds the code of each group of whatScriptsSay.
var codesByWords = []Code{
	CodeNotFound, CodeNotRunning, CodeLockLost, CodeWrongQueue, CodeNotDepending, CodeNotFailed,
	CodeNotFound,
}

// whatCancelSays ends the message that a job is not canceled because of another one.
const whatCancelSays = " but is not mentioned to be canceled"

// noSuchJob returns the error of a call on a job that does not exist.
func noSuchJob(op, jid string) *Error {
	return &Error{Op: op, Code: CodeNotFound, JID: jid, Message: "no such job"}
}

// codeOf returns the code for a script's message.
func codeOf(message string) Code {
	words := whatScriptsSay.FindStringSubmatch(message)
	for i, code := range codesByWords {
		if words != nil && words[i+1] != "" {
			return code
		}
	}
	if isServers(message) || strings.Contains(message, " can not be read: ") {
		return CodeServer
	}
	return CodeInvalid
}

// serversWord matches the first word of a server error. Redis 6 puts the position in the script
// before it.
var serversWord = regexp.MustCompile(`^(?:@user_script: ?\d+: )?-?([A-Z]+) `)

// isServers reports whether a script's message is an error of the server that the script passed on:
// a damaged key, or refused writes.
func isServers(message string) bool {
	word := serversWord.FindStringSubmatch(message)
	return word != nil && (word[1] == "WRONGTYPE" || hints[word[1]] != "")
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
	var m []string
	if redisx.IsAnswer(err) {
		m = scriptError.FindStringSubmatch(err.Error())
	}
	if m == nil {
		code := CodeServer
		if redisx.IsUnanswered(err) {
			code = CodeUnavailable
		}
		return &Error{Op: op, Code: code, JID: jid, Message: err.Error(), Err: err}
	}
	area, message := m[1], m[2]
	code := codeOf(message)
	if area == "Cancel" && strings.HasSuffix(message, whatCancelSays) {
		code = CodeHasDependents
	}
	return &Error{Op: op, Code: code, JID: jid, Message: message, Err: err}
}
