package lmstfy_test

import (
	"net/http"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/gateway/lmstfy"
	"github.com/qless/qless-go/internal/testkit"
)

// A request that took effect is not refused just because Redis's answer was lost.
func TestLostAnswersAreNoRefusals(t *testing.T) {
	var proxy *testkit.Proxy
	g := start(t, func(c *lmstfy.Config) {
		proxy = testkit.NewProxy(t, c.Admin.(*redis.Client).Options().Addr)
		rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
		t.Cleanup(func() { _ = rdb.Close() })
		c.Admin = rdb
	})
	const token = "chosen-by-a-user-0001"
	for path, body := range map[string]string{
		"/token/shop?description=x&token=" + token: "",
		"/token/shop/" + token + "/limit":          `{"read": 1, "interval": 60}`,
	} {
		proxy.CutBeforeReply("hsetnx")
		status, text := g.askAt(g.admin, "POST", path, body)
		require.Equal(t, http.StatusInternalServerError, status, text)
		require.JSONEq(t, `{"error":"internal error"}`, text)
	}
	_, text := g.askAt(g.admin, "GET", "/token/shop", "")
	require.Contains(t, text, token)
	_, text = g.askAt(g.admin, "GET", "/limits?force_update=true", "")
	require.Contains(t, text, token)
}
