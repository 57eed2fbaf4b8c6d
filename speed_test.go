package qless_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// The benchmarks of this file measure the client's own work for a call, without a server: go test
// -run - -bench Client -benchmem

// answered returns a client whose calls are answered at once, without a connection.
func answered(b *testing.B) *qless.Client {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	b.Cleanup(func() { _ = rdb.Close() })
	rdb.AddHook(answering{})
	client, err := qless.New(rdb, &qless.ClientConfig{Logger: testkit.Quiet()})
	require.NoError(b, err)
	return client
}

type answering struct{ passing }

func (answering) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return nil }
}

var benchData = raw(`{"user":1234,"text":"some text of a usual length","list":[1,2,3]}`)

func BenchmarkClientPut(b *testing.B) {
	options := []qless.PutOption{qless.Priority(5), qless.Tags{"a", "b"}, qless.Retries(3)}
	for _, c := range []struct {
		name    string
		data    any
		options []qless.PutOption
	}{
		{"plain", benchData, nil},
		{"struct", struct{ User int }{1234}, nil},
		{"options", benchData, options},
	} {
		b.Run(c.name, func(b *testing.B) {
			q := answered(b).Queue("q")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := q.Put(b.Context(), "K", c.data, c.options...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkClientPutMany(b *testing.B) {
	q := answered(b).Queue("q")
	jobs := make([]qless.JobSpec, 100)
	for i := range jobs {
		jobs[i] = qless.JobSpec{Klass: "K", Data: benchData}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := q.PutMany(b.Context(), jobs); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkClientDecodeReserved(b *testing.B) {
	reply := []any{int64(0), "0", "", int64(2),
		"jid klass queue priority retries remaining data spawned_from_jid tags failure time " +
			"heartbeat put_at"}
	for i := range 16 {
		reply = append(reply, []any{
			fmt.Sprintf("%032d", i), "K", "q", "0", "5", "5", string(benchData), "", "[]", "",
			"1704196800.123456", "60", "1704196799.123456",
		})
	}
	client := offline(b)
	b.ReportAllocs()
	for b.Loop() {
		if jobs, err := client.DecodeReserved(reply); err != nil || len(jobs) != 16 {
			b.Fatal(err)
		}
	}
}

func BenchmarkClientDecodeJobs(b *testing.B) {
	one := map[string]any{
		"jid": fmt.Sprintf("%032d", 1), "klass": "K", "state": "running", "queue": "q",
		"worker": "w", "tracked": false, "priority": 0, "expires": 1704196860, "retries": 5,
		"remaining": 5, "data": string(benchData), "tags": []string{"a"}, "failure": map[string]any{},
		"history": []any{
			map[string]any{"what": "put", "when": 1704196800, "q": "q"},
			map[string]any{"what": "popped", "when": 1704196801, "worker": "w"},
		},
		"dependents": map[string]any{}, "dependencies": map[string]any{},
	}
	text, err := json.Marshal([]any{one, one, one, one, one, one, one, one, one, one})
	require.NoError(b, err)
	client, reply := offline(b), string(text)
	b.ReportAllocs()
	for b.Loop() {
		if jobs, err := client.DecodeJobs(reply); err != nil || len(jobs) != 10 {
			b.Fatal(err)
		}
	}
}

// A client without an observer is as cheap as if there were no observers.
func TestNoObserverCostsNothing(t *testing.T) {
	client := offline(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	args := []any{"q"}
	without := testing.AllocsPerRun(100, func() { _, _ = client.Send(ctx, "length", "", args) })
	with := testing.AllocsPerRun(100, func() { _, _ = client.Run(ctx, "length", "", args...) })
	require.LessOrEqual(t, with, without)
}
