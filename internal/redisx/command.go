package redisx

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Once returns a command that go-redis sends only once. By default go-redis sends a command again
// if the connection breaks before the reply, which is wrong for a command that must not run twice.
// The reply is in cmd.
func Once(cmd redis.Cmder) redis.Cmder { return once{cmd} }

type once struct{ redis.Cmder }

// NoRetry keeps go-redis from sending the command again.
func (once) NoRetry() bool { return true }

// A Cmd is a command that knows whether it may be sent again.
type Cmd struct {
	redis.Cmd
	once bool
}

// NewCmd returns a command that go-redis may send again if the connection breaks.
func NewCmd(ctx context.Context, args ...any) *Cmd {
	return &Cmd{Cmd: *redis.NewCmd(ctx, args...)}
}

// NewOnceCmd returns a command that go-redis sends only once.
func NewOnceCmd(ctx context.Context, args ...any) *Cmd {
	return &Cmd{Cmd: *redis.NewCmd(ctx, args...), once: true}
}

// NoRetry reports whether go-redis must not send the command again.
func (c *Cmd) NoRetry() bool { return c.once }

var globEscaper = strings.NewReplacer(
	`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `^`, `\^`,
)

// EscapeGlob returns a pattern for SCAN that matches only the text itself.
func EscapeGlob(text string) string { return globEscaper.Replace(text) }

// SecondsUp rounds a duration up to whole seconds, for commands that take no fractions.
func SecondsUp(d time.Duration) time.Duration {
	if rest := d % time.Second; rest > 0 {
		d += time.Second - rest
	}
	return d
}
