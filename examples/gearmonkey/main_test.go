package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

const want = `"now!": success, "NOW!", 100 % done
"one": success, "ONE", 100 % done
"two": success, "TWO", 100 % done
"": error, "there is nothing to shout", 0 % done
"a second later": success, "A SECOND LATER", 100 % done
`

func TestInMemory(t *testing.T) {
	t.Setenv("REDIS_URL", "")
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out))
	require.Equal(t, "Redis: in memory (set REDIS_URL to use a server)\n"+want, out.String())
}

func TestOnAServer(t *testing.T) {
	server := testkit.Start(t)
	t.Setenv("REDIS_URL", "redis://"+server.Addr())
	for range 2 {
		var out strings.Builder
		require.NoError(t, run(t.Context(), &out))
		require.Equal(t, "Redis: redis://"+server.Addr()+"\n"+want, out.String())
	}
	require.Empty(t, server.Client(t).Keys(t.Context(), "*"+function+"*").Val(), "it leaves nothing")
}

func TestInterrupted(t *testing.T) {
	t.Setenv("REDIS_URL", "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, run(ctx, io.Discard), context.Canceled)
}

func TestBadAddress(t *testing.T) {
	t.Setenv("REDIS_URL", "nowhere")
	require.Error(t, run(t.Context(), io.Discard))
}
