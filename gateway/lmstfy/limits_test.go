package lmstfy_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/gateway/lmstfy"
)

// The count of a refused request is taken back before the client sees the refusal, to keep the next
// request from being refused as well.
func TestARefusedRequestIsTakenBackBeforeItsAnswer(t *testing.T) {
	var commands commandHook
	g := start(t, func(config *lmstfy.Config) {
		config.Admin.(*redis.Client).AddHook(&commands)
	})
	status, body := g.askAt(g.admin, "POST", "/token/ns/t/limit", `{"write": 1, "interval": 60}`)
	require.Equal(t, http.StatusCreated, status, body)
	counter := func() string {
		keys := must(g.rdb.Keys(t.Context(), "*l/default/ns/t/w").Result())(t)
		require.Len(t, keys, 1)
		return g.rdb.Get(t.Context(), keys[0]).Val()
	}

	answer := httptest.NewRecorder()
	counts := 0
	commands.seen = func(cmd redis.Cmder) {
		if strings.HasPrefix(cmd.Name(), "eval") && strings.Contains(cmd.String(), "l/default/ns/t/w") {
			counts++
			require.Zero(t, answer.Body.Len(), "the answer is out: %s", cmd)
		}
	}
	ask := httptest.NewRequest("PUT", "/api/ns/q?tries=0&token=t", strings.NewReader("x"))
	g.server.Handler().ServeHTTP(answer, ask)
	require.Equal(t, http.StatusBadRequest, answer.Code)
	require.GreaterOrEqual(t, counts, 2, "it was counted, and taken back")
	require.Equal(t, "0", counter())
}

// A commandHook sees each command sent by a Redis client.
type commandHook struct{ seen func(redis.Cmder) }

func (*commandHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *commandHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if h.seen != nil {
			h.seen(cmd)
		}
		return next(ctx, cmd)
	}
}

func (*commandHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
