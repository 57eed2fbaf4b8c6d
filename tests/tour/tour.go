// Package tour goes through the commands of the API, for tests of servers and users that might
// refuse a command: a namespace on a cluster, a user with few permissions.
package tour

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/events"
	"github.com/qless/qless-go/tests/scripts"
)

// A Guide is a hook that notes the scripts run by its clients.
type Guide struct {
	mu   sync.Mutex
	seen map[string]bool
}

// NewGuide returns a guide that has seen no scripts.
func NewGuide(t testing.TB) *Guide {
	t.Helper()
	return &Guide{seen: map[string]bool{}}
}

// Missing returns the scripts that were never run.
func (g *Guide) Missing(t testing.TB) []string {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.DeleteFunc(scripts.Names(), func(name string) bool { return g.seen[name] })
}

// DialHook leaves dialing unchanged.
func (g *Guide) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook notes a script run outside a pipeline.
func (g *Guide) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		g.note(cmd)
		return err
	}
}

// ProcessPipelineHook notes scripts run in a pipeline.
func (g *Guide) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			g.note(cmd)
		}
		return err
	}
}

func (g *Guide) note(cmd redis.Cmder) {
	name := scripts.CommandOf(cmd.Args())
	if name == "" || cmd.Err() != nil && cmd.Err() != redis.Nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen[name] = true
}

// soon returns the next event.
func soon(ctx context.Context, t testing.TB, heard <-chan events.Event) events.Event {
	t.Helper()
	select {
	case event := <-heard:
		return event
	case <-ctx.Done():
		require.FailNow(t, "no event came")
		panic("unreachable")
	}
}
