// Package redisx extends go-redis for this module's clients: it sends a command only once,
// classifies errors, waits while a server is unavailable, and keeps a subscription alive.
//
// It imports only the standard library and go-redis.
package redisx

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// IsNil reports whether rdb is nil or a nil pointer.
func IsNil(rdb redis.UniversalClient) bool {
	if rdb == nil {
		return true
	}
	v := reflect.ValueOf(rdb)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// IdentityOf identifies the server of a go-redis client, as far as the options allow.
func IdentityOf(rdb redis.UniversalClient) string {
	switch c := rdb.(type) {
	case *redis.Client:
		if o := c.Options(); o.Addr != "FailoverClient" { // the address of every sentinel client
			return fmt.Sprintf("%s:%s/%d", o.Network, o.Addr, o.DB)
		}
	case *redis.ClusterClient:
		return strings.Join(slices.Sorted(slices.Values(c.Options().Addrs)), ",")
	}
	return fmt.Sprintf("%p", rdb)
}

// Once returns a command that go-redis sends only once. By default, go-redis resends a command if
// the connection breaks before the reply, which is wrong for a command that must not run twice. The
// reply is in cmd.
func Once(cmd redis.Cmder) redis.Cmder { return once{cmd} }

type once struct{ redis.Cmder }

// NoRetry keeps go-redis from resending the command.
func (once) NoRetry() bool { return true }

// A Cmd is a command that knows whether resending is allowed.
type Cmd struct {
	redis.Cmd
	once bool
}

// NewCmd returns a command that go-redis may resend if the connection breaks.
func NewCmd(ctx context.Context, args ...any) *Cmd {
	return &Cmd{Cmd: *redis.NewCmd(ctx, args...)}
}

// NewOnceCmd returns a command that go-redis sends only once.
func NewOnceCmd(ctx context.Context, args ...any) *Cmd {
	return &Cmd{Cmd: *redis.NewCmd(ctx, args...), once: true}
}

// NoRetry reports whether go-redis must not resend the command.
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
