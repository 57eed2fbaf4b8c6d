//go:build linux

package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// A guarded lab has a master here and its replica beyond, and a sentinel here and two beyond.
type guarded struct {
	*lab
	sentinels []string // beyond
}

func newGuardedLab(t testing.TB) *guarded {
	t.Helper()
	g := &guarded{lab: newLab(t)}
	_, port, err := net.SplitHostPort(g.server.Addr())
	require.NoError(t, err)
	master := net.JoinHostPort(g.here.addr, port)
	replica, err := testkit.LaunchUnder(g.beyond.program(),
		"--bind", g.beyond.addr, "127.0.0.1", "--protected-mode", "no",
		"--replicaof", g.here.addr+" "+port, "--repl-diskless-sync-delay", "0")
	require.NoError(t, err)
	t.Cleanup(replica.Stop)
	rdb := g.redis(g.here)
	testkit.Until(t, "the replica follows", func() bool {
		return strings.Contains(rdb.Info(t.Context(), "replication").Val(), "state=online")
	})
	for i, at := range []end{g.here, g.beyond, g.beyond} {
		addr := testkit.StartSentinel(t, at.program(), net.JoinHostPort(at.addr, fmt.Sprint(26379+i)), master)
		if at == g.beyond {
			g.sentinels = append(g.sentinels, addr)
		}
	}
	for _, addr := range g.sentinels {
		sentinel := redis.NewSentinelClient(&redis.Options{Addr: addr, Dialer: g.beyond.dial})
		t.Cleanup(func() { _ = sentinel.Close() })
		testkit.Until(t, "sentinels know each other and the replica", func() bool {
			state := sentinel.Master(t.Context(), testkit.MasterName).Val()
			return state["num-other-sentinels"] == "2" && state["num-slaves"] == "1"
		})
	}
	return g
}

// follower returns a client beyond, using the sentinels there to find the master.
func (g *guarded) follower() *qless.Client {
	g.t.Helper()
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: testkit.MasterName, SentinelAddrs: g.sentinels, Dialer: g.beyond.dial,
		DialTimeout: time.Second, ReadTimeout: time.Second,
	})
	g.t.Cleanup(func() { _ = rdb.Close() })
	c, err := qless.New(rdb, &qless.ClientConfig{Logger: testkit.Quiet()})
	require.NoError(g.t, err)
	g.t.Cleanup(func() { _ = c.Close() })
	return c
}

// A master is cut off with some of its clients, and the other side promotes the replica, which
// leaves two masters until the cable is mended. Then only jobs of the old master are lost. A put
// that waits for the replica fails at once.
func TestASplitBrain(t *testing.T) {
	t.Parallel()
	g := newGuardedLab(t)
	old := g.redis(g.here)
	near, far := g.client(g.here), g.follower()
	careful, err := qless.New(old, &qless.ClientConfig{
		Logger:         testkit.Quiet(),
		Replicas:       1,
		ReplicaTimeout: 300 * time.Millisecond,
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = careful.Close() })
	put := func(c *qless.Client) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		return c.Queue("q").Put(ctx, "K", nil)
	}
	var kept, split []string
	for len(kept) < 20 {
		if jid, err := put(careful); err == nil {
			kept = append(kept, jid)
		} else {
			require.ErrorIs(t, err, qless.ErrNotReplicated, "the replica is late at first")
		}
	}

	g.cut(cut{true, true})
	cutAt := time.Now()
	for range 20 {
		jid, err := put(near)
		require.NoError(t, err, "the old master takes it")
		split = append(split, jid)
	}
	_, err = put(careful)
	require.ErrorIs(t, err, qless.ErrNotReplicated)
	for len(kept) < 40 {
		jid, err := put(far)
		if err == nil {
			if len(kept) == 20 {
				t.Logf("the other side took jobs %v after the cut", time.Since(cutAt).Round(time.Millisecond))
			}
			kept = append(kept, jid)
		} else {
			require.True(t, errors.Is(err, qless.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded), "%v", err)
		}
	}

	g.mend()
	mended := time.Now()
	testkit.Until(t, "the old master follows the new one", func() bool {
		info := old.Info(t.Context(), "replication").Val()
		return strings.Contains(info, "role:slave") && strings.Contains(info, "master_link_status:up")
	})
	t.Logf("it followed %v after the cable was mended", time.Since(mended).Round(time.Millisecond))
	found, err := far.Jobs(t.Context(), append(kept, split...)...)
	require.NoError(t, err)
	var there []string
	for _, job := range found {
		there = append(there, job.JID)
	}
	require.Subset(t, there, kept)
	for _, jid := range split {
		require.NotContains(t, there, jid, "only the old master had it")
	}
}
