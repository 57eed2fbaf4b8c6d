package qless_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/wire"
)

// replies are seeds: what scripts reply, and what they never should.
var replies = []string{
	`[{"jid":"j","klass":"K","state":"running","queue":"q","worker":"w","tracked":true,"priority":1,"expires":1704196860.1235,` +
		`"retries":5,"remaining":4,"data":"{\"a\":[1, 2]}","tags":["a","b"],"failure":{"group":"g","message":"m","when":1704196800,"worker":"w"},` +
		`"history":[{"when":1704196800,"what":"put","q":"q"},{"when":1704196801,"what":"note","x":[1]}],` +
		`"dependents":["x"],"dependencies":["y"],"spawned_from_jid":"r"}]`,
	`[{"jid":"j","tags":{},"failure":{},"history":{},"dependents":{},"dependencies":{},"spawned_from_jid":false,"expires":"","remaining":"4.0"}]`,
	`[{"history":[{"put":1,"popped":2,"failed":3,"done":4,"q":"q","worker":"w"},[],null,5,{"what":null,"when":"x"}],"failure":[1],"data":5}]`,
	`{}`, `[]`, `[{}]`, `[null]`, `null`, ``, `[`, `5`, `"x"`, `[[]]`, `{"jobs":{},"total":"7"}`, `[{"jid":1e400}]`,
	`{"run":{"count":1,"mean":1e300,"std":-1,"histogram":[0,1,2.5]},"wait":{"histogram":{}},"failed":"x"}`,
	`{"name":"q","waiting":1,"running":2.9,"stalled":"3","scheduled":null,"depends":false,"recurring":1e99,"paused":true}`,
	`{"jid":"r","interval":60.5,"count":"3","tags":{},"data":"[]","backlog":-1}`, `{"a":1,"b":"2","c":{}}`,
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
			"jid": job.JID, "klass": job.Klass, "state": job.State, "queue": job.Queue, "worker": job.Worker,
			"tracked": job.Tracked, "priority": job.Priority, "expires": seconds(job.Expires), "retries": job.Retries,
			"remaining": job.Remaining, "data": string(job.Data), "tags": job.Tags, "failure": failure, "history": history,
			"dependents": job.Dependents, "dependencies": job.Dependencies, "spawned_from_jid": job.SpawnedFrom,
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
		f.Add("log", reply)
	}
	f.Add("w:w1", `{"jid":"j","event":"lock_lost","worker":"w1"}`)
	f.Add("put", "jid")
	client := offline(f)
	f.Fuzz(func(t *testing.T, channel, reply string) {
		require.Equal(t, qless.DecodeReplies(reply), qless.DecodeReplies(reply))
		event := client.DecodeEvent(client.Namespace()+channel, reply)
		require.Equal(t, event, client.DecodeEvent(client.Namespace()+channel, reply))
	})
}
