package workq_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTwoThousandLeasesMayWait(t *testing.T) {
	const n = 2000
	e := newEnv(t)
	peers := make([]*peer, n)
	for i := range peers {
		peers[i] = e.dial()
		peers[i].send("lease q 120000\r\n")
	}
	e.idle("workq/q/0", 1)
	rdb := e.redis.Client(t)
	require.Equal(t, int64(1), rdb.ZCard(t.Context(), "ql:x:idle:workq/q/0").Val(),
		"they wait as one worker")
	connections := strings.Count(rdb.ClientList(t.Context()).Val(), "\n")
	require.Less(t, connections, 100, "they share connections to Redis")
	added := map[string]bool{}
	adding := e.dial()
	for range n {
		added[adding.add("q", "x")] = true
	}
	for _, p := range peers {
		require.Equal(t, "+OK 1", p.line())
		fields, _ := p.body()
		require.True(t, added[fields[0]])
		delete(added, fields[0])
	}
}
