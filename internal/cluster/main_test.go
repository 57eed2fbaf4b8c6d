package cluster

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/qless/qless-go"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silence{}) // servers that are gone are part of the tests
	goleak.VerifyTestMain(m)
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// quiet is where clients report what the tests expect.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// patience is how long a test waits for what has to happen. It is far more than that takes:
// it turns a hang into a failure.
const patience = 40 * time.Second

// until returns when a condition holds that no event tells of, such as what the nodes of a cluster
// think of each other. It is the one place that asks again and again, by a timer.
func until(t testing.TB, what string, condition func(ctx context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			if condition(ctx) {
				return
			}
			timer.Reset(5 * time.Millisecond)
		case <-ctx.Done():
			require.FailNow(t, "it did not come to pass", "%s", what)
		}
	}
}

// soon returns what a channel gives, or fails the test when it gives nothing.
func soon[T any](t testing.TB, what string, channel <-chan T) T {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case got := <-channel:
		return got
	case <-timer.C:
		require.FailNow(t, "nothing came", "%s", what)
		panic("unreachable")
	}
}

// client returns a client of a namespace.
func client(t testing.TB, rdb redis.UniversalClient, namespace string, options ...qless.Option) *qless.Client {
	t.Helper()
	all := []qless.Option{qless.WithNamespace(namespace), qless.WithLogger(quiet())}
	c, err := qless.New(rdb, append(all, options...)...)
	require.NoError(t, err)
	return c
}
