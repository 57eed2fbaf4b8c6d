package script

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/wire"
)

// A Runner runs commands for one namespace. It is safe for concurrent use.
type Runner struct {
	set    *Set
	rdb    redis.UniversalClient
	prefix string
	clock  func() time.Time
	guard  string // empty unless the server is a cluster
}

// guardKey is a key that never exists. While a cluster moves a slot, its keys are split between two
// masters. The old one redirects scripts to the new one if it has none of their keys, and the new
// one refuses scripts that name several keys until it has all of them. With a second key, scripts
// wait until all keys of the namespace are in one place again.
const guardKey = "x:guard"

// NewRunner returns a runner. The scripts use the time of the clock, or the server's time if it is
// nil.
func NewRunner(set *Set, rdb redis.UniversalClient, prefix string, clock func() time.Time) *Runner {
	r := &Runner{set: set, rdb: rdb, prefix: prefix, clock: clock}
	if _, ok := rdb.(*redis.ClusterClient); ok {
		r.guard = prefix + guardKey
	}
	return r
}

// newCmd returns the call of a command, by the script's digest or with its whole text.
func (r *Runner) newCmd(
	ctx context.Context, c *Command, whole, repeatable bool, args []any,
) *redisx.Cmd {
	now := ""
	if r.clock != nil {
		now = wire.FormatTime(r.clock())
	}
	line := make([]any, 0, 6+len(args))
	if whole {
		line = append(line, "eval", c.text)
	} else {
		line = append(line, "evalsha", c.sha)
	}
	if r.guard != "" {
		line = append(line, 2, r.prefix, r.guard, now)
	} else {
		line = append(line, 1, r.prefix, now)
	}
	line = append(line, args...)
	if repeatable {
		return redisx.NewCmd(ctx, line...)
	}
	return redisx.NewOnceCmd(ctx, line...)
}

// attempts is how often a command that certainly did not run is sent.
const attempts = 4

// Run runs a command and returns the server's reply, or nil. A server that does not know the script
// is sent its text.
func (r *Runner) Run(ctx context.Context, name string, args ...any) (any, error) {
	command := r.set.Command(name)
	return r.runBy(ctx, r.rdb.Process, command, command.Repeatable(), args)
}

// RunNew is Run for a command whose arguments say that all jobs which it puts are new.
func (r *Runner) RunNew(ctx context.Context, name string, args ...any) (any, error) {
	command := r.set.Command(name)
	return r.runBy(ctx, r.rdb.Process, command, command.RepeatableNew(), args)
}

// runBy is Run with another way to send a command, which says whether it may be sent again.
func (r *Runner) runBy(
	ctx context.Context, send func(context.Context, redis.Cmder) error,
	command *Command, repeatable bool, args []any,
) (any, error) {
	for attempt := 1; ; attempt++ {
		cmd := r.newCmd(ctx, command, false, repeatable, args)
		err := send(ctx, cmd)
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			cmd = r.newCmd(ctx, command, true, repeatable, args)
			err = send(ctx, cmd)
		}
		if err == nil || errors.Is(err, redis.Nil) {
			return cmd.Val(), nil
		}
		if cluster, ok := r.rdb.(*redis.ClusterClient); ok && redisx.NeverRan(err) {
			cluster.ReloadState(ctx) // another master may have the namespace now
		}
		if attempt == attempts || !redisx.NeverRan(err) || !redisx.WhileAway.Wait(ctx, attempt) {
			return nil, err
		}
	}
}
