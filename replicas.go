package qless

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// WithReplicas makes calls that put a job (Put, PutMany, Recur) wait until count replicas have it
// too, so that it outlives the loss of the master. If fewer have confirmed it by the timeout, the
// job is put nevertheless, and the error is [ErrNotReplicated].
//
// Each such call takes one more round trip, from the master to its replicas; [Queue.PutMany] waits
// once for up to 1000 jobs. It uses the command WAIT.
func WithReplicas(count int, timeout time.Duration) ClientOption {
	return func(c *Client) { c.replicas = &replicas{count: count, timeout: timeout} }
}

// replicas is how many replicas are to have what is put, and for how long that is waited for.
type replicas struct {
	count   int
	timeout time.Duration
}

// check errors unless the replicas of such a client can be waited for.
func (r *replicas) check(rdb redis.UniversalClient) error {
	if r.count < 1 || r.timeout < time.Millisecond {
		return invalid("new", "", "WithReplicas(%d, %v) needs at least 1 replica and 1ms",
			r.count, r.timeout)
	}
	switch rdb.(type) {
	case *redis.Client, *redis.ClusterClient:
		return nil
	}
	return invalid("new", "", "replicas can't be waited for with a %T", rdb)
}

// putting has the commands after which replicas are waited for.
var putting = map[string]bool{"put": true, "put.many": true, "recur": true}

// runReplicated runs a command that puts, and waits until replicas have what it wrote.
func (c *Client) runReplicated(ctx context.Context, op, jid string, args ...any) (any, error) {
	var wait *waitCall
	send := func(ctx context.Context, put redis.Cmder) error {
		master, err := c.master(ctx)
		if err != nil {
			put.SetErr(err)
			return err
		}
		// WAIT is about what its own connection wrote: a pipeline has one.
		wait = &waitCall{redis.NewIntCmd(ctx, "wait", c.replicas.count, c.replicas.timeout.Milliseconds())}
		pipe := master.Pipeline()
		_ = pipe.Process(ctx, put)
		_ = pipe.Process(ctx, wait)
		_, err = pipe.Exec(ctx)
		if err != nil && put.Err() == nil && wait.Err() == nil {
			put.SetErr(err) // neither was sent
		}
		return put.Err()
	}
	reply, err := c.runner.runBy(ctx, send, op, args...)
	if err != nil {
		return nil, wrap(op, jid, err)
	}
	count, err := wait.Result()
	switch {
	case err != nil:
		return reply, notReplicated(op, jid, "it is not known which replicas have it: "+err.Error(), err)
	case int(count) < c.replicas.count:
		return reply, notReplicated(op, jid, fmt.Sprintf("only %d of %d replicas confirmed it", count, c.replicas.count), nil)
	}
	return reply, nil
}

func notReplicated(op, jid, message string, err error) error {
	return &Error{Op: op, Code: CodeNotReplicated, JID: jid, Message: "the job was put, but " + message, Err: err}
}

// master returns a client of the server that has the namespace, one that outlasts the wait.
func (c *Client) master(ctx context.Context) (*redis.Client, error) {
	rdb, ok := c.rdb.(*redis.Client)
	if cluster, isCluster := c.rdb.(*redis.ClusterClient); isCluster {
		var err error
		if rdb, err = cluster.MasterForKey(ctx, c.runner.prefix); err != nil {
			return nil, err
		}
	} else if !ok {
		return nil, errors.New("no client that can wait")
	}
	if timeout := rdb.Options().ReadTimeout; timeout > 0 {
		rdb = rdb.WithTimeout(timeout + c.replicas.timeout)
	}
	return rdb, nil
}

// waitCall is the command WAIT. On a connection that has written nothing it is met at once, so it
// is never sent again on another one.
type waitCall struct{ *redis.IntCmd }

// NoRetry keeps go-redis from sending the command again.
func (*waitCall) NoRetry() bool { return true }
