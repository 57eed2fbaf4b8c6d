package qless

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/script"
)

// WithReplicas makes calls that put a job (Put, PutMany, Recur) wait until so many replicas
// have it too, by the command WAIT, so that it outlives the loss of the master. When fewer have
// answered by the timeout, the job is put nevertheless, and the error is [ErrNotReplicated].
//
// It costs each such call another moment of the network, between master and replicas;
// [Queue.PutMany] waits once for up to 1000 jobs.
func WithReplicas(count int, timeout time.Duration) Option {
	return func(c *Client) { c.replicas = &script.Replicas{Count: count, Timeout: timeout} }
}

// checkReplicas errors unless the replicas of such a client can be waited for.
func checkReplicas(rdb redis.UniversalClient, r *script.Replicas) error {
	if r.Count < 1 || r.Timeout < time.Millisecond {
		return invalid("new", "", "%d replicas can't be waited for %v: at least 1, for at least 1ms",
			r.Count, r.Timeout)
	}
	if !script.CanWait(rdb) {
		return invalid("new", "", "replicas can't be waited for with a %T", rdb)
	}
	return nil
}

// putting has the commands after which replicas are waited for.
var putting = map[string]bool{"put": true, "put.many": true, "recur": true}

// runReplicated runs a command that puts, and waits until replicas have what it wrote.
func (c *Client) runReplicated(ctx context.Context, op, jid string, args ...any) (any, error) {
	reply, err := c.runner.RunReplicated(ctx, *c.replicas, op, args...)
	var missing *script.ReplicasError
	if errors.As(err, &missing) {
		return reply, &Error{
			Op: op, Code: CodeNotReplicated, JID: jid,
			Message: "put, but " + missing.Error(), Err: missing.Err,
		}
	}
	return reply, wrap(op, jid, err)
}
