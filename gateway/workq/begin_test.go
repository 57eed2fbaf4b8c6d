package workq_test

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/gateway/workq"
	"github.com/qless/qless-go/internal/testkit"
)

func TestAServerThatIsShutDownWhileItBeginsIsClosed(t *testing.T) {
	proxy := testkit.NewProxy(t, testkit.Start(t).Addr())
	rdb := redis.NewClient(&redis.Options{
		Addr: proxy.Addr(), MaxRetries: -1, ReadTimeout: 5 * time.Second,
	})
	t.Cleanup(func() { _ = rdb.Close() })
	config := workq.Config{Client: newQless(t, rdb), Logger: slog.New(slog.DiscardHandler)}
	server := must(workq.New(config))(t)
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)

	proxy.HoldReply("evalsha")
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	testkit.Until(t, "it asks for the queues", func() bool { return proxy.Seen("evalsha") > 0 })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, server.Shutdown(ctx))
	require.ErrorIs(t, testkit.Soon(t, "the end of Serve", served), workq.ErrServerClosed)
}
