// Package memory connects tests to a miniredis.
package memory

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/testkit"
)

// Client returns a client for its own miniredis. The timeouts are long: on a busy machine,
// miniredis takes seconds for a long script.
func Client(t testing.TB) *redis.Client {
	t.Helper()
	options := testkit.Options(miniredis.RunT(t).Addr())
	options.ReadTimeout = time.Minute
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}
