package cli_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

func TestServeServesTheDashboard(t *testing.T) {
	e := newEnv(t)
	e.put("mail", "Send", 0)
	s := e.serving(1, "serve", "--web", "127.0.0.1:0", "--web-prefix", "/jobs")
	status, page := s.get("web", "/jobs/queues")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, page, `href="/jobs/queues/mail"`)
	require.Zero(t, s.end())
}

func TestAnOpenPageDoesNotHoldUpTheEndOfTheDashboard(t *testing.T) {
	e := newEnv(t)
	s := e.serving(1, "serve", "--web", "127.0.0.1:0")
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addresses["web"]+"/live?page=/", nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	first := make([]byte, 1)
	_, err = answer.Body.Read(first)
	require.NoError(t, err)
	require.Zero(t, s.end())
}

func TestTheDashboardAsksForItsUser(t *testing.T) {
	e := newEnv(t)
	refused := e.run("", "serve", "--web", "127.0.0.1:0", "--web-user", "ann")
	require.Equal(t, 2, refused.status)
	require.Contains(t, refused.errors, "QLESS_WEB_PASSWORD")
	e.environ = append(e.environ, "QLESS_WEB_PASSWORD=secret")
	s := e.serving(1, "serve", "--web", "127.0.0.1:0", "--web-user", "ann")
	status, _ := s.get("web", "/")
	require.Equal(t, http.StatusUnauthorized, status)
	for password, want := range map[string]int{"wrong": http.StatusUnauthorized, "secret": http.StatusOK} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.addresses["web"]+"/", nil)
		require.NoError(t, err)
		r.SetBasicAuth("ann", password)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, want, answer.StatusCode)
	}
	require.Zero(t, s.end())
	require.NotContains(t, s.log.String(), "secret")
}
