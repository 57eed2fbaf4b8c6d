package lmstfy_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/gateway/lmstfy"
)

func TestPagesOfOtherSites(t *testing.T) {
	g := start(t, func(c *lmstfy.Config) { c.AdminHosts = []string{"admin.example"} })
	admin := g.server.AdminHandler()
	token := "/token/shop?description=x&token=attacker-chosen-token-0001"
	for name, c := range map[string]struct {
		method, path, host string
		headers            map[string]string
		status             int
	}{
		"cross-site": {"POST", token, "127.0.0.1:7778",
			map[string]string{"Sec-Fetch-Site": "cross-site", "Content-Type": "text/plain"}, 403},
		"another origin": {"POST", token, "127.0.0.1:7778",
			map[string]string{"Origin": "http://evil.example"}, 403},
		"its own page": {"PUT", "/token/shop/a/limit", "127.0.0.1:7778",
			map[string]string{"Sec-Fetch-Site": "same-origin"}, 400},
		"a rebound name":  {"GET", "/token/shop", "evil.example:7778", nil, 403},
		"a rebound page":  {"GET", "/metrics", "evil.example", nil, 403},
		"a name's end":    {"GET", "/token/shop", "evil-localhost", nil, 403},
		"a configured":    {"GET", "/token/shop", "Admin.Example:7778", nil, 200},
		"localhost":       {"GET", "/token/shop", "localhost:7778", nil, 200},
		"under localhost": {"GET", "/token/shop", "a.localhost.", nil, 200},
		"an address":      {"GET", "/token/shop", "10.0.0.7", nil, 200},
		"a long address":  {"GET", "/token/shop", "[::1]:7778", nil, 200},
		"a bare address":  {"GET", "/token/shop", "[::1]", nil, 200},
		"no name":         {"GET", "/token/shop", "", nil, 200},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, c.path, strings.NewReader(""))
			r.Host = c.host
			for key, value := range c.headers {
				r.Header.Set(key, value)
			}
			answer := httptest.NewRecorder()
			admin.ServeHTTP(answer, r)
			require.Equal(t, c.status, answer.Code, answer.Body)
		})
	}
	status, text := g.askAt(g.admin, "GET", "/token/shop", "")
	require.Equal(t, http.StatusOK, status)
	require.NotContains(t, text, "attacker")
}
