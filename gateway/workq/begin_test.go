package workq_test

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/gateway/workq"
	"github.com/qless/qless-go/internal/testkit"
)

func TestAServerThatIsShutDownWhileItBeginsIsClosed(t *testing.T) {
	proxy := testkit.NewProxy(t, testkit.Start(t).Addr())
	rdb := redis.NewClient(&redis.Options{
		Addr: proxy.Addr(), MaxRetries: -1, ReadTimeout: 5 * time.Second,
	})
	t.Cleanup(func() { _ = rdb.Close() })
	quiet := slog.New(slog.DiscardHandler)
	client, err := qless.New(rdb, &qless.ClientConfig{Logger: quiet})
	require.NoError(t, err)
	server, err := workq.New(workq.Config{Client: client, Logger: quiet})
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	proxy.HoldReply("evalsha")
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	testkit.Until(t, "it asks for the queues", func() bool { return proxy.Seen("evalsha") > 0 })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, server.Shutdown(ctx))
	require.ErrorIs(t, testkit.Soon(t, "the end of Serve", served), workq.ErrServerClosed)
}
