package lmstfy_test

import (
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/gateway/lmstfy"
	"github.com/qless/qless-go/internal/listeners/keepalivetest"
	"github.com/qless/qless-go/internal/testkit"
)

// A waiting consumer sends nothing, so only TCP's probes reveal that its host is gone.
func TestHostsOfConsumersAreProbed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*lmstfy.Config)
		want   keepalivetest.Options
	}{
		"default": {nil, keepalivetest.Options{
			Enabled: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3,
			UserTimeout: 30 * time.Second,
		}},
		"configured": {
			func(c *lmstfy.Config) { c.PeerTimeout, c.WriteTimeout = 6*time.Second, time.Minute },
			keepalivetest.Options{
				Enabled: true, Idle: 3 * time.Second, Interval: time.Second, Count: 3,
				UserTimeout: time.Minute,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := keepalivetest.Listen(t)
			g := start(t, c.change)
			go func() { _ = g.server.Serve(recorder) }()
			answer, err := http.Get("http://" + recorder.Addr().String() + "/api/ns/q")
			require.NoError(t, err)
			defer func() { _ = answer.Body.Close() }() // may close the connection
			connection := testkit.Soon[net.Conn](t, "a connection", recorder.Accepted)
			require.Equal(t, c.want, keepalivetest.Read(t, connection))
		})
	}
}
