package lmstfy_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/gateway/lmstfy"
	"github.com/qless/qless-go/internal/testkit"
)

// patience turns a hang into a failure.
const patience = 30 * time.Second

// A gateway is a server of lmstfy's protocol on a separate Redis.
type gateway struct {
	t      *testing.T
	server *lmstfy.Server
	redis  *testkit.Server
	client *qless.Client
	rdb    *redis.Client
	api    string // the addresses
	admin  string
	ended  chan error
}

// start starts a gateway with a changed configuration.
func start(t *testing.T, change func(*lmstfy.Config)) *gateway {
	t.Helper()
	g := &gateway{t: t, redis: testkit.Start(t), ended: make(chan error, 2)}
	g.rdb = redis.NewClient(&redis.Options{Addr: g.redis.Addr(), ContextTimeoutEnabled: true})
	client, err := qless.New(g.rdb, nil)
	require.NoError(t, err)
	g.client = client
	config := lmstfy.Config{
		Pools: map[string]lmstfy.Pool{lmstfy.DefaultPool: {Client: client, Redis: g.rdb}},
		Admin: g.rdb, SkipTokens: true,
		Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&config)
	}
	g.server, err = lmstfy.New(config)
	require.NoError(t, err)
	g.api, g.admin = g.serve(g.server.Serve), g.serve(g.server.ServeAdmin)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := g.server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		_ = client.Close()
		_ = g.rdb.Close()
	})
	return g
}

func (g *gateway) serve(serve func(net.Listener) error) string {
	g.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(g.t, err)
	go func() { g.ended <- serve(listener) }()
	return listener.Addr().String()
}

// ask makes a request, and returns the answer's status and body.
func (g *gateway) ask(method, path, body string) (int, string) {
	g.t.Helper()
	return g.askAt(g.api, method, path, body)
}

func (g *gateway) askAt(addr, method, path, body string) (int, string) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, strings.NewReader(body))
	require.NoError(g.t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(g.t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(g.t, err)
	return answer.StatusCode, string(text)
}

// publish publishes a job, and returns its id.
func (g *gateway) publish(path, body string) string {
	g.t.Helper()
	status, text := g.ask("PUT", path, body)
	require.Equal(g.t, http.StatusCreated, status, text)
	return g.decode(text)["job_id"].(string)
}

func (g *gateway) decode(text string) map[string]any {
	g.t.Helper()
	var v map[string]any
	require.NoError(g.t, json.Unmarshal([]byte(text), &v), text)
	return v
}

// until waits until a condition holds.
func (g *gateway) until(condition func() bool) {
	g.t.Helper()
	require.Eventually(g.t, condition, patience, 5*time.Millisecond)
}
