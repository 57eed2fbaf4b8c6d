package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func TestASweepLooksAtAllFailedJobs(t *testing.T) {
	e, client := newReal(t)
	for i := range 250 {
		jid := e.put("mail", "Welcome", 0)
		if i%100 == 0 {
			e.put("mail", "Welcome", 0, qless.DependsOn{jid}, qless.OnFailureRun)
		}
		failSilently(t, e.rdb, client, jid)
	}
	require.JSONEq(t, `{"swept": 3}`, e.ok("sweep", "--json"))
	counts := e.counts("mail")
	require.Equal(t, []int{3, 0}, []int{counts.Waiting, counts.Depends})
	require.Equal(t, "swept 0 jobs\n", e.run("", "sweep", "mail").errors)
}
