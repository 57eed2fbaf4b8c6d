package qless_test

import (
	"encoding/json"
	"errors"
	"strings"
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

// FuzzPut puts a job of anything: it is refused, and nothing written, or it reads back equal.
func FuzzPut(f *testing.F) {
	f.Add("q", "K", "j", `{"a": 1}`, int64(0), 0, 5, "a,b")
	f.Add("", "", "", "", int64(-1), -1, -1, "")
	f.Add("q\x00", "\u2028", "all", `[ ]`, int64(1), 1<<31-1, 0, "a,a,é,%s")
	f.Add("*", "a\nb", "j-history", `"\ud800"`, int64(time.Hour), -1<<31, 1<<31-1, "null,\xff")
	f.Add("{tag}", `"`, `\`, `12345678901234567890`, int64(1<<62), 1<<31, 1<<31, `"],["`)
	f.Add("q", "K", "j", strings.Repeat("[", 1100)+strings.Repeat("]", 1100), int64(0), 0, 5, "-")
	f.Add("q", "K", "j", `{"\u0000":"\u0000\n","a":[1e400,-0,1.0]}`, int64(0), 0, 5, "\x00")
	e := newEnv(f)
	f.Fuzz(func(t *testing.T, queue, klass, jid, data string, delay int64, priority, retries int, tags string) {
		require.NoError(t, e.rdb.FlushDB(t.Context()).Err())
		options := []qless.PutOption{
			qless.JID(jid), qless.Delay(time.Duration(delay)), qless.Priority(priority), qless.Retries(retries),
		}
		var list []string
		if tags != "" {
			list = strings.Split(tags, ",")
			options = append(options, qless.Tags(list...))
		}
		jid, err := e.Queue(queue).Put(t.Context(), klass, raw(data), options...)
		if err != nil {
			require.True(t, errors.Is(err, qless.ErrInvalid), "%v", err)
			require.Zero(t, e.rdb.DBSize(t.Context()).Val())
			return
		}
		job, err := e.Job(t.Context(), jid)
		require.NoError(t, err)
		require.Equal(t, jid, job.JID)
		require.Equal(t, queue, job.Queue)
		require.Equal(t, klass, job.Klass)
		require.Equal(t, data, string(job.Data))
		require.Equal(t, priority, job.Priority)
		require.Equal(t, retries, job.Retries)
		require.Equal(t, retries, job.Remaining)
		require.Equal(t, list, job.Tags)
		require.Equal(t, queue, job.History[0].Queue)
		if delay > 0 {
			require.Equal(t, qless.StateScheduled, job.State)
			return
		}
		popped, err := e.Queue(queue).Pop(t.Context(), 1)
		require.NoError(t, err)
		require.Len(t, popped, 1)
		require.NoError(t, popped[0].Complete(t.Context()))
		require.Equal(t, data, string(popped[0].Data))
	})
}
