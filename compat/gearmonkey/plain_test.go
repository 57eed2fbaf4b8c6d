package gearmonkey_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/compat/gearmonkey"
)

// Plain commands, as the specification lists them, act as a client of our worker.
func TestPlainClientOfOurWorker(t *testing.T) {
	e := newEnv(t)
	worker := e.worker(func(ctx context.Context, job *gearmonkey.Job) ([]byte, error) {
		if string(job.Input) == "bad" {
			return nil, errors.New("refused")
		}
		return append([]byte("did-"), job.Input...), job.Update(ctx, 1, 2)
	})
	stop := e.background(worker)
	e.eventually(func() bool { return e.cli("GET count:F") == "1" })
	subscription := e.rdb.Subscribe(t.Context(), "channel:F")
	defer subscription.Close()
	_, err := subscription.Receive(t.Context())
	require.NoError(t, err)

	for i, c := range []struct{ input, queue, status, output string }{
		{"a", "LPUSH queue:F:high", "success", "did-a"},
		{"b", "LPUSH queue:F:normal", "success", "did-b"},
		{"c", "LPUSH queue:F:low", "success", "did-c"},
		{"d", "ZADD queue:F:scheduled 1700000000", "success", "did-d"},
		{"bad", "LPUSH queue:F:normal", "error", "refused"},
	} {
		id := strconv.Itoa(i + 1)
		require.EqualValues(t, i+1, e.cli("INCR uid:F"))
		require.Equal(t, "OK", e.cli("HMSET job:F:"+id+" status idle input "+c.input))
		require.EqualValues(t, 1, e.cli("PUBLISH channel:F create:"+id))
		require.EqualValues(t, 1, e.cli(c.queue+" "+id))
		got, err := e.rdb.BRPop(t.Context(), patience, "lock:F:"+id).Result()
		require.NoError(t, err)
		require.Equal(t, []string{"lock:F:" + id, "OK"}, got)
		want := map[string]string{"status": c.status, "input": c.input, "output": c.output}
		if c.status == "success" {
			want["status:dividend"], want["status:divisor"] = "1", "2"
		}
		require.Equal(t, want, e.rdb.HGetAll(t.Context(), "job:F:"+id).Val())
		for _, kind := range []string{"create:", "start:", "finish:"} {
			message, err := subscription.ReceiveMessage(t.Context())
			require.NoError(t, err)
			require.Equal(t, kind+id, message.Payload)
		}
	}
	stop()
	require.Equal(t, "0", e.cli("GET count:F"))
}

// Plain commands, as the specification lists them, act as a worker of our client.
func TestPlainWorkerOfOurClient(t *testing.T) {
	e := newEnv(t)
	require.Equal(t, specSHA, e.rdb.Do(t.Context(), "SCRIPT", "LOAD", specText).Val())
	require.EqualValues(t, 1, e.cli("INCR count:F"))
	events, err := e.Events(t.Context(), "F")
	require.NoError(t, err)
	defer events.Close()

	for i, c := range []struct {
		option gearmonkey.RunOption
		queue  string
		status gearmonkey.Status
	}{
		{gearmonkey.High, "queue:F:high", gearmonkey.StatusSuccess},
		{gearmonkey.Normal, "queue:F:normal", gearmonkey.StatusError},
		{gearmonkey.Low, "queue:F:low", gearmonkey.StatusSuccess},
		{gearmonkey.At(now), "queue:F:scheduled", gearmonkey.StatusSuccess},
	} {
		ran := make(chan error, 1)
		go func() {
			_, err := e.Run(context.Background(), "F", []byte("in"), c.option, gearmonkey.RollCall(), gearmonkey.Blocking(patience))
			ran <- err
		}()
		wantID := int64(i + 1)
		id := formatID(wantID)
		require.Equal(t, gearmonkey.Event{Kind: "create", Function: "F", ID: wantID}, receive(t, events.C(), "create"))
		e.awaitBlocked(1)

		item := e.cli("EVALSHA " + specSHA + " 1 queue:F:scheduled 1700000000")
		if item == nil {
			item = e.cli("BRPOP queue:F:high queue:F:normal queue:F:low 1")
		}
		require.Equal(t, []any{c.queue, id}, item)
		require.EqualValues(t, 1, e.cli("PUBLISH channel:F start:"+id))
		e.cli("HMSET job:F:" + id + " status busy")
		require.Equal(t, gearmonkey.EventStart, receive(t, events.C(), "start").Kind)
		require.Equal(t, gearmonkey.StatusBusy, e.state("F", wantID).Status)
		require.Equal(t, "in", e.cli("HGET job:F:"+id+" input"))
		e.cli("HMSET job:F:" + id + " status:dividend 3 status:divisor 4")
		require.Equal(t, 0.75, e.state("F", wantID).Progress())

		e.cli("HMSET job:F:" + id + " status " + string(c.status) + " output out")
		require.EqualValues(t, 1, e.cli("EXPIRE job:F:"+id+" 90000"))
		require.EqualValues(t, 1, e.cli("PUBLISH channel:F finish:"+id))
		require.EqualValues(t, 1, e.cli("LPUSH lock:F:"+id+" OK"))
		e.cli("EXPIRE lock:F:" + id + " 10")
		require.NoError(t, receive(t, ran, "the end of the run"))
		require.Equal(t, gearmonkey.EventFinish, receive(t, events.C(), "finish").Kind)
		state := e.state("F", wantID)
		require.Equal(t, c.status, state.Status)
		require.Equal(t, "out", string(state.Output))
	}

	require.EqualValues(t, 0, e.cli("DECR count:F"))
	_, err = e.Run(t.Context(), "F", nil, gearmonkey.RollCall(), gearmonkey.Blocking(time.Second))
	requireCode(t, gearmonkey.ErrNoWorkers, err)
}

func formatID(id int64) string { return strconv.FormatInt(id, 10) }
