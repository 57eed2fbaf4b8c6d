package api

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/tests/repairs"
)

// oddData is data that Lua accepts and Go does not. Other clients may put it.
var oddData = []string{
	`{"a": NaN}`, `{"a": [-Infinity, 0x10]}`, "{\"a\": \"x\ny\x01\"}",
}

// oddJob returns a running job with data from another client.
func (e *env) oddJob(data string) *qless.Job {
	e.T.Helper()
	jid := e.Put("q")
	require.NoError(e.T, e.Redis.HSet(e.T.Context(), "ql:j:"+jid, "data", data).Err())
	job := e.Pop("q")
	require.Equal(e.T, jid, job.JID)
	require.Equal(e.T, data, string(job.Data))
	return job
}

// Jobs are changed in every way, and their data stays the same.
func TestOddData(t *testing.T) {
	e := newEnv(t)
	for name, change := range map[string]func(ctx context.Context, job *qless.Job) error{
		"complete":  func(ctx context.Context, job *qless.Job) error { return job.Complete(ctx) },
		"heartbeat": func(ctx context.Context, job *qless.Job) error { return errOf(job.Heartbeat(ctx)) },
		"retry":     func(ctx context.Context, job *qless.Job) error { return errOf(job.Retry(ctx, 0, "", "")) },
		"release":   func(ctx context.Context, job *qless.Job) error { return job.Release(ctx, 0) },
		"fail":      func(ctx context.Context, job *qless.Job) error { return job.Fail(ctx, "g", "m") },
		"next":      func(ctx context.Context, job *qless.Job) error { return job.Next(ctx, "r") },
		"move":      func(ctx context.Context, job *qless.Job) error { return job.Move(ctx, "r") },
		"timeout":   func(ctx context.Context, job *qless.Job) error { return repairs.TimeOut(ctx, e.Client, job.JID) },
		"many": func(ctx context.Context, job *qless.Job) error {
			return errOf(e.inspect().JIDs(job.JID).Move(ctx, "r"))
		},
		"again": func(ctx context.Context, job *qless.Job) error {
			if err := e.Cancel(ctx, job.JID); err != nil {
				return err
			}
			return errOf(e.Queue("r").PutMany(ctx, []qless.JobSpec{job.Spec()}))
		},
		"edited": func(ctx context.Context, job *qless.Job) error {
			if err := job.SetData(map[string]int{"a": 1}); err != nil {
				return err
			}
			return job.Complete(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, data := range oddData {
				job := e.oddJob(data)
				require.NoError(t, change(t.Context(), job), "%q", data)
				want := data
				if name == "edited" {
					want = `{"a":1}`
				}
				require.Equal(t, want, e.Redis.HGet(t.Context(), "ql:j:"+job.JID, "data").Val())
				require.NoError(t, e.Redis.FlushDB(t.Context()).Err())
			}
		})
	}
}

func TestOddDataOfOurs(t *testing.T) {
	e := newEnv(t)
	for _, data := range oddData {
		job := e.oddJob(`{"a": NaN}`)
		job.Data = json.RawMessage(data + " ") // differs from the data that was read
		requireCode(t, qless.ErrInvalid, job.Complete(t.Context()))
		requireCode(t, qless.ErrInvalid, job.Move(t.Context(), "r"))
		require.IsType(t, json.RawMessage{}, job.Spec().Data)
	}
}

func TestOddDataAsJSON(t *testing.T) {
	e := newEnv(t)
	for _, data := range oddData {
		job := e.oddJob(data)
		text, err := json.Marshal([]*qless.Job{job})
		require.NoError(t, err, "%q", data)
		require.True(t, json.Valid(text))
		var read []qless.Job
		require.NoError(t, json.Unmarshal(text, &read))
		require.Equal(t, job.JID, read[0].JID)
		_, err = e.Queue("q").Recur(t.Context(), "K", nil, time.Hour, qless.JID("ticks"))
		require.NoError(t, err)
		require.NoError(t, e.Redis.HSet(t.Context(), "ql:r:ticks", "data", data).Err())
		require.NoError(t, errOf(json.Marshal(*must(e.RecurringJob(t.Context(), "ticks"))(t))))
		require.NoError(t, e.Redis.FlushDB(t.Context()).Err())
	}
}
