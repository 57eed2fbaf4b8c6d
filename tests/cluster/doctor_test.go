package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
)

// The doctor asks the master of the namespace, and touches no other namespace there.
func TestDamageOnAClusterIsFoundAndRepaired(t *testing.T) {
	c := startNodes(t, false)
	ctx := t.Context()
	for _, master := range c.all {
		rdb := c.client()
		namespace := "{" + c.tag(master, 0) + "}:ql:"
		for _, name := range []string{namespace, "{" + c.tag(master, 1) + "}:ql:"} {
			ql := client(t, rdb, name)
			for _, jid := range []string{"a", "b"} {
				_, err := ql.Queue("q").Put(ctx, "K", nil, qless.JID(jid), qless.Tags{"red"}, qless.TTL(time.Hour))
				require.NoError(t, err)
			}
			require.NoError(t, rdb.ZRem(ctx, name+"q:q-work", "a").Err())
		}
		require.NoError(t, rdb.RPush(ctx, namespace+"j:gone-history", "x").Err())
		require.NoError(t, rdb.HSet(ctx, namespace+"s:stats:1:q", "retries", "many").Err())

		options := doctor.Options{Namespace: namespace, Pause: -1}
		report, err := doctor.Examine(ctx, rdb, options)
		require.NoError(t, err)
		broken := report.With(doctor.Broken)
		found := map[doctor.ReasonCode]string{}
		for _, f := range broken {
			found[f.Code] = f.Key
		}
		require.Equal(t, map[doctor.ReasonCode]string{
			doctor.ReasonLost: namespace + "j:a", doctor.ReasonOrphan: namespace + "j:gone-history",
			doctor.ReasonStatsDamaged: namespace + "s:stats:1:q",
		}, found)
		require.Equal(t, 2, report.Jobs)

		fixed, err := doctor.Fix(ctx, rdb, options, broken...)
		require.NoError(t, err)
		require.Len(t, fixed, 3)
		report, err = doctor.Examine(ctx, rdb, options)
		require.NoError(t, err)
		require.Empty(t, report.With(doctor.Broken))
		require.Equal(t, []string{"a", "b"}, jidsOf(t, client(t, rdb, namespace)))
		require.Equal(t, []string{"b"}, jidsOf(t, client(t, rdb, "{"+c.tag(master, 1)+"}:ql:")), "left alone")
	}
}

func jidsOf(t *testing.T, ql *qless.Client) []string {
	t.Helper()
	page, err := inspect.New(ql).Queue("q", inspect.Waiting).JIDs(t.Context(), inspect.Range{})
	require.NoError(t, err)
	return page.Items
}
