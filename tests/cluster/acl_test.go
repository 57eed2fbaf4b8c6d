package cluster

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/tests/tour"
)

// The additional permissions in docs/security.md, for clusters and for waiting for replicas, are
// enough.
func TestUsersOfACluster(t *testing.T) {
	c := startNodes(t, true)
	login := func(name string, more ...string) *qless.Client {
		t.Helper()
		more = append(more, "+cluster|slots", "+command", "+asking", "~{acl}:ql:*", "&{acl}:ql:*")
		options := &redis.ClusterOptions{
			Username: name, Password: "SECRET", DisableIdentity: true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		}
		for _, n := range c.all {
			rules := append(append([]string{"reset"}, tour.Rules(t, name)...), more...)
			require.NoError(t, n.rdb.ACLSetUser(t.Context(), name, rules...).Err())
			options.Addrs = append(options.Addrs, n.Addr())
		}
		rdb := redis.NewClusterClient(options)
		t.Cleanup(func() { _ = rdb.Close() })
		if name == "app" {
			return replicated(t, rdb, "{acl}:ql:", patience)
		}
		return client(t, rdb, "{acl}:ql:")
	}
	app := login("app", "+wait")
	tour.Furnish(t, app)
	tour.Dashboard(t, login("dashboard"))
	tour.Client(t, app)
	tour.Worker(t, login("worker"), app)
	for _, n := range c.all {
		for _, entry := range n.rdb.ACLLog(t.Context(), 100).Val() {
			if entry.Object != "config|get" { // the status does without it
				require.Fail(t, "refused", "%s %s to %s", entry.Reason, entry.Object, entry.Username)
			}
		}
	}
}
