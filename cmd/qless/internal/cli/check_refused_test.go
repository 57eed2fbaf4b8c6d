package cli_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// newClusterNode returns a cluster of one server that serves all slots.
func newClusterNode(t *testing.T) *checkedServer {
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
	s := &checkedServer{
		&env{
			t: t, url: "redis://" + server.Addr() + "?cluster=true",
			environ: []string{"QLESS_NAMESPACE={mail}:ql:"},
		},
		server.Client(t),
	}
	require.NoError(t, s.rdb.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	testkit.Until(t, "a cluster that is up", func() bool {
		return s.rdb.Exists(t.Context(), "{mail}:ql:queues").Err() == nil
	})
	return s
}

// loseSlot makes the cluster lose the slot of a key, and waits for the consequence.
func (s *checkedServer) loseSlot(key string) {
	s.t.Helper()
	slot := s.rdb.ClusterKeySlot(s.t.Context(), key).Val()
	s.do("CLUSTER", "DELSLOTS", slot)
	testkit.Until(s.t, "a cluster that is down", func() bool {
		return redis.HasErrorPrefix(s.rdb.Exists(s.t.Context(), "{mail}:ql:queues").Err(), "CLUSTERDOWN")
	})
}

// A user who only reads has no permission to try a write.
func TestTheServerIsCheckedByAReader(t *testing.T) {
	s := newCheckedServer(t)
	s.do("ACL", "SETUSER", "reader", "on", ">secret", "~ql:*", "&ql:*", "-@all",
		"+ping", "+info", "+eval", "+exists")
	s.url = "redis://reader:secret@" + s.rdb.Options().Addr
	r := s.check("")
	require.Equal(t, 0, r.status, r.out)
	require.Contains(t, r.out, "answers, this user may only read")
	s.do("ACL", "SETUSER", "reader", "-exists")
	r = s.check("")
	require.Equal(t, 3, r.status, r.out)
	require.Contains(t, r.out, "script")
}
