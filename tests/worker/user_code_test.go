package worker

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

type hostileError struct{ text *string }

func (h *hostileError) Error() string { return *h.text }

func (h *hostileError) Is(error) bool { panic("Is") }

type hostileLog struct{ slog.Handler }

func (hostileLog) Handle(context.Context, slog.Record) error { panic("the log") }

type hostileCodec struct{}

func (hostileCodec) Name() string { return "hostile" }

func (hostileCodec) Encode(string, []byte) ([]byte, string, error) { return []byte("x"), "", nil }

func (hostileCodec) Decode(string, []byte) ([]byte, error) { panic("Decode") }

// Users' functions may panic in the worker's own goroutines.
func TestNoCodeOfAUserEndsTheProgram(t *testing.T) {
	e := newLiveEnv(t)
	w := e.workerAt(e.Server.Addr(), qless.WorkerConfig{
		Observer: func(qless.JobEvent) { panic("the observer") },
		Logger:   slog.New(hostileLog{slog.DiscardHandler}),
	}, qless.ClientConfig{
		Codec:    hostileCodec{},
		Logger:   slog.New(hostileLog{slog.DiscardHandler}),
		Observer: func(context.Context, qless.Command) { panic("the observer of calls") },
	})
	outcomes := map[string]error{
		"nil": nil, "typed nil": (*hostileError)(nil), "failed": qless.FailWith("group", &hostileError{}),
		"joined": errors.Join((*hostileError)(nil)),
	}
	w.Handle("K", func(_ context.Context, job *qless.Job) error { return outcomes[job.JID] })
	w.start()
	for jid := range outcomes {
		e.Put("q", qless.JID(jid), qless.Retries(0))
		want := "failed"
		if jid == "nil" {
			want = "complete"
		}
		until(t, jid+" has ended", func() bool {
			return e.Redis.HGet(t.Context(), "ql:j:"+jid, "state").Val() == want
		})
	}
	encoding := e.NewLiveClient(e.Redis, qless.ClientConfig{Codec: hostileCodec{}})
	_, err := encoding.Queue("q").Put(t.Context(), "K", "x", qless.JID("coded"), qless.Retries(0))
	require.NoError(t, err)
	until(t, "the job that can't be decoded has failed", func() bool {
		return e.Redis.HGet(t.Context(), "ql:j:coded", "state").Val() == "failed"
	})
	w.stop()
}
