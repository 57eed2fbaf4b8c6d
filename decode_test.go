package qless_test

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/wire"
)

func TestRepliesOfTheStockScriptsAreRead(t *testing.T) {
	client := offline(t)
	jobs, err := client.DecodeJobs(`[{
		"jid":"j","klass":"K","state":"running","queue":"q","worker":"","tracked":false,"priority":0,
		"expires":1704196800.75,"retries":5,"remaining":-1,"data":"{}","tags":{},
		"dependents":{},"dependencies":{},"failure":{"group":"g","message":"m","when":1704196800.25,
			"worker":""},
		"history":[{"when":1704196800,"what":"put","q":"q"},{"what":"note","when":1.5,"data":[1, 2]}],
		"spawned_from_jid":false,"unknown":[{}]
	},{"jid":"k","tags":["a",5,null],"failure":{},"history":{},"worker":false,"queue":false,
		"expires":"","priority":"7","spawned_from_jid":"parent","dependents":["x"]}]`)
	require.NoError(t, err)
	require.Len(t, jobs, 2)

	require.Equal(t, qless.StateRunning, jobs[0].State)
	require.Equal(t, -1, jobs[0].Remaining)
	require.Equal(t, noon.Add(750*time.Millisecond).Local(), jobs[0].Expires)
	failed := noon.Add(250 * time.Millisecond).Local()
	require.Equal(t, &qless.Failure{Group: "g", Message: "m", When: failed}, jobs[0].Failure)
	require.Empty(t, jobs[0].Tags)
	require.Empty(t, jobs[0].Dependents)
	require.Empty(t, jobs[0].SpawnedFrom)
	require.Equal(t, []qless.HistoryEntry{
		{When: noon.Local(), What: "put", Queue: "q"},
		{When: time.Unix(1, 500_000_000), What: "note", Details: details("data", "[1, 2]")},
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

// details returns the details of an entry of the history with one member.
func details(name, text string) map[string]json.RawMessage {
	return map[string]json.RawMessage{name: raw(text)}
}

func TestAPriorityIsReadWhateverItsSize(t *testing.T) {
	client := offline(t)
	for text, want := range map[string]int{
		"2147483648": 1 << 31, "-2147483649": -1<<31 - 1, "5e9": 5_000_000_000,
		"9007199254740991": 1<<53 - 1, "1.2345678901234568e+17": 123456789012345680,
		"9.3e18": math.MaxInt, "-1e300": math.MinInt, "1.9": 1, "-1.1": -2, "1e400": 0,
		`"nan"`: 0, `"-inf"`: 0, `"x"`: 0, "false": 0,
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

// Scripts call the queue of a put q, except for reqless 1.0, which calls it queue.
func TestTheQueueOfAPutIsReadByEitherName(t *testing.T) {
	client := offline(t)
	for fields, want := range map[string]qless.HistoryEntry{
		`"what":"put","q":"a"`:             {What: "put", Queue: "a"},
		`"what":"put","queue":"a"`:         {What: "put", Queue: "a"},
		`"what":"put","queue":"a","q":"b"`: {What: "put", Queue: "b", Details: details("queue", `"a"`)},
		`"what":"put","queue":{}`:          {What: "put", Details: details("queue", `{}`)},
		`"what":"moved","queue":"a"`:       {What: "moved", Details: details("queue", `"a"`)},
	} {
		jobs, err := client.DecodeJobs(`[{"jid":"j","history":[{` + fields + `}]}]`)
		require.NoError(t, err, fields)
		require.Equal(t, []qless.HistoryEntry{want}, jobs[0].History, fields)
	}
}

// A job that is popped alone has the entries of its history as they are stored.
func TestStoredEntriesOfAHistoryAreRead(t *testing.T) {
	stored := `[1704196800,"put",{"q":"q"}],[1704196801,"done"],[1704196802,"note",5],[1704196803],` +
		`[null,"odd",null]`
	jobs, err := offline(t).DecodeJobs(`[{"jid":"j","history":[` + stored + `]}]`)
	require.NoError(t, err)
	at := time.Unix(1704196800, 0)
	require.Equal(t, []qless.HistoryEntry{
		{When: at, What: "put", Queue: "q"},
		{When: at.Add(time.Second), What: "done"},
		{When: at.Add(2 * time.Second), What: "note", Details: details("data", "5")},
		{What: "odd"},
	}, jobs[0].History)
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
	for _, reply := range []any{
		nil, int64(1), []any{}, true, "", "x", "[", `[{"jid":]`, `[{"tracked":5}]`,
	} {
		_, err := client.DecodeJobs(reply)
		requireCode(t, qless.ErrServer, err)
	}
}

func TestReservedFieldsAreReadByTheirNames(t *testing.T) {
	c := offline(t)
	head := []any{int64(0), "0", "", int64(2)}
	values := func(values ...any) []any { return values }
	jobs, err := c.DecodeReserved(append(head,
		"new time jid klass tags retries queue",
		values("?", "1704196800.5", "a", "K", `["x"]`, "5", "q", "more"),
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
		{"jid time", "text"}, {"jid time", values("a")}, {"klass time", values("K", "1")},
		{nil, values("a")},
	} {
		_, err := c.DecodeReserved(append(head, unreadable...))
		requireCode(t, qless.ErrServer, err)
	}
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
	requireJSON(t, qless.Job{}, `{"jid": "", "klass": "", "state": "", "priority": 0, "attempt": 0,
		"retries": 0, "remaining": 0, "tracked": false}`)
	requireJSON(t, qless.Job{
		Attempt: 2, PoppedAt: noon, Data: raw(`{"n":12345678901234567890}`),
		Dependencies: []string{"a"}, Dependents: []string{"b"}, Expires: noon.Add(time.Microsecond),
		Failure: &qless.Failure{Group: "g", Message: "m", When: noon, Worker: "w"},
		History: []qless.HistoryEntry{{When: noon, What: "put", Queue: "q"}},
		JID:     "j", Klass: "K", Priority: -1, Queue: "q", Remaining: 4, Retries: 5, SpawnedFrom: "r",
		State: qless.StateRunning, Tags: []string{"t"}, Tracked: true, Worker: "w1",
	}, `{
		"jid": "j", "klass": "K", "state": "running", "queue": "q", "worker": "w1", "tracked": true,
		"priority": -1, "expires": "2024-01-02T12:00:00.000001Z", "attempt": 2, "retries": 5,
		"remaining": 4, "popped_at": "2024-01-02T12:00:00Z", "data": {"n": 12345678901234567890},
		"tags": ["t"], "spawned_from_jid": "r", "dependencies": ["a"], "dependents": ["b"],
		"failure": {"group": "g", "message": "m", "when": "2024-01-02T12:00:00Z", "worker": "w"},
		"history": [{"when": "2024-01-02T12:00:00Z", "what": "put", "queue": "q"}]
	}`)
	requireJSON(t, qless.Failure{Group: "g", Message: "m"}, `{"group": "g", "message": "m"}`)
	requireJSON(t,
		qless.HistoryEntry{What: "failed", Worker: "w", Group: "g", Details: details("n", "1")},
		`{"what": "failed", "worker": "w", "group": "g", "details": {"n": 1}}`)
}

func TestRecurringJobsAsJSON(t *testing.T) {
	requireJSON(t, qless.RecurringJob{}, `{"backlog": 0, "count": 0, "interval": "0s", "jid": "",
		"klass": "", "priority": 0, "queue": "", "retries": 0}`)
	requireJSON(t, qless.RecurringJob{
		Backlog: 1, Count: 2, Data: raw("[1]"), Interval: 1300 * time.Millisecond, JID: "r",
		Klass: "K", Priority: 3, Queue: "q", Retries: 4, Tags: []string{"t"},
	}, `{"backlog": 1, "count": 2, "data": [1], "interval": "1.3s", "jid": "r", "klass": "K",
		"priority": 3, "queue": "q", "retries": 4, "tags": ["t"]}`)
	var read qless.RecurringJob
	require.Error(t, json.Unmarshal([]byte(`{"interval": "soon"}`), &read))
}

func TestSettingsOfAQueueAsJSON(t *testing.T) {
	requireJSON(t, qless.QueueSettings{},
		`{"heartbeat": "0s", "max_concurrency": 0, "max_rate": 0, "per": "0s"}`)
	requireJSON(t, qless.QueueSettings{
		Heartbeat: 1500 * time.Millisecond, MaxConcurrency: 2, MaxRate: 3, Per: time.Minute,
		NextStart: noon,
	}, `{"heartbeat": "1.5s", "max_concurrency": 2, "max_rate": 3, "per": "1m",
		"next_start": "2024-01-02T12:00:00Z"}`)
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
			`"wait":{"count":1,"mean":"1.500001s","std":"250ms","histogram":[{"from":"1s","to":"2s","count":1}]},` +
			`"run":{"count":0,"mean":"0s","std":"0s","histogram":[]}}`: qless.Stats{
			Failed: 1, Failures: 2, Retries: 3,
			Wait: qless.Summary{
				Count: 1, Mean: 1500001 * time.Microsecond, Std: 250 * time.Millisecond,
				Histogram: []qless.Bucket{{From: time.Second, To: 2 * time.Second, Count: 1}},
			},
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

// replies are seeds: replies of scripts, and replies that they should never give.
var replies = []string{
	`[{"jid":"j","klass":"K","state":"running","queue":"q","worker":"w","tracked":true,` +
		`"priority":1,"expires":1704196860.1235,"retries":5,"remaining":4,"data":"{\"a\":[1, 2]}",` +
		`"tags":["a","b"],"failure":{"group":"g","message":"m","when":1704196800,"worker":"w"},` +
		`"history":[{"when":1704196800,"what":"put","q":"q"},` +
		`{"when":1704196801,"what":"note","x":[1]}],` +
		`"dependents":["x"],"dependencies":["y"],"spawned_from_jid":"r"}]`,
	`[{"jid":"j","tags":{},"failure":{},"history":{},"dependents":{},"dependencies":{},` +
		`"spawned_from_jid":false,"expires":"","remaining":"4.0"}]`,
	`[{"history":[{"put":1,"popped":2,"failed":3,"done":4,"q":"q","worker":"w"},` +
		`[],null,5,{"what":null,"when":"x"}],"failure":[1],"data":5}]`,
	`{}`, `[]`, `[{}]`, `[null]`, `null`, ``, `[`, `5`, `"x"`, `[[]]`,
	`{"jobs":{},"total":"7"}`, `[{"jid":1e400}]`,
	`{"run":{"count":1,"mean":1e300,"std":-1,"histogram":[0,1,2.5]},` +
		`"wait":{"histogram":{}},"failed":"x"}`,
	`{"name":"q","waiting":1,"running":2.9,"stalled":"3","scheduled":null,"depends":false,` +
		`"recurring":1e99,"paused":true}`,
	`{"jid":"r","interval":60.5,"count":"3","tags":{},"data":"[]","backlog":-1}`,
	`{"a":1,"b":"2","c":{}}`,
}

func FuzzDecodeJobs(f *testing.F) {
	for _, reply := range replies {
		f.Add(reply)
	}
	client := offline(f)
	f.Fuzz(func(t *testing.T, reply string) {
		jobs, err := client.DecodeJobs(reply)
		if err != nil {
			requireCode(t, qless.ErrServer, err)
			return
		}
		for _, job := range jobs {
			for _, entry := range job.History {
				for name, value := range entry.Details { // as they come out of encodeJobs
					entry.Details[name], err = json.Marshal(value)
					require.NoError(t, err)
				}
			}
		}
		again, err := client.DecodeJobs(encodeJobs(t, jobs))
		require.NoError(t, err)
		require.Equal(t, jobs, again)
	})
}

// encodeJobs writes jobs as the scripts do.
func encodeJobs(t *testing.T, jobs []*qless.Job) string {
	all := []any{}
	for _, job := range jobs {
		history := []any{}
		for _, entry := range job.History {
			item := map[string]any{"when": seconds(entry.When), "what": entry.What, "q": entry.Queue,
				"worker": entry.Worker, "group": entry.Group}
			for name, value := range entry.Details {
				item[name] = value
			}
			history = append(history, item)
		}
		failure := map[string]any{}
		if job.Failure != nil {
			failure = map[string]any{"group": job.Failure.Group, "message": job.Failure.Message,
				"when": seconds(job.Failure.When), "worker": job.Failure.Worker}
		}
		all = append(all, map[string]any{
			"jid": job.JID, "klass": job.Klass, "state": job.State, "queue": job.Queue,
			"worker": job.Worker, "tracked": job.Tracked, "priority": job.Priority,
			"expires": seconds(job.Expires), "retries": job.Retries, "remaining": job.Remaining,
			"data": string(job.Data), "tags": job.Tags, "failure": failure, "history": history,
			"dependents": job.Dependents, "dependencies": job.Dependencies,
			"spawned_from_jid": job.SpawnedFrom,
		})
	}
	text, err := json.Marshal(all)
	require.NoError(t, err)
	return string(text)
}

// seconds writes a time as the scripts do.
func seconds(at time.Time) json.RawMessage {
	if at.IsZero() {
		return raw("0")
	}
	return raw(wire.FormatTime(at))
}

func FuzzDecodeOtherReplies(f *testing.F) {
	for _, reply := range replies {
		f.Add(reply)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		require.Equal(t, qless.DecodeReplies(reply), qless.DecodeReplies(reply))
	})
}
