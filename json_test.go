package qless_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func TestJSONOfWhatIsRead(t *testing.T) {
	for text, value := range map[string]any{
		`{"name":"q","waiting":1,"running":2,"stalled":3,"scheduled":4,"depends":5,"recurring":6,` +
			`"paused":true}`: qless.QueueCounts{
			Name: "q", Waiting: 1, Running: 2, Stalled: 3, Scheduled: 4, Depends: 5, Recurring: 6,
			Paused: true,
		},
		`{"name":"w","jobs":1,"stalled":2}`: qless.WorkerCounts{Name: "w", Jobs: 1, Stalled: 2},
		`{"jobs":["a"],"stalled":[]}`:       qless.WorkerJobs{Jobs: []string{"a"}, Stalled: []string{}},
		`{"items":["a","b"],"total":7}`:     qless.Page[string]{Items: []string{"a", "b"}, Total: 7},
		`{"failed":1,"failures":2,"retries":3,` +
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
