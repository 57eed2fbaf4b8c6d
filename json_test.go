package qless_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// jsonOf returns a value as JSON.
func jsonOf(t testing.TB, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	return string(text)
}

// requireJSON requires that a value is written as this JSON, and read from it again.
func requireJSON[T any](t *testing.T, value T, want string) {
	t.Helper()
	text := jsonOf(t, value)
	require.JSONEq(t, want, text)
	var read T
	require.NoError(t, json.Unmarshal([]byte(text), &read))
	require.Equal(t, value, read)
}

func TestJobsAsJSON(t *testing.T) {
	requireJSON(t, qless.Job{}, `{"jid": "", "klass": "", "state": "", "priority": 0, "retries": 0, "remaining": 0,
		"tracked": false}`)
	requireJSON(t, qless.Job{
		Data: raw(`{"n":12345678901234567890}`), Dependencies: []string{"a"}, Dependents: []string{"b"},
		Expires: noon.Add(time.Microsecond),
		Failure: &qless.Failure{Group: "g", Message: "m", When: noon, Worker: "w"},
		History: []qless.HistoryEntry{{When: noon, What: "put", Queue: "q"}},
		JID:     "j", Klass: "K", Priority: -1, Queue: "q", Remaining: 4, Retries: 5, SpawnedFrom: "r",
		State: qless.StateRunning, Tags: []string{"t"}, Tracked: true, Worker: "w1",
	}, `{
		"jid": "j", "klass": "K", "state": "running", "queue": "q", "worker": "w1", "tracked": true, "priority": -1,
		"expires": "2024-01-02T12:00:00.000001Z", "retries": 5, "remaining": 4, "data": {"n": 12345678901234567890},
		"tags": ["t"], "spawned_from_jid": "r", "dependencies": ["a"], "dependents": ["b"],
		"failure": {"group": "g", "message": "m", "when": "2024-01-02T12:00:00Z", "worker": "w"},
		"history": [{"when": "2024-01-02T12:00:00Z", "what": "put", "q": "q"}]
	}`)
	requireJSON(t, qless.Failure{Group: "g", Message: "m"}, `{"group": "g", "message": "m"}`)
	requireJSON(t, qless.HistoryEntry{What: "failed", Worker: "w", Group: "g",
		Details: map[string]json.RawMessage{"n": raw("1")}}, `{"what": "failed", "worker": "w", "group": "g", "details": {"n": 1}}`)
}

func TestRecurringJobsAsJSON(t *testing.T) {
	requireJSON(t, qless.RecurringJob{}, `{"backlog": 0, "count": 0, "interval": 0, "jid": "", "klass": "",
		"priority": 0, "queue": "", "retries": 0}`)
	requireJSON(t, qless.RecurringJob{
		Backlog: 1, Count: 2, Data: raw("[1]"), Interval: 1300 * time.Millisecond, JID: "r", Klass: "K", Priority: 3,
		Queue: "q", Retries: 4, Tags: []string{"t"},
	}, `{"backlog": 1, "count": 2, "data": [1], "interval": 1.3, "jid": "r", "klass": "K", "priority": 3,
		"queue": "q", "retries": 4, "tags": ["t"]}`)
	var read qless.RecurringJob
	require.Error(t, json.Unmarshal([]byte(`{"interval": "soon"}`), &read))
}

func TestPutReturnsTheJIDWithAnError(t *testing.T) {
	jid, err := offline(t).Queue("q").Put(t.Context(), "K", nil)
	requireCode(t, qless.ErrUnavailable, err)
	require.Len(t, jid, 32)
	jid, err = offline(t).Queue("q").Recur(t.Context(), "K", nil, time.Hour)
	requireCode(t, qless.ErrUnavailable, err)
	require.Len(t, jid, 32)
}
