package qless

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/script"
)

// WithReplicas makes calls that put a job (Put, PutMany, Recur) wait until count replicas have it
// too, so that it outlives the loss of the master. If fewer have confirmed it by the timeout, the
// job is put all the same, and the error is [ErrNotReplicated]. A put that is refused, because the
// job is there, waits in the same way: so one that is tried again with [IfAbsent] says when it is
// safe.
//
// Let count be the number of all replicas: with fewer, the one that becomes the master may be one
// without the job.
//
// It uses the command WAIT. Each such call takes one more round trip, from the master to its
// replicas; [Queue.PutMany] waits once for each script.
func WithReplicas(count int, timeout time.Duration) ClientOption {
	return func(c *Client) { c.replicas = &script.Replicas{Count: count, Timeout: timeout} }
}

// checkReplicas returns an error if it is not possible to wait for replicas with this client.
func checkReplicas(rdb redis.UniversalClient, r *script.Replicas) error {
	if r.Count < 1 || r.Timeout < time.Millisecond {
		return invalid("new", "", "WithReplicas(%d, %v) needs at least 1 replica and 1ms",
			r.Count, r.Timeout)
	}
	if !script.CanWait(rdb) {
		return invalid("new", "", "replicas can't be waited for with a %T", rdb)
	}
	return nil
}

// runReplicated runs a command that puts, and waits until the replicas have what it wrote.
func (c *Client) runReplicated(
	ctx context.Context, op, jid string, isNew bool, args []any,
) (any, error) {
	run := c.runner.RunReplicated
	if isNew {
		run = c.runner.RunNewReplicated
	}
	reply, err := run(ctx, *c.replicas, op, args...)
	var missing *script.ReplicasError
	if errors.As(err, &missing) {
		return reply, &Error{
			Op: op, Code: CodeNotReplicated, JID: jid,
			Message: "the job was put, but " + missing.Error(), Err: missing.Err,
		}
	}
	return reply, wrap(op, jid, err)
}
