package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/inside"
	"github.com/qless/qless-go/internal/testkit"
)

// A put that is remembered is not done again, even if the job is gone, until the server forgets it.
func TestAJobIsPutOnceEvenIfItIsGone(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	puts := []inside.Put{{Queue: "q", JID: "a", Klass: "K", Data: "{}"}, {Queue: "p", JID: "b", Klass: "K", Data: "{}"}}
	for _, found := range [][]inside.Found{nil, {{At: 0, JID: "a", State: "put"}, {At: 1, JID: "b", State: "put"}}} {
		n, left, err := inside.PutOnce(ctx, e.Client, puts)
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.Equal(t, found, left)
		_ = e.Client.Cancel(ctx, "a", "b")
	}
	third := inside.Put{Queue: "q", JID: "c", Klass: "K", Data: "{}"}
	third.Options.DependsOn = []string{"d"}
	n, left, err := inside.PutOnce(ctx, e.Client, []inside.Put{puts[0], {Queue: "p", JID: "d", Klass: "K", Data: "{}"}, third})
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.Equal(t, []inside.Found{{At: 0, JID: "a", State: "put"}}, left)
	require.Equal(t, []string{"d"}, must(e.Client.Job(ctx, "c"))(t).Dependencies)
}

// A wait begins before the job exists, or for one that an outbox has given up.
func TestWaitForAJobThatIsPutLater(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	t.Cleanup(func() { _ = e.Client.Close() })
	ended := make(chan error, 1)
	go func() {
		_, err := e.Client.Wait(ctx, "later", qless.AwaitPut(time.Minute))
		ended <- err
	}()
	queue := e.Client.Queue("q")
	require.NoError(t, errOf(queue.Put(ctx, "K", nil, qless.JID("later"))))
	require.NoError(t, must(queue.Pop(ctx, 1))(t)[0].Complete(ctx))
	require.NoError(t, testkit.Soon(t, "the wait ends", ended))
	_, err := e.Client.Wait(ctx, "never", qless.AwaitPut(30*time.Millisecond))
	require.ErrorIs(t, err, qless.ErrNotFound)
}
