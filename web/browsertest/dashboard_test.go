package browsertest

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

// A board is a running dashboard with its own Redis server.
type board struct {
	*qless.Client
	t      *testing.T
	server *testkit.Server
	rdb    *redis.Client
	url    string // of the dashboard's server: it is below its prefix
	cut    func() // ends the connections to it
}

// newBoard serves a dashboard.
func newBoard(t *testing.T, options web.Options) *board {
	t.Helper()
	server := testkit.Start(t)
	rdb := server.Client(t)
	client, err := qless.New(rdb, &qless.ClientConfig{Logger: testkit.Quiet()})
	require.NoError(t, err)
	b := &board{Client: client, t: t, server: server, rdb: rdb}
	b.serve(options, web.Source{Client: client, Redis: rdb})
	return b
}

// serve replaces the dashboard by one with other options.
func (b *board) serve(options web.Options, sources ...web.Source) {
	b.t.Helper()
	if options.Logger == nil {
		options.Logger = testkit.Quiet()
	}
	if options.Interval == 0 {
		options.Interval = time.Second
	}
	handler, err := web.New(options, sources...)
	require.NoError(b.t, err)
	server := httptest.NewServer(handler)
	b.t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	b.url, b.cut = server.URL, server.CloseClientConnections
}

func (b *board) put(queue, klass string, options ...qless.PutOption) string {
	b.t.Helper()
	jid, err := b.Queue(queue).Put(b.t.Context(), klass, map[string]int{"n": 1}, options...)
	require.NoError(b.t, err)
	return jid
}
