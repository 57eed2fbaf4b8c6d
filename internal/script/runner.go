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
	script *Script
	rdb    redis.UniversalClient
	prefix string
	clock  func() time.Time

	cluster *redis.ClusterClient // nil unless rdb is a cluster's
	loader  *loader

	sha  any   // the beginning of each call, as reusable values
	keys []any // the keys after sha
}

// isUnknown reports whether a server did not have the script.
func isUnknown(err error) bool { return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") }

// guardKey is a key that never exists. While a cluster moves a slot, its keys are split between two
// masters. The old master redirects scripts to the new one if it has none of their keys. The new
// one refuses scripts that name several keys until it has all of them. With a second key, scripts
// wait until all keys of the namespace are in one place again.
const guardKey = "x:guard"

// NewRunner returns a runner. The scripts use the time of the clock or, without one, the server's.
func NewRunner(
	script *Script, rdb redis.UniversalClient, prefix string, clock func() time.Time,
) *Runner {
	r := &Runner{
		script: script, rdb: rdb, prefix: prefix, clock: clock, loader: loaderOf(script, rdb),
		sha: script.sha, keys: []any{1, prefix},
	}
	r.cluster, _ = rdb.(*redis.ClusterClient)
	if r.cluster != nil {
		r.keys = []any{2, prefix, prefix + guardKey}
	}
	return r
}

// newCmd returns the call of a command, by the script's digest or with its whole text.
func (r *Runner) newCmd(
	ctx context.Context, facts Facts, whole, repeatable bool, args []any,
) *redisx.Cmd {
	now := ""
	if r.clock != nil {
		now = wire.FormatTime(r.clock())
	}
	line := make([]any, 0, 7+len(args))
	if whole {
		line = append(line, "eval", r.script.text)
	} else {
		line = append(line, "evalsha", r.sha)
	}
	line = append(line, r.keys...)
	line = append(line, facts.name, now)
	line = append(line, args...)
	if repeatable {
		return redisx.NewCmd(ctx, line...)
	}
	return redisx.NewOnceCmd(ctx, line...)
}

// attempts is the maximum number of times to send a command that certainly did not run, or may run
// twice.
const attempts = 4

// Run runs a command and returns the server's reply, or nil. If the server does not have the
// script, Run sends its text.
func (r *Runner) Run(ctx context.Context, name string, args ...any) (any, error) {
	return r.runBy(ctx, r.way(r.script.Facts(name).Repeatable), name, args)
}

// RunNew is like Run, for a command with arguments that mark all its jobs as new.
func (r *Runner) RunNew(ctx context.Context, name string, args ...any) (any, error) {
	facts := r.script.Facts(name)
	return r.runBy(ctx, r.way(facts.Repeatable || facts.RepeatableNew), name, args)
}

// A way is a way of sending a command.
type way struct {
	send    func(context.Context, redis.Cmder) error
	client  bool // the client resends if the connection breaks
	resends bool // runBy resends
}

// way returns the way of sending a command. A repeatable command may be sent again. The client of a
// cluster would ask the same master again, so runBy does so instead, once the client looks for
// another master.
func (r *Runner) way(repeatable bool) way {
	inCluster := r.cluster != nil
	return way{r.rdb.Process, repeatable && !inCluster, repeatable && inCluster}
}

// runBy runs a command in a way.
func (r *Runner) runBy(ctx context.Context, by way, command string, args []any) (any, error) {
	for attempt := 1; ; attempt++ {
		reply, err := r.runOnce(ctx, by, command, args)
		if err == nil {
			return reply, nil
		}
		r.doubt(ctx, err)
		again := redisx.NeverRan(err) || by.resends && !redisx.IsAnswer(err)
		if attempt == attempts || !again || !redisx.WhileAway.Wait(ctx, attempt) {
			return nil, err
		}
	}
}

// runOnce runs a command. If the server does not have the script, runOnce sends its text.
func (r *Runner) runOnce(ctx context.Context, by way, command string, args []any) (any, error) {
	facts := r.script.Facts(command)
	for {
		seen := r.loader.seen()
		cmd := r.newCmd(ctx, facts, false, by.client, args)
		err := by.send(ctx, cmd)
		if isUnknown(err) {
			loaded, failed := r.loader.lead(ctx, seen)
			switch {
			case failed != nil:
				return nil, failed
			case loaded == nil:
				continue // another goroutine has sent it
			}
			cmd = r.newCmd(ctx, facts, true, by.client, args)
			err = by.send(ctx, cmd)
			loaded()
		}
		if err == nil || errors.Is(err, redis.Nil) {
			return cmd.Val(), nil
		}
		return nil, err
	}
}

// doubt makes the client of a cluster look again for the master of the namespace, unless an error
// shows that the known master is still there. A master that has vanished redirects no client.
func (r *Runner) doubt(ctx context.Context, err error) {
	if r.cluster != nil && redisx.IsUnanswered(err) {
		r.cluster.ReloadState(ctx)
	}
}
