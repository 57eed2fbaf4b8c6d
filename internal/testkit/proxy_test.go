package testkit

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// proxied returns a server, a proxy in front of the server, and a client that uses the proxy and
// never retries.
func proxied(t *testing.T) (*Server, *Proxy, *redis.Client) {
	s := Start(t)
	p := NewProxy(t, s.Addr())
	client := redis.NewClient(&redis.Options{Addr: p.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	return s, p, client
}

func TestProxyPassesOn(t *testing.T) {
	_, p, client := proxied(t)
	large := strings.Repeat("x", 4*chunkSize)
	require.NoError(t, client.Set(t.Context(), "key", large, 0).Err())
	assert.Equal(t, large, client.Get(t.Context(), "key").Val())
	assert.Equal(t, 1, p.Seen("GET\r\n$3\r\nkey"))
	assert.Equal(t, 0, p.Seen("nothing of the kind"))
}

func TestProxySwallowsARequest(t *testing.T) {
	s, p, client := proxied(t)
	require.NoError(t, client.Incr(t.Context(), "counter").Err())
	p.CutAfterRequest("INCR")
	require.NoError(t, client.Ping(t.Context()).Err())
	require.Error(t, client.Incr(t.Context(), "counter").Err())
	assert.Equal(t, "1", s.Client(t).Get(t.Context(), "counter").Val())

	require.NoError(t, client.Incr(t.Context(), "counter").Err())
	assert.Equal(t, "2", s.Client(t).Get(t.Context(), "counter").Val())
	assert.Equal(t, 3, p.Seen("incr"))
}

func TestProxyKeepsAReply(t *testing.T) {
	s, p, client := proxied(t)
	p.CutBeforeReply("INCR")
	require.NoError(t, client.Ping(t.Context()).Err())
	require.Error(t, client.Incr(t.Context(), "counter").Err())
	assert.Equal(t, "1", s.Client(t).Get(t.Context(), "counter").Val())

	require.NoError(t, client.Incr(t.Context(), "counter").Err())
	assert.Equal(t, "2", s.Client(t).Get(t.Context(), "counter").Val())
}

func TestProxyCutsEveryConnection(t *testing.T) {
	_, p, client := proxied(t)
	idle := dial(t, p.Addr())
	defer idle.Close()
	idle.request(t, "PING")
	events := client.Subscribe(t.Context(), "channel")
	defer events.Close()
	_, err := events.Receive(t.Context())
	require.NoError(t, err)

	p.CutAll()
	_, err = idle.Read(make([]byte, 1))
	require.Error(t, err)
	_, err = events.Receive(t.Context())
	require.Error(t, err)
	idle = dial(t, p.Addr())
	defer idle.Close()
	idle.request(t, "PING")
}

func TestProxyOfADeadServer(t *testing.T) {
	s, _, client := proxied(t)
	s.Kill()
	require.Error(t, client.Ping(t.Context()).Err())
	s.Restart()
	require.NoError(t, client.Ping(t.Context()).Err())
}

func TestProxyHoldsAReply(t *testing.T) {
	s, p, client := proxied(t)
	release := p.HoldReply("INCR")
	defer release()
	done := make(chan error, 1)
	go func() { done <- client.Incr(t.Context(), "counter").Err() }()
	direct := s.Client(t)
	Until(t, "the server has run it", func() bool {
		return direct.Get(t.Context(), "counter").Val() == "1"
	})
	assert.Empty(t, done)
	release()
	require.NoError(t, Soon(t, "the reply", done))
}

func TestProxyGoesSilent(t *testing.T) {
	s, p, _ := proxied(t)
	client := redis.NewClient(&redis.Options{
		Addr: p.Addr(), MaxRetries: -1, ReadTimeout: time.Second,
	})
	defer client.Close()
	require.NoError(t, client.Incr(t.Context(), "counter").Err())
	p.GoSilent()
	var timeout net.Error
	require.ErrorAs(t, client.Incr(t.Context(), "counter").Err(), &timeout)
	assert.True(t, timeout.Timeout(), "the connection is still open")
	assert.Equal(t, "1", s.Client(t).Get(t.Context(), "counter").Val())
	require.NoError(t, client.Incr(t.Context(), "counter").Err(), "a new connection")
}
