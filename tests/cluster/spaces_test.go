package cluster

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
)

// Each master has a damaged namespace that matches, and one that does not.
func TestNamespacesOfAllMastersAreExamined(t *testing.T) {
	c := startNodes(t, false)
	ctx := t.Context()
	rdb := c.client()
	var want []string
	for _, master := range c.all {
		tag := c.tag(master, 0)
		want = append(want, "{"+tag+"}:jobs:")
		for _, name := range []string{"{" + tag + "}:jobs:", "{" + tag + "}:other:"} {
			_, err := client(t, rdb, name).Queue("q").Put(ctx, "K", nil, qless.JID("a"))
			require.NoError(t, err)
			require.NoError(t, rdb.ZRem(ctx, name+"q:q-work", "a").Err())
		}
	}
	found, err := inspect.Namespaces(ctx, rdb, "{t*}:jobs:")
	require.NoError(t, err)
	require.ElementsMatch(t, want, found)
	require.IsIncreasing(t, found)

	reports, err := doctor.ExamineAll(ctx, rdb, doctor.Options{Pause: -1}, found...)
	require.NoError(t, err)
	require.Len(t, reports, 3)
	for i, report := range reports {
		require.Equal(t, found[i], report.Namespace)
		require.Equal(t, 1, report.Jobs)
		broken := report.With(doctor.Broken)
		require.Len(t, broken, 1)
		require.Equal(t, doctor.ReasonLost, broken[0].Code)
		require.Equal(t, found[i]+"j:a", broken[0].Key)
		one, err := doctor.Examine(ctx, rdb, doctor.Options{Namespace: found[i], Pause: -1})
		require.NoError(t, err)
		require.Equal(t, one.Keys, report.Keys)
		require.NotEmpty(t, report.With(doctor.Warning), "each has a server of its own without persistence")
	}

	gone, cancel := context.WithCancel(ctx)
	cancel()
	_, err = inspect.Namespaces(gone, rdb, "*")
	require.ErrorIs(t, err, qless.ErrUnavailable)
	ring := redis.NewRing(&redis.RingOptions{})
	defer func() { _ = ring.Close() }()
	_, err = inspect.Namespaces(ctx, ring, "*")
	require.ErrorIs(t, err, qless.ErrInvalid)
}
