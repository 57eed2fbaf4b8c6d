package worker

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// hexed is a codec that stores data as hexadecimal digits, and may fail to decode it.
type hexed struct{ broken atomic.Bool }

func (h *hexed) Name() string { return "hexed" }

func (h *hexed) Encode(_ string, data []byte) ([]byte, string, error) {
	encoded := make([]byte, len(data))
	for i, b := range data {
		encoded[i] = b ^ 0x20
	}
	return encoded, "", nil
}

func (h *hexed) Decode(_ string, encoded []byte) ([]byte, error) {
	if h.broken.Load() {
		return nil, errors.New("the keys are away")
	}
	data, _, err := h.Encode("", encoded)
	return data, err
}

func TestHandlersGetDecodedDataAndChangedDataIsEncoded(t *testing.T) {
	e := newLiveEnv(t)
	config := qless.ClientConfig{Codec: &hexed{}}
	c := e.NewLiveClient(e.Redis, config)
	w := e.workerAt(e.Server.Addr(), qless.WorkerConfig{}, config)
	w.Handle("Same", qless.Typed(func(_ context.Context, _ *qless.Job, n int) error {
		require.Equal(t, 1, n)
		return nil
	}))
	w.Handle("Changed", func(_ context.Context, job *qless.Job) error { return job.SetData(2) })
	jobs := []struct{ klass, want, jid, before string }{{klass: "Same", want: "1"}, {klass: "Changed", want: "2"}}
	for i := range jobs {
		jid, err := c.Queue("q").Put(t.Context(), jobs[i].klass, 1)
		require.NoError(t, err)
		jobs[i].jid, jobs[i].before = jid, string(e.Read(jid).Data)
	}
	w.start()
	for _, put := range jobs {
		w.ends(put.jid)
		job, err := c.Job(t.Context(), put.jid)
		require.NoError(t, err)
		require.Equal(t, qless.StateComplete, job.State)
		require.Equal(t, put.want, string(job.Data))
		after := string(e.Read(put.jid).Data)
		require.Contains(t, after, "x:codec")
		require.Equal(t, put.klass == "Same", put.before == after, "only changed data is saved")
	}
}

func TestAJobWhoseCodecIsUnknownFailsWithoutItsHandler(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	w.Handle("K", func(context.Context, *qless.Job) error {
		t.Error("the handler was called")
		return nil
	})
	w.start()
	jid, err := e.NewLiveClient(e.Redis, qless.ClientConfig{Codec: &hexed{}}).
		Queue("q").Put(t.Context(), "K", 1)
	require.NoError(t, err)
	require.Equal(t, "fail", w.outcome(jid).action)
	job := e.Read(jid)
	require.Equal(t, "K:data", job.Failure.Group)
	require.Contains(t, job.Failure.Message, `encoded by "hexed", which the client does not know`)
	require.Contains(t, string(job.Data), "x:codec", "it can be unfailed")
}

func TestAJobThatCannotBeDecodedNowIsRetried(t *testing.T) {
	e := newLiveEnv(t)
	codec := &hexed{}
	codec.broken.Store(true)
	w := e.workerAt(e.Server.Addr(), qless.WorkerConfig{
		Backoff: func(*qless.Job, int, error) (delay time.Duration) {
			codec.broken.Store(false)
			return 0
		},
	}, qless.ClientConfig{Codec: codec})
	done := make(chan string, 1)
	w.Handle("K", func(_ context.Context, job *qless.Job) error {
		done <- string(job.Data)
		return nil
	})
	w.start()
	_, err := e.NewLiveClient(e.Redis, qless.ClientConfig{Codec: codec}).
		Queue("q").Put(t.Context(), "K", json.RawMessage("[1]"))
	require.NoError(t, err)
	require.Equal(t, "[1]", soon(t, "the handler", done))
}
