package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.Main(m)
}

// quiet returns the logger for clients with expected failures.
var quiet = testkit.Quiet

// patience limits how long a test waits for an event. Any event takes far less: patience turns a
// hang into a failure.
const patience = testkit.Patience

// until waits until a condition without an event holds, such as the views that the nodes of a
// cluster have of each other. Only until polls by a timer.
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

// client returns a client of a namespace.
func client(t testing.TB, rdb redis.UniversalClient, namespace string) *qless.Client {
	t.Helper()
	return clientWith(t, rdb, qless.ClientConfig{Namespace: namespace})
}

// replicated is client, but puts wait for a replica.
func replicated(t testing.TB, rdb redis.UniversalClient, namespace string, timeout time.Duration) *qless.Client {
	t.Helper()
	return clientWith(t, rdb, qless.ClientConfig{Namespace: namespace, Replicas: 1, ReplicaTimeout: timeout})
}

func clientWith(t testing.TB, rdb redis.UniversalClient, config qless.ClientConfig) *qless.Client {
	t.Helper()
	config.Logger = quiet()
	c, err := qless.New(rdb, &config)
	require.NoError(t, err)
	return c
}
