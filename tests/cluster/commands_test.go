package cluster

import (
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/tests/scripts"
	"github.com/qless/qless-go/tests/tour"
)

func TestEveryCommandWorksOnACluster(t *testing.T) {
	c := startNodes(t, false)
	guide := tour.NewGuide(t)
	for i, master := range c.all {
		t.Run(fmt.Sprint("master", i), func(t *testing.T) {
			rdb := c.client()
			rdb.AddHook(guide)
			ql := client(t, rdb, "{"+c.tag(master, 0)+"}:ql:")
			tour.Furnish(t, ql)
			tour.Dashboard(t, ql)
			tour.Client(t, ql)
			tour.Worker(t, ql, ql)
			runForOthers(t, rdb, "{"+c.tag(master, 0)+"}:ql:")
			keys := master.rdb.DBSize(t.Context()).Val()
			require.NotZero(t, keys)
		})
	}
	require.Empty(t, guide.Missing(t), "scripts that did not run")
}

// runForOthers runs the commands used only by classic clients and outboxes.
func runForOthers(t *testing.T, rdb redis.Scripter, namespace string) {
	script := redis.NewScript(scripts.Text())
	for command, args := range map[string][]any{
		"length":       {"q"},
		"popByJid":     {"q", "gone", "w"},
		"put.settled":  {"receipt"},
		"subscription": {"q", "add", "topic"},
		"tags":         {0, 10},
		"tracked":      nil,
		"workerJobs":   {"w"},
		"workersCount": nil,
	} {
		args = append([]any{command, "1704196800"}, args...)
		err := script.Run(t.Context(), rdb, []string{namespace}, args...).Err()
		if !errors.Is(err, redis.Nil) {
			require.NoError(t, err, command)
		}
	}
}

func TestANamespaceOnAClusterNeedsAHashTag(t *testing.T) {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"localhost:1"}})
	defer func() { _ = rdb.Close() }()
	for _, namespace := range []string{"ql:", "{}:ql:", "{:ql:", "}{:ql:"} {
		_, err := qless.New(rdb, &qless.ClientConfig{Namespace: namespace})
		require.ErrorIs(t, err, qless.ErrInvalid, namespace)
	}
	for _, namespace := range []string{"{a}:ql:", "ql:{a}:", "{a}{}:"} {
		_, err := qless.New(rdb, &qless.ClientConfig{Namespace: namespace})
		require.NoError(t, err, namespace)
	}
}
