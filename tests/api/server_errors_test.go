package api

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

func TestARealServerOutOfMemoryOrReadOnly(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	require.NoError(t, e.Redis.ConfigSet(t.Context(), "maxmemory", "1").Err())
	e.Unchanged(func() {
		_, err := e.Queue("q").Put(t.Context(), "K", nil)
		requireCode(t, qless.ErrServer, err)
		require.ErrorContains(t, err, "OOM ")
	})
	require.Equal(t, jid, e.Read(jid).JID, "it can be read")
	require.NoError(t, e.Redis.ConfigSet(t.Context(), "maxmemory", "0").Err())

	require.NoError(t, e.Redis.Do(t.Context(), "replicaof", "127.0.0.1", "1").Err())
	e.Unchanged(func() {
		_, err := e.Queue("q").Put(t.Context(), "K", nil)
		requireCode(t, qless.ErrUnavailable, err)
		require.ErrorContains(t, err, "READONLY ")
	})
}

func TestAKeyOfAnotherTypeIsTheServersError(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, e.Redis.Set(t.Context(), "ql:j:j", "not a hash", 0).Err())
	e.Unchanged(func() {
		require.Equal(t, "j", requireCode(t, qless.ErrServer, errOf(e.Job(t.Context(), "j"))).JID)
		requireCode(t, qless.ErrServer, errOf(e.Queue("q").Put(t.Context(), "K", nil, qless.JID("j"))))
	})
}

// The end of the caller's own context is one of the reasons for a missing reply.
func TestAnEndedContextIsUnavailable(t *testing.T) {
	e := newEnv(t)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), testkit.Noon)
	defer cancel()
	for _, ctx := range []context.Context{canceled, late} {
		_, err := e.Queue("q").Counts(ctx)
		requireCode(t, qless.ErrUnavailable, err)
		require.ErrorIs(t, err, ctx.Err())
	}
}
