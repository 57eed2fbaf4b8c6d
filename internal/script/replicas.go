package script

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
)

// Replicas is the number of replicas required to have a command's writes, and the time to wait.
type Replicas struct {
	Count   int
	Timeout time.Duration
}

// A ReplicasError means that a command ran, but not enough replicas are known to have its writes.
type ReplicasError struct {
	Have, Want int
	Err        error // why the number is unknown; nil if known
}

// Error describes the state of the replicas.
func (e *ReplicasError) Error() string {
	if e.Err != nil {
		return "it is not known which replicas have it: " + e.Err.Error()
	}
	return fmt.Sprintf("only %d of %d replicas confirmed it", e.Have, e.Want)
}

// Unwrap returns the error of the wait.
func (e *ReplicasError) Unwrap() error { return e.Err }

// CanWait reports whether this client can wait for replicas.
func CanWait(rdb redis.UniversalClient) bool {
	switch rdb.(type) {
	case *redis.Client, *redis.ClusterClient:
		return true
	}
	return false
}

// RunReplicated is like Run, for a command that writes, and waits until the replicas have the
// writes. If the command ran but the replicas lack its writes, RunReplicated returns the reply with
// a [*ReplicasError].
func (r *Runner) RunReplicated(
	ctx context.Context, replicas Replicas, name string, args ...any,
) (any, error) {
	return r.runReplicated(ctx, replicas, name, r.script.Facts(name).Repeatable, args)
}

// RunNewReplicated is like RunReplicated, for a command with arguments that mark all its jobs as
// new.
func (r *Runner) RunNewReplicated(
	ctx context.Context, replicas Replicas, name string, args ...any,
) (any, error) {
	facts := r.script.Facts(name)
	return r.runReplicated(ctx, replicas, name, facts.Repeatable || facts.RepeatableNew, args)
}

func (r *Runner) runReplicated(
	ctx context.Context, replicas Replicas, command string, repeatable bool, args []any,
) (any, error) {
	var wait *redis.IntCmd
	var moved string // the address to which another master redirected the command
	send := func(ctx context.Context, cmd redis.Cmder) error {
		master, err := r.master(ctx, moved, replicas.Timeout)
		if err != nil {
			cmd.SetErr(err)
			return err
		}
		wait = redis.NewIntCmd(ctx, "wait", replicas.Count, replicas.Timeout.Milliseconds())
		// WAIT is about the writes of its own connection, so both go in one pipeline. On another
		// connection, WAIT would return at once, so it is never sent again.
		pipe := master.Pipeline()
		_ = pipe.Process(ctx, cmd)
		// A command with no work left writes nothing. This message, which has no subscribers, is sent to
		// the replicas as well, after all earlier writes.
		mark := redis.NewIntCmd(ctx, "publish", r.prefix+"x:written", "")
		_ = pipe.Process(ctx, mark)
		_ = pipe.Process(ctx, redisx.Once(wait))
		_, err = pipe.Exec(ctx)
		if err != nil && cmd.Err() == nil && mark.Err() == nil && wait.Err() == nil {
			cmd.SetErr(err) // none was sent
		}
		moved, _ = redis.IsMovedError(cmd.Err())
		return cmd.Err()
	}
	// go-redis does not resend a pipeline with a command that must be sent only once.
	reply, err := r.runBy(ctx, way{send: send, resends: repeatable}, command, args)
	if err != nil {
		return nil, err
	}
	have, err := wait.Result()
	if err != nil || int(have) < replicas.Count {
		r.doubt(ctx, err)
		return reply, &ReplicasError{Have: int(have), Want: replicas.Count, Err: err}
	}
	return reply, nil
}

// master returns a client for the server that holds the namespace, with a read timeout longer than
// the wait for replicas. moved is the address to which another server redirected the caller, if
// any.
func (r *Runner) master(
	ctx context.Context, moved string, wait time.Duration,
) (*redis.Client, error) {
	rdb, ok := r.rdb.(*redis.Client)
	if cluster, isCluster := r.rdb.(*redis.ClusterClient); isCluster {
		if rdb = masterAt(ctx, cluster, moved); rdb == nil {
			var err error
			if rdb, err = cluster.MasterForKey(ctx, r.prefix); err != nil {
				return nil, err
			}
		}
	} else if !ok {
		return nil, errors.New("no client that can wait")
	}
	if timeout := rdb.Options().ReadTimeout; timeout > 0 {
		rdb = rdb.WithTimeout(timeout + wait)
	}
	return rdb, nil
}

// masterAt returns the client of the master at an address, or nil. It asks the cluster for its
// masters.
func masterAt(ctx context.Context, cluster *redis.ClusterClient, addr string) *redis.Client {
	if addr == "" {
		return nil
	}
	var found atomic.Pointer[redis.Client]
	_ = cluster.ForEachMaster(ctx, func(_ context.Context, rdb *redis.Client) error {
		if rdb.Options().Addr == addr {
			found.Store(rdb)
		}
		return nil
	}) // after an error, the client's state decides
	return found.Load()
}
