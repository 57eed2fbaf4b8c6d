package cli_test

import (
	"net/http"
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

func TestAClusterThatIsDownIsNotHealthy(t *testing.T) {
	for _, c := range []struct{ name, slotOf, covered string }{
		{"a slot of others is missing", "{shop}", "yes"},
		{"the slot of the namespace is missing", "{mail}", "no"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newClusterNode(t)
			s.do("CONFIG", "SET", "cluster-require-full-coverage", c.covered)
			require.Equal(t, 0, s.check("").status)
			serving := s.serving(1, "serve", "--metrics", anywhere)
			status, text := serving.get("metrics", "/readyz")
			require.Equal(t, http.StatusOK, status, text)

			s.loseSlot(c.slotOf)
			r := s.check("")
			require.Equal(t, 3, r.status, r.out)
			require.Contains(t, r.out, "CLUSTERDOWN")
			status, text = serving.get("metrics", "/readyz")
			require.Equal(t, http.StatusServiceUnavailable, status, text)
			status, _ = serving.get("metrics", "/healthz")
			require.Equal(t, http.StatusOK, status, "a restart of the process is no remedy")
			require.Equal(t, 0, serving.end())
		})
	}
}

func TestAServerThatRefusesWritesIsCritical(t *testing.T) {
	for _, refusal := range []string{"MISCONF", "NOREPLICAS", "OOM"} {
		t.Run(refusal, func(t *testing.T) {
			server := testkit.Start(t)
			s := &checkedServer{&env{t: t, url: "redis://" + server.Addr()}, server.Client(t)}
			require.Equal(t, 0, s.check("").status)
			allow := server.Refuse(t, refusal)
			r := s.check("")
			allow()
			require.Equal(t, 2, r.status, r.out)
			require.Contains(t, r.out, "it takes no writes")
			require.Equal(t, int64(0), s.rdb.DBSize(t.Context()).Val(), "the check leaves no key")
		})
	}
}

// A user who only reads has no permission to try a write.
func TestTheServerIsCheckedByAReader(t *testing.T) {
	s := newCheckedServer(t)
	s.do("ACL", "SETUSER", "reader", "on", ">secret", "~ql:*", "&ql:*", "-@all",
		"+ping", "+info", "+exists")
	s.url = "redis://reader:secret@" + s.rdb.Options().Addr
	r := s.check("")
	require.Equal(t, 0, r.status, r.out)
	s.do("ACL", "SETUSER", "reader", "-exists")
	r = s.check("")
	require.Equal(t, 3, r.status, r.out)
	require.Contains(t, r.out, "NOPERM")
}
