package workq_test

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/listeners/keepalivetest"
	"github.com/qless/qless-go/internal/testkit"
)

// A client waiting in a lease sends nothing, so only TCP's probes reveal that its host is gone.
func TestHostsOfClientsAreProbed(t *testing.T) {
	recorder := keepalivetest.Listen(t)
	e := newEnv(t)
	go func() { _ = e.server.Serve(recorder) }()
	e.addr = recorder.Addr().String()
	require.Equal(t, "+OK", e.dial().ask("inspect server")[:3])
	connection := testkit.Soon[net.Conn](t, "a connection", recorder.Accepted)
	require.Equal(t, keepalivetest.Options{
		Enabled: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3,
		UserTimeout: time.Minute,
	}, keepalivetest.Read(t, connection))
}
