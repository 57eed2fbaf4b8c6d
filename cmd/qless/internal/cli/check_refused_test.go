package cli_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// newClusterNode returns a cluster of one server that serves all slots.
func newClusterNode(t *testing.T) *env {
	t.Helper()
	var server *testkit.Server
	var err error
	for range 20 { // the port of the cluster bus, 10000 above the server's own, may be invalid
		server, err = testkit.Launch("--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf")
		if err == nil {
			break
		}
	}
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	e := &env{
		t: t, url: "redis://" + server.Addr() + "?cluster=true", rdb: server.Client(t),
		environ: []string{"QLESS_NAMESPACE={mail}:ql:"},
	}
	require.NoError(t, e.rdb.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	testkit.Until(t, "a cluster that is up", func() bool {
		return e.rdb.Exists(t.Context(), "{mail}:ql:queues").Err() == nil
	})
	return e
}

// loseSlot makes the cluster lose the slot of a key, and waits for the consequence.
func (e *env) loseSlot(key string) {
	e.t.Helper()
	slot := e.rdb.ClusterKeySlot(e.t.Context(), key).Val()
	e.redis(fmt.Sprint("cluster delslots ", slot))
	testkit.Until(e.t, "a cluster that is down", func() bool {
		return redis.HasErrorPrefix(e.rdb.Exists(e.t.Context(), "{mail}:ql:queues").Err(), "CLUSTERDOWN")
	})
}

// A user who only reads has no permission to try a write.
func TestTheServerIsCheckedByAReader(t *testing.T) {
	e, _ := newReal(t)
	e.redis("acl setuser reader on >secret ~ql:* &ql:* -@all +ping +info +eval +exists")
	e.url = "redis://reader:secret@" + e.rdb.Options().Addr
	require.Contains(t, e.checkServer(0, ""), "answers, this user may only read")
	e.redis("acl setuser reader -exists")
	require.Contains(t, e.checkServer(3, ""), "script")
}
