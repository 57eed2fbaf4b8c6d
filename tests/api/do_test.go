package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func TestDoRunsACommandWithItsArguments(t *testing.T) {
	var seen observer
	e := newEnvWith(t, qless.ClientConfig{Observer: seen.observe})
	ctx := t.Context()
	e.Put("q", qless.JID("j"))
	seen.take()
	reply := must(e.Do(ctx, "length", "q"))(t)
	require.Equal(t, int64(1), reply)
	require.Equal(t, "length", seen.take()[0].Name)

	reply = must(e.Do(ctx, "jobs", qless.StateWaiting, "q", 0, int64(5)))(t)
	require.Equal(t, []any{"j"}, reply)
	reply = must(e.Do(ctx, "recur.get", "unknown"))(t)
	require.Nil(t, reply)
	require.NoError(t, errOf(e.Do(ctx, "reschedule", "j", time.Minute)))
	require.WithinDuration(t, noon.Add(time.Minute), e.Read("j").Due, time.Second)
}

// The options of a put are written as pairs in the place of the first.
func TestDoWritesTheOptionsOfAPut(t *testing.T) {
	e := newEnv(t)
	_, err := e.Do(t.Context(), "put", "w1", "q", "j", "K", "{}", 0,
		qless.Priority(3), qless.Tags{"red"}, qless.Headers{"a": "b"}, qless.TTL(time.Hour))
	require.NoError(t, err)
	job := e.Read("j")
	require.Equal(t, 3, job.Priority)
	require.Equal(t, qless.Tags{"red"}, job.Tags)
	require.Equal(t, qless.Headers{"a": "b"}, job.Headers)
	require.True(t, noon.Add(time.Hour).Equal(job.Options.TTL))
}

func TestDoRefusesWhatItCannotSend(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	e.Unchanged(func() {
		for _, err := range []error{
			errOf(e.Do(ctx, "")), errOf(e.Do(ctx, "nonsense")), errOf(e.Do(ctx, "length", 1.5)),
			errOf(e.Do(ctx, "length", nil)), errOf(e.Do(ctx, "length", []string{"q"})),
			errOf(e.Do(ctx, "put", "w", "q", "j", "K", "{}", 0, qless.JID("other"))),
			errOf(e.Do(ctx, "put", "w", "q", "j", "K", "{}", 0, qless.Unique("k"))),
			errOf(e.Do(ctx, "put", "w", "q", "j", "K", "{}", 0, qless.Delay(-1))),
		} {
			requireCode(t, qless.ErrInvalid, err)
		}
	})
	requireCode(t, qless.ErrNotFound, errOf(e.Do(ctx, "depends", "nobody", "on", "j")))
}

func TestDecodeReadsStoredData(t *testing.T) {
	e := newEnvWith(t, qless.ClientConfig{Codec: &reversed{name: "rev", key: "k1"}})
	jid := must(e.Queue("q").Put(t.Context(), "K", "secret"))(t)
	stored := e.Redis.HGet(t.Context(), "ql:j:"+jid, "data").Val()
	require.NotContains(t, stored, "secret")
	require.Equal(t, `"secret"`, string(must(e.Decode([]byte(stored)))(t)))
	require.Equal(t, `{"a":1}`, string(must(e.Decode([]byte(`{"a":1}`)))(t)))
	unknown, err := e.Decode([]byte(`{"x:codec":"other:","bytes":"AA=="}`))
	requireCode(t, qless.ErrInvalid, err)
	require.Contains(t, string(unknown), "x:codec")
}
