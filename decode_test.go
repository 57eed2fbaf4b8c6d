package qless_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func TestRepliesOfTheStockScriptsAreRead(t *testing.T) {
	client := offline(t)
	jobs, err := client.DecodeJobs(`[{
		"jid":"j","klass":"K","state":"failed","queue":"q","worker":"","tracked":false,"priority":0,
		"expires":1704196800.75,"retries":5,"remaining":-1,"data":"{}","tags":{},"dependents":{},"dependencies":{},
		"failure":{"group":"g","message":"m","when":1704196800.25,"worker":""},"spawned_from_jid":false,
		"history":[{"when":1704196800,"what":"put","q":"q"},{"what":"note","when":1.5,"data":[1, 2]}],"unknown":[{}]
	},{"jid":"k","tags":["a",5,null],"failure":{},"history":{},"worker":false,"queue":false,"expires":"","priority":"7",
		"spawned_from_jid":"parent","dependents":["x"]}]`)
	require.NoError(t, err)
	require.Len(t, jobs, 2)

	require.Equal(t, qless.StateFailed, jobs[0].State)
	require.Equal(t, -1, jobs[0].Remaining)
	require.Equal(t, noon.Add(750*time.Millisecond).Local(), jobs[0].Expires)
	require.Equal(t, &qless.Failure{Group: "g", Message: "m", When: noon.Add(250 * time.Millisecond).Local()}, jobs[0].Failure)
	require.Empty(t, jobs[0].Tags)
	require.Empty(t, jobs[0].Dependents)
	require.Empty(t, jobs[0].SpawnedFrom)
	require.Equal(t, []qless.HistoryEntry{
		{When: noon.Local(), What: "put", Queue: "q"},
		{When: time.Unix(1, 500_000_000), What: "note", Details: map[string]json.RawMessage{"data": raw("[1, 2]")}},
	}, jobs[0].History)

	require.Equal(t, qless.Tags{"a", "5", ""}, jobs[1].Tags)
	require.Nil(t, jobs[1].Failure)
	require.Empty(t, jobs[1].History)
	require.Empty(t, jobs[1].Worker)
	require.Equal(t, 7, jobs[1].Priority)
	require.Equal(t, "parent", jobs[1].SpawnedFrom)
	require.Equal(t, []string{"x"}, jobs[1].Dependents)
	require.True(t, jobs[1].Expires.IsZero())
}

func TestAPriorityIsReadWhateverItsSize(t *testing.T) {
	client := offline(t)
	for text, want := range map[string]int{
		"2147483648": 1 << 31, "-2147483649": -1<<31 - 1, "5e9": 5_000_000_000, "9007199254740991": 1<<53 - 1,
		"1.2345678901234568e+17": 123456789012345680, "9.3e18": math.MaxInt, "-1e300": math.MinInt,
		"1.9": 1, "-1.1": -2, "1e400": 0, `"nan"`: 0, `"-inf"`: 0, `"x"`: 0, "false": 0,
	} {
		jobs, err := client.DecodeJobs(`[{"jid":"j","priority":` + text + `}]`)
		require.NoError(t, err, text)
		require.Equal(t, want, jobs[0].Priority, text)

		jobs, err = client.DecodeReserved([]any{
			int64(0), "0", "", int64(2), "jid time priority", []any{"j", "1", strings.Trim(text, `"`)},
		})
		require.NoError(t, err, text)
		require.Equal(t, want, jobs[0].Priority, text)
	}
}

// Scripts call the queue of a put q, except those of reqless 1.0, which call it queue.
func TestTheQueueOfAPutIsReadByEitherName(t *testing.T) {
	client := offline(t)
	for fields, want := range map[string]qless.HistoryEntry{
		`"what":"put","q":"a"`:             {What: "put", Queue: "a"},
		`"what":"put","queue":"a"`:         {What: "put", Queue: "a"},
		`"what":"put","queue":"a","q":"b"`: {What: "put", Queue: "b", Details: map[string]json.RawMessage{"queue": raw(`"a"`)}},
		`"what":"put","queue":{}`:          {What: "put", Details: map[string]json.RawMessage{"queue": raw(`{}`)}},
		`"what":"moved","queue":"a"`:       {What: "moved", Details: map[string]json.RawMessage{"queue": raw(`"a"`)}},
	} {
		jobs, err := client.DecodeJobs(`[{"jid":"j","history":[{` + fields + `}]}]`)
		require.NoError(t, err, fields)
		require.Equal(t, []qless.HistoryEntry{want}, jobs[0].History, fields)
	}
}

func TestEmptyRepliesAreRead(t *testing.T) {
	client := offline(t)
	for _, reply := range []string{"[]", "{}"} {
		jobs, err := client.DecodeJobs(reply)
		require.NoError(t, err)
		require.Empty(t, jobs)
	}
}

func TestRepliesThatCanNotBeReadAreTheServersError(t *testing.T) {
	client := offline(t)
	for _, reply := range []any{nil, int64(1), []any{}, true, "", "x", "[", `[{"jid":]`, `[{"tracked":5}]`} {
		_, err := client.DecodeJobs(reply)
		requireCode(t, qless.ErrServer, err)
	}
}

func TestReservedFieldsAreReadByTheirNames(t *testing.T) {
	c := offline(t)
	head := []any{int64(0), "0", "", int64(2)}
	values := func(values ...any) []any { return values }
	jobs, err := c.DecodeReserved(append(head,
		"new time jid klass tags retries queue", values("?", "1704196800.5", "a", "K", `["x"]`, "5", "q", "more"),
		values(nil, "1704196801", "b", nil)))
	require.NoError(t, err)
	require.Len(t, jobs, 2)
	require.Equal(t, "a", jobs[0].JID)
	require.Equal(t, "K", jobs[0].Klass)
	require.Equal(t, "q", jobs[0].Queue)
	require.Equal(t, qless.Tags{"x"}, jobs[0].Tags)
	require.Equal(t, 5, jobs[0].Retries)
	require.Equal(t, "b", jobs[1].JID)
	require.Empty(t, jobs[1].Klass)
	for _, unreadable := range [][]any{
		{"jid time", "text"}, {"jid time", values("a")}, {"klass time", values("K", "1")}, {nil, values("a")},
	} {
		_, err := c.DecodeReserved(append(head, unreadable...))
		requireCode(t, qless.ErrServer, err)
	}
}
