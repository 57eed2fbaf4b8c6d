// Package inspect reads and repairs the jobs in the queues of a namespace. It is for people,
// dashboards and scripts: a program that puts or runs jobs needs only package qless.
//
// Jobs are read and repaired by a [Selection]: the waiting jobs of a queue, the failed jobs of a
// group, the jobs with a tag, and so on, all of them or only matches of a [Filter]. An iterator
// reads them, in steps that do not keep the server busy:
//
//	in := inspect.New(client)
//	for row, err := range in.Failed("smtp-timeout").Each(ctx) {
//		...
//	}
//	done, err := in.Failed("smtp-timeout").AtMost(1000).Unfail(ctx)
//
// [Inspector.Overview], [Inspector.Latency], [Inspector.Rates] and others return figures.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/wire"
)

// An Inspector reads and repairs the jobs, queues, workers, schedules and limits of one namespace.
// Reading changes nothing. Long calls work in steps to keep the server responsive. Errors are of
// type [*qless.Error]. An Inspector is safe for concurrent use.
type Inspector struct{ client *qless.Client }

// New returns an inspector for a client's namespace. It opens no connection of its own, and panics
// if the client is nil.
func New(client *qless.Client) *Inspector {
	if client == nil {
		panic("inspect: the client is nil")
	}
	return &Inspector{client}
}

// do runs a command and decodes the JSON reply.
func do[T any](
	ctx context.Context, client *qless.Client, command string, args ...any,
) (value T, err error) {
	reply, err := client.Do(ctx, command, args...)
	if err != nil {
		return value, err
	}
	value, err = wire.DecodeJSON[T](reply)
	return value, replyError(command, err)
}

// replyError returns the error for an unreadable reply, or nil.
func replyError(command string, err error) error {
	if err == nil {
		return nil
	}
	return &qless.Error{
		Op: command, Code: qless.ErrServer, Message: err.Error(), Err: errors.Unwrap(err),
	}
}

// unexpected returns the error for a reply of the wrong shape.
func unexpected(command string, reply any) error {
	return replyError(command, wire.Unexpected(reply))
}

// invalid returns the error for an invalid argument.
func invalid(command, format string, args ...any) error {
	return &qless.Error{Op: command, Code: qless.ErrInvalid, Message: fmt.Sprintf(format, args...)}
}

// checkName returns an error if the name of a queue, a group or the like is empty or not UTF-8.
func checkName(command, what, name string) error {
	if err := jobopts.CheckName(what, name); err != nil {
		return invalid(command, "%s", err)
	}
	return nil
}

// checkNames checks at least one name.
func checkNames(command, what string, names []string) error {
	if len(names) == 0 {
		return invalid(command, "no %s is named", what)
	}
	for _, name := range names {
		if err := checkName(command, what, name); err != nil {
			return err
		}
	}
	return nil
}

// items returns the elements of an array reply.
func items(reply any) []any {
	list, _ := reply.([]any)
	return list
}

// earliest returns the earlier of two times, ignoring zero ones.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
