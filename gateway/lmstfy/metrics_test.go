package lmstfy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/gateway/lmstfy"
)

// Names sent by strangers appear in no label, and take no room from clients with a token.
func TestStrangersInMetrics(t *testing.T) {
	for name, skip := range map[string]bool{"with tokens": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			g := start(t, func(c *lmstfy.Config) { c.SkipTokens = skip })
			long := strings.Repeat("n", 20_000)
			for i := range 50 {
				for _, path := range []string{"/q", "/q/size", "/q/job/x", ""} {
					g.ask("GET", fmt.Sprintf("/api/%s%d%s", long, i, path), "")
					g.ask("GET", fmt.Sprintf("/api/short%d%s", i, path), "")
				}
				g.ask(fmt.Sprintf("%s%d", strings.Repeat("M", 20_000), i), "/api/ns/q", "")
				g.ask("PUT", fmt.Sprintf("/api/short%d/q?token=pool%d:x&delay=x", i, i), "")
			}
			_, text := g.askAt(g.admin, "GET", "/metrics", "")
			for _, theirs := range []string{"nnn", "MMM", "short"} {
				require.False(t, strings.Contains(text, theirs), theirs)
			}
			require.True(t, strings.Contains(text, `method="other"`))
			require.Less(t, len(text), 50_000)
		})
	}
}

func TestLabelsHoldNoSecrets(t *testing.T) {
	g := start(t, func(c *lmstfy.Config) { c.SkipTokens = false })
	const token = "very-secret-token-12345"
	g.askAt(g.admin, "POST", "/token/shop?description=x&token="+token, "")
	g.askAt(g.admin, "POST", "/token/shop/"+token+"/limit", `{"write": 1, "interval": 60}`)
	g.expect(http.StatusOK, "GET", "/api/shop/q/size", "")
	_, text := g.askAt(g.admin, "GET", "/metrics", "")
	require.False(t, strings.Contains(text, `namespace="shop"`), "anyone may ask for a size")
	g.publish("/api/shop/q?token="+token, "x")
	g.expect(http.StatusTooManyRequests, "PUT", "/api/shop/q?token="+token, "x")
	g.expect(http.StatusUnauthorized, "PUT", "/api/shop/q?token=wrong", "x")
	// Requests are counted after they are answered.
	for _, line := range []string{
		`infra_lmstfy_http_rate_limit{action="produce",namespace="shop",pool="default"} 1`,
		`code="201",method="PUT",namespace="shop",`, `code="401",method="PUT",namespace="shop",`,
	} {
		g.until(func() bool {
			_, text := g.askAt(g.admin, "GET", "/metrics", "")
			require.False(t, strings.Contains(text, token))
			return strings.Contains(text, line)
		})
	}
}
