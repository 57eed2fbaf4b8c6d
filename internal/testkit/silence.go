package testkit

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Quiet returns a logger that discards everything, for expected messages.
func Quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// Silence keeps go-redis's log out of the output of a package's tests, which lose servers on
// purpose. It is for TestMain.
func Silence() { redis.SetLogger(&overheard) }

// overheard records go-redis's log while a test listens.
var overheard recorder

type recorder struct {
	mu   sync.Mutex
	on   bool
	text strings.Builder
}

func (r *recorder) Printf(_ context.Context, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.on {
		fmt.Fprintf(&r.text, format+"\n", args...)
	}
}

// Overhear returns a function that returns everything go-redis has logged since. Silence must have
// been called, and no other test may run at the same time.
func Overhear(t testing.TB) func() string {
	t.Helper()
	r := &overheard
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on = true
	return func() string {
		r.mu.Lock()
		defer r.mu.Unlock()
		defer r.text.Reset()
		r.on = false
		return r.text.String()
	}
}
