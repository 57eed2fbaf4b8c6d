package inspect_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

func TestJSON(t *testing.T) {
	noon := time.Date(2024, 1, 2, 12, 0, 0, 0, time.UTC)
	for text, value := range map[string]any{
		`{"name":"w","jobs":1,"stalled":2}`: inspect.WorkerStatus{Name: "w", Jobs: 1, Stalled: 2},
		`{"items":["a","b"],"total":7}`:     inspect.Page[string]{Items: []string{"a", "b"}, Total: 7},
		`{"changed":2,"unchanged":1,"reasons":{"j":{"op":"cancel","code":"finished","jid":"j","message":"m"}}}`: inspect.Repair{
			Changed: 2, Unchanged: 1, Reasons: map[string]*qless.Error{
				"j": {Op: "cancel", Code: qless.ErrFinished, JID: "j", Message: "m"},
			},
		},
		`{"jid":"r","klass":"K","queue":"q","priority":1,"retries":5,"remaining":0,` +
			`"due":"2024-01-02T12:00:00Z","is_due":true,"parked":"shop","data_size":2,"data":"{}",` +
			`"interval":"1.5s"}`: inspect.Row{
			JID: "r", Klass: "K", Queue: "q", Priority: 1, Retries: 5, Due: noon, IsDue: true,
			Parked: "shop", DataSize: 2, Data: "{}", Interval: 1500 * time.Millisecond,
		},
		`{"name":"q","waiting":0,"running":0,"stalled":0,"scheduled":0,"depends":0,"recurring":0,` +
			`"paused":false,"max_concurrency":0,"oldest":"1m30s"}`: inspect.QueueOverview{
			QueueCounts: qless.QueueCounts{Name: "q"}, Oldest: 90 * time.Second,
		},
		`{"oldest":"1.5s","by_priority":[{"priority":3,"oldest":"1.5s"}]}`: inspect.Latency{
			Oldest:     1500 * time.Millisecond,
			ByPriority: []inspect.PriorityLatency{{Priority: 3, Oldest: 1500 * time.Millisecond}},
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
