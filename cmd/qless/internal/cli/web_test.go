package cli_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
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
	r := s.request(http.MethodGet, "web", "/live?page=/", "").WithContext(ctx)
	answer := must(http.DefaultClient.Do(r))(t)
	defer func() { _ = answer.Body.Close() }()
	first := make([]byte, 1)
	must(answer.Body.Read(first))(t)
	require.Zero(t, s.end())
}

func TestTheDashboardAsksForItsUser(t *testing.T) {
	e := newEnv(t)
	require.Contains(t, e.exits(2, "serve --web 127.0.0.1:0 --web-user ann"), "QLESS_WEB_PASSWORD")
	e.environ = append(e.environ, "QLESS_WEB_PASSWORD=secret")
	s := e.serving(1, "serve", "--web", "127.0.0.1:0", "--web-user", "ann")
	status, _ := s.get("web", "/")
	require.Equal(t, http.StatusUnauthorized, status)
	for password, want := range map[string]int{"wrong": http.StatusUnauthorized, "secret": http.StatusOK} {
		r := s.request(http.MethodGet, "web", "/", "")
		r.SetBasicAuth("ann", password)
		status, _ := s.send(r)
		require.Equal(t, want, status, password)
	}
	require.Zero(t, s.end())
	require.NotContains(t, s.log.String(), "secret")
}

func TestCanceledJobsArePutAgainFromTheReceipt(t *testing.T) {
	e, client := newReal(t)
	queue := client.Queue("mail")
	must(queue.Put(t.Context(), "Send", json.RawMessage(`{"big": 12345678901234567890}`),
		qless.JID("first"), qless.Priority(7), qless.Tags{"x", "y"}, qless.Headers{"k": "v"}))(t)
	must(queue.Put(t.Context(), "Send", nil, qless.JID("second"), qless.DependsOn{"first"}))(t)
	before := map[string]string{}
	for _, jid := range []string{"first", "second"} {
		before[jid] = e.run("", "job", "show", jid, "--json").out
	}

	s := e.serving(1, "serve", "--web", "127.0.0.1:0")
	form := url.Values{"job": {"waiting:first", "depends:second"}, "sure": {"1"}}
	r := s.request(http.MethodPost, "web", "/actions/job.cancel", form.Encode())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	_, answer := s.send(r)
	var done struct {
		Changed int
		Receipt string
	}
	require.NoError(t, json.Unmarshal([]byte(answer), &done))
	require.Equal(t, 2, done.Changed)

	status, receipt := s.get("web", "/receipts/"+done.Receipt)
	require.Equal(t, http.StatusOK, status)
	file := filepath.Join(t.TempDir(), "canceled.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(receipt), 0o600))
	require.Equal(t, run{0, "", "put 2 jobs\n"}, e.run("", "job", "put", "--from", file))
	for jid, was := range before {
		is := e.run("", "job", "show", jid, "--json").out
		require.Equal(t, withoutHistory(t, was), withoutHistory(t, is))
	}
}

func TestTheDashboardKnowsItsHosts(t *testing.T) {
	e := newEnv(t)
	s := e.serving(1, "serve", "--web", "localhost:0", "--web-host", "jobs.example.com,ops.example.com")
	for host, want := range map[string]int{
		s.addresses["web"]: http.StatusOK, "localhost:80": http.StatusOK, "jobs.example.com": http.StatusOK,
		"ops.example.com:443": http.StatusOK, "evil.example": http.StatusForbidden,
	} {
		r := s.request(http.MethodGet, "web", "/", "")
		r.Host = host
		status, _ := s.send(r)
		require.Equal(t, want, status, host)
	}
	require.Zero(t, s.end())
	require.NotContains(t, s.log.String(), "asks for no user")
}

func TestTheDashboardWarnsThatAnyoneMayUseIt(t *testing.T) {
	e := newEnv(t)
	e.environ = append(e.environ, "QLESS_WEB_PASSWORD=secret")
	for _, c := range []struct {
		arguments []string
		isWarned  bool
	}{
		{[]string{"--web", ":0"}, true},
		{[]string{"--web", "0.0.0.0:0", "--web-read-only"}, true},
		{[]string{"--web", ":0", "--web-user", "ann"}, false},
		{[]string{"--web", "[::1]:0"}, false},
	} {
		s := e.serving(1, append([]string{"serve"}, c.arguments...)...)
		require.Zero(t, s.end())
		require.Equal(t, c.isWarned, strings.Contains(s.log.String(), "asks for no user"), c.arguments)
	}
}
