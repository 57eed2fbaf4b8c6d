// Package lease is for programs that act as workers, such as gateways to other protocols: they take
// jobs on behalf of their own clients, and learn the outcome later. Programs with handlers need
// only a [qless.Worker].
package lease

import (
	"context"
	"fmt"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/inside"
	"github.com/qless/qless-go/internal/wire"
)

// A Taker takes and ends jobs as the worker of its client. A program needs one Taker for each
// client. A Taker is safe for concurrent use. Errors are of type [*qless.Error].
type Taker struct {
	client    *qless.Client
	receivers *receivers // nil if the client was already closed

	// Nil if the client is unbatched.
	ends      *endBatcher
	completes *completeBatcher
}

// New returns a Taker that uses the connections of a client. [qless.Client.Close] ends the Taker's
// calls. New panics if the client is nil.
func New(client *qless.Client) *Taker {
	if client == nil {
		panic("lease: the client is nil")
	}
	t := &Taker{client: client}
	t.receivers, _ = inside.Attach(client, func() inside.Attached {
		return &receivers{byKey: map[receiverKey]*receiver{}}
	}).(*receivers)
	if inside.IsBatching(client) {
		t.ends, t.completes = newEndBatcher(client), newCompleteBatcher(client)
	}
	return t
}

// Withdraw cancels a job, unless the job is running or has ended: then nothing is changed, and the
// error is [qless.ErrRunning] or [qless.ErrFinished]. A job with an expired lock counts as running
// until taken by another worker. If the job has dependents, the error is [qless.ErrHasDependents];
// if it does not exist, [qless.ErrNotFound]. [qless.Client.Cancel] cancels running and failed jobs
// too.
func (t *Taker) Withdraw(ctx context.Context, jid string) error {
	return inside.Withdraw(ctx, t.client, jid)
}

// invalid returns the error for an invalid argument.
func invalid(op, jid, format string, args ...any) error {
	return &qless.Error{
		Op: op, Code: qless.ErrInvalid, JID: jid, Message: fmt.Sprintf(format, args...),
	}
}

// unexpected returns the error for a reply of the wrong type.
func unexpected(op string, reply any) error {
	return &qless.Error{Op: op, Code: qless.ErrServer, Message: wire.Unexpected(reply).Error()}
}
