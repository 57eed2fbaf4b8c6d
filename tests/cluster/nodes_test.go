package cluster

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// slots is the number of slots of a cluster.
const slots = 16384

// A node is one server of a cluster.
type node struct {
	*testkit.Server
	id  string
	rdb *redis.Client // connected to this node only
}

// nodes is a cluster of real servers.
type nodes struct {
	t   testing.TB
	all []*node // masters first, then their replicas, if any
}

// startNodes starts a cluster of three masters, with a replica each if requested, and waits until
// all nodes agree. The cluster ends with the test.
func startNodes(t testing.TB, replicas bool, arguments ...string) *nodes {
	t.Helper()
	const masters = 3
	count := masters
	if replicas {
		count *= 2
	}
	c := &nodes{t: t}
	for range count {
		c.all = append(c.all, startNode(t, arguments))
	}
	ctx := t.Context()
	for i, n := range c.all {
		require.NoError(t, n.rdb.Do(ctx, "cluster", "set-config-epoch", i+1).Err())
		if i < masters {
			from, to := slots*i/masters, slots*(i+1)/masters-1
			require.NoError(t, n.rdb.ClusterAddSlotsRange(ctx, from, to).Err())
		}
		host, port, err := net.SplitHostPort(n.Addr())
		require.NoError(t, err)
		require.NoError(t, c.all[0].rdb.ClusterMeet(ctx, host, port).Err())
		n.id = n.rdb.Do(ctx, "cluster", "myid").Val().(string)
	}
	until(t, "nodes that know each other", func(ctx context.Context) bool {
		for _, n := range c.all {
			if strings.Count(n.rdb.ClusterNodes(ctx).Val(), " connected") < count {
				return false
			}
		}
		return true
	})
	for i, n := range c.all[masters:] {
		require.NoError(t, n.rdb.ClusterReplicate(ctx, c.all[i].id).Err())
	}
	c.settled()
	return c
}

// startNode starts a server in cluster mode. It retries if the port of the cluster bus, 10000 above
// the server's own, is invalid or taken.
func startNode(t testing.TB, arguments []string) *node {
	t.Helper()
	arguments = append([]string{"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
		"--cluster-replica-validity-factor", "0", "--cluster-node-timeout", "3000", "--repl-diskless-sync-delay", "0"}, arguments...)
	var err error
	for range 20 {
		var server *testkit.Server
		if server, err = testkit.Launch(arguments...); err == nil {
			t.Cleanup(server.Stop)
			return &node{Server: server, rdb: server.Client(t)}
		}
	}
	require.NoError(t, err)
	return nil
}

// settled waits until every live node serves all slots, and every replica follows.
func (c *nodes) settled() {
	c.t.Helper()
	until(c.t, "a cluster that is well", func(ctx context.Context) bool {
		for _, n := range c.all {
			known := n.rdb.ClusterNodes(ctx).Val()
			replicas := strings.Count(known, "slave")
			if !strings.Contains(n.rdb.ClusterInfo(ctx).Val(), "cluster_state:ok") || replicas != len(c.all)-3 {
				return false
			}
			info := n.rdb.Info(ctx, "replication").Val()
			if strings.Contains(info, "role:slave") && !strings.Contains(info, "master_link_status:up") ||
				strings.Contains(info, "role:master") && replicas > 0 && !strings.Contains(info, "state=online") {
				return false
			}
		}
		return true
	})
}

// client returns a client of the cluster, closed with the test.
func (c *nodes) client() *redis.ClusterClient {
	c.t.Helper()
	return c.clientThatWaits(0)
}

// clientThatWaits is client with a limit on the wait for replies, or 0 for the default.
func (c *nodes) clientThatWaits(answers time.Duration) *redis.ClusterClient {
	c.t.Helper()
	var addrs []string
	for _, n := range c.all {
		addrs = append(addrs, n.Addr())
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ReadTimeout: answers})
	c.t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// slotOf returns the slot of a key.
func (c *nodes) slotOf(key string) int {
	slot, err := c.all[0].rdb.ClusterKeySlot(c.t.Context(), key).Result()
	require.NoError(c.t, err)
	return int(slot)
}

// masterOf returns the node with a slot, as seen by the first live node.
func (c *nodes) masterOf(slot int) *node {
	c.t.Helper()
	for _, n := range c.all {
		// A line has id, address, flags, master, two times, epoch, link, and slots such as 7 or
		// 0-5460.
		for line := range strings.Lines(n.rdb.ClusterNodes(c.t.Context()).Val()) {
			fields := strings.Fields(line)
			for _, part := range fields[min(8, len(fields)):] {
				var from, to int
				if count, _ := fmt.Sscanf(part, "%d-%d", &from, &to); count == 1 {
					to = from
				}
				if from <= slot && slot <= to && !strings.HasPrefix(part, "[") {
					return c.node(fields[0])
				}
			}
		}
	}
	require.FailNow(c.t, "no node has the slot", "%d", slot)
	return nil
}

func (c *nodes) node(id string) *node {
	for _, n := range c.all {
		if n.id == id {
			return n
		}
	}
	require.FailNow(c.t, "no such node", id)
	return nil
}

// otherMaster returns a master without a slot.
func (c *nodes) otherMaster(slot int) *node {
	c.t.Helper()
	has := c.masterOf(slot)
	for i := range 3 {
		if other := c.masterOf(slots*i/3 + 1); other != has {
			return other
		}
	}
	require.FailNow(c.t, "one master has all slots")
	return nil
}

// replicaOf returns the replica of a master.
func (c *nodes) replicaOf(master *node) *node {
	c.t.Helper()
	for line := range strings.Lines(master.rdb.ClusterNodes(c.t.Context()).Val()) {
		if fields := strings.Fields(line); len(fields) > 3 && fields[3] == master.id {
			return c.node(fields[0])
		}
	}
	require.FailNow(c.t, "the master has no replica", master.Addr())
	return nil
}

// failOver gracefully replaces a master by its replica.
func (c *nodes) failOver(master *node) *node {
	c.t.Helper()
	replica := c.replicaOf(master)
	require.NoError(c.t, replica.rdb.ClusterFailover(c.t.Context()).Err())
	c.promoted(replica)
	return replica
}

// promoted waits until a replica has become a master.
func (c *nodes) promoted(replica *node) {
	c.t.Helper()
	until(c.t, "a replica that takes over", func(ctx context.Context) bool {
		return strings.Contains(replica.rdb.Info(ctx, "replication").Val(), "role:master")
	})
}

// moveSlot moves a slot and its keys to another master, like an operator's tool. It calls midway
// when half of the keys have moved.
func (c *nodes) moveSlot(slot int, to *node, midway func()) {
	c.t.Helper()
	ctx := c.t.Context()
	from := c.masterOf(slot)
	set := func(on *node, words ...any) {
		require.NoError(c.t, on.rdb.Do(ctx, append([]any{"cluster", "setslot", slot}, words...)...).Err())
	}
	set(to, "importing", from.id)
	set(from, "migrating", to.id)
	keys := from.rdb.ClusterGetKeysInSlot(ctx, slot, 1<<20).Val()
	host, port, err := net.SplitHostPort(to.Addr())
	require.NoError(c.t, err)
	migrate := func(keys []string) {
		for _, key := range keys {
			require.NoError(c.t, from.rdb.Migrate(ctx, host, port, key, 0, patience).Err(), key)
		}
	}
	migrate(keys[:len(keys)/2])
	midway()
	for {
		rest := from.rdb.ClusterGetKeysInSlot(ctx, slot, 1<<20).Val()
		if len(rest) == 0 {
			break
		}
		migrate(rest)
	}
	for _, n := range []*node{to, from} {
		set(n, "node", to.id)
	}
	for _, n := range c.all {
		if n != to && n != from && strings.Contains(n.rdb.Info(ctx, "replication").Val(), "role:master") {
			set(n, "node", to.id)
		}
	}
}

// tag returns the nth hash tag with a slot on a node.
func (c *nodes) tag(n *node, nth int) string {
	for i := 0; ; i++ {
		tag := fmt.Sprintf("t%d", i)
		if c.masterOf(c.slotOf(tag)) == n {
			if nth--; nth < 0 {
				return tag
			}
		}
	}
}
