package qless_test

import (
	"encoding/json"
	"reflect"
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
	requireJSON(t, qless.Job{}, `{"jid": "", "klass": "", "state": "", "priority": 0, "attempt": 0, "retries": 0, "remaining": 0,
		"tracked": false}`)
	requireJSON(t, qless.Job{
		Attempt: 2, PoppedAt: noon, Data: raw(`{"n":12345678901234567890}`), Dependencies: []string{"a"}, Dependents: []string{"b"},
		Expires: noon.Add(time.Microsecond),
		Failure: &qless.Failure{Group: "g", Message: "m", When: noon, Worker: "w"},
		History: []qless.HistoryEntry{{When: noon, What: "put", Queue: "q"}},
		JID:     "j", Klass: "K", Priority: -1, Queue: "q", Remaining: 4, Retries: 5, SpawnedFrom: "r",
		State: qless.StateRunning, Tags: []string{"t"}, Tracked: true, Worker: "w1",
	}, `{
		"jid": "j", "klass": "K", "state": "running", "queue": "q", "worker": "w1", "tracked": true, "priority": -1,
		"expires": "2024-01-02T12:00:00.000001Z", "attempt": 2, "retries": 5, "remaining": 4,
		"popped_at": "2024-01-02T12:00:00Z", "data": {"n": 12345678901234567890},
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

func TestSettingsOfAQueueAsJSON(t *testing.T) {
	requireJSON(t, qless.QueueSettings{}, `{"heartbeat": 0, "max_concurrency": 0, "max_rate": 0, "per": 0}`)
	requireJSON(t, qless.QueueSettings{
		Heartbeat: 1500 * time.Millisecond, MaxConcurrency: 2, MaxRate: 3, Per: time.Minute, NextStart: noon,
	}, `{"heartbeat": 1.5, "max_concurrency": 2, "max_rate": 3, "per": 60, "next_start": "2024-01-02T12:00:00Z"}`)
	var read qless.QueueSettings
	require.Error(t, json.Unmarshal([]byte(`{"per": "soon"}`), &read))
}

func TestPutReturnsTheJIDWithAnError(t *testing.T) {
	jid, err := offline(t).Queue("q").Put(t.Context(), "K", nil)
	requireCode(t, qless.ErrUnavailable, err)
	require.Len(t, jid, 32)
	jid, err = offline(t).Queue("q").Recur(t.Context(), "K", nil, time.Hour)
	requireCode(t, qless.ErrUnavailable, err)
	require.Len(t, jid, 32)
}

func TestJSONOfWhatIsRead(t *testing.T) {
	for text, value := range map[string]any{
		`{"name":"q","waiting":1,"running":2,"stalled":3,"scheduled":4,"depends":5,"recurring":6,` +
			`"paused":true}`: qless.QueueCounts{
			Name: "q", Waiting: 1, Running: 2, Stalled: 3, Scheduled: 4, Depends: 5, Recurring: 6,
			Paused: true,
		},
		`{"expired":0,"failed":1,"failures":2,"retries":3,` +
			`"wait":{"count":1,"mean":1.500001,"std":0.25,"histogram":[{"from":1,"to":2,"count":1}]},` +
			`"run":{"count":0,"mean":0,"std":0,"histogram":[]}}`: qless.Stats{
			Failed: 1, Failures: 2, Retries: 3,
			Wait: qless.Summary{
				Count: 1, Mean: 1500001 * time.Microsecond, Std: 250 * time.Millisecond,
				Histogram: []qless.Bucket{{From: time.Second, To: 2 * time.Second, Count: 1}},
			},
		},
		`{"event":"gap"}`: qless.Event{Kind: qless.EventGap},
		`{"event":"failed","tracked":true,"jid":"j","queue":"q","to":"r","worker":"w","group":"g",` +
			`"message":"m","option":"o","value":"v"}`: qless.Event{
			Kind: qless.EventFailed, Tracked: true, JID: "j", Queue: "q", To: "r", Worker: "w",
			Group: "g", Message: "m", Option: "o", Value: "v",
		},
	} {
		written, err := json.Marshal(value)
		require.NoError(t, err)
		require.Equal(t, text, string(written))
		read := reflect.New(reflect.TypeOf(value))
		require.NoError(t, json.Unmarshal(written, read.Interface()))
		require.Equal(t, value, read.Elem().Interface(), "what is read again")
	}
}
