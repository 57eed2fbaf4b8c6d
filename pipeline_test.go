package qless_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// A connection that is refused leaves the commands of a pipeline without an answer: that is an
// error of each.
func TestAPipelineWhoseConnectionIsRefused(t *testing.T) {
	e := newEnv(t)
	options := *e.rdb.Options()
	options.Username, options.Password = "app", "wrong"
	rdb := redis.NewClient(&options)
	t.Cleanup(func() { _ = rdb.Close() })

	p := e.client(rdb).Pipeline()
	p.Add("length", "q")
	p.Add("length", "q")
	replies, failures := p.Exec(t.Context())
	require.Equal(t, []any{nil, nil}, replies)
	for _, err := range failures {
		require.ErrorContains(t, err, "WRONGPASS")
	}

	replicated := e.client(rdb, qless.WithReplicas(1, time.Second))
	_, err := replicated.Queue("q").Put(t.Context(), "K", nil)
	require.ErrorContains(t, err, "WRONGPASS")
	require.NotErrorIs(t, err, qless.ErrNotReplicated)
}
