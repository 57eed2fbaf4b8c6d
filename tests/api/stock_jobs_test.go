package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// What the stock scripts leave in the keys is read like what ours leave.
func TestJobsOfTheStockScriptsAreRead(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, e.rdb.HSet(t.Context(), "ql:j:old", map[string]any{
		"jid": "old", "klass": "Foo::Bar", "data": `{"a":{}}`, "priority": "0", "tags": "{}", "state": "waiting",
		"worker": "", "expires": "1704196860.123456", "queue": "q", "retries": "5", "remaining": "4.0000000000",
		"time": "1704196800.5", "failure": "{}",
		"history": `[{"q":"first","put":1352075209,"popped":1352075300.5,"worker":"w","done":1352076000},{"q":"q","put":1352076000}]`,
	}).Err())
	require.NoError(t, e.rdb.ZAdd(t.Context(), "ql:q:q-work", zmember(-0.17, "old")).Err())

	job := e.pop("q")
	require.Equal(t, "Foo::Bar", job.Klass)
	require.Empty(t, job.Tags)
	require.Nil(t, job.Failure)
	require.Equal(t, 4, job.Remaining)
	require.Empty(t, job.SpawnedFrom)
	require.Equal(t, []qless.HistoryEntry{
		{When: time.Unix(1352075209, 0), What: "put", Queue: "first"},
		{When: time.Unix(1352075300, 0), What: "popped", Worker: "w"},
		{When: time.Unix(1352076000, 0), What: "done"},
		{When: time.Unix(1352076000, 0), What: "put", Queue: "q"},
		{When: noon.Local(), What: "popped", Worker: "w1"},
	}, job.History)
	require.Zero(t, e.rdb.HExists(t.Context(), "ql:j:old", "history").Val(), "it has become a list")
	require.NoError(t, job.Complete(t.Context()))
}
