package listeners_test

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/listeners"
	"github.com/qless/qless-go/internal/listeners/keepalivetest"
	"github.com/qless/qless-go/internal/testkit"
)

// accepted returns both ends of a connection.
func accepted(t *testing.T, silence, writing time.Duration) (client, server net.Conn) {
	t.Helper()
	recorder := keepalivetest.Listen(t)
	listener := listeners.KeepAlive(recorder, silence, writing)
	client, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	server, err = listener.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	return client, server
}

func TestAConnectionIsProbedWithinTheTime(t *testing.T) {
	_, server := accepted(t, 30*time.Second, time.Minute)
	require.Equal(t, keepalivetest.Options{
		Enabled: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3,
		UserTimeout: time.Minute,
	}, keepalivetest.Read(t, server))

	_, server = accepted(t, 30*time.Second, time.Second)
	require.Equal(t, 30*time.Second, keepalivetest.Read(t, server).UserTimeout)

	_, server = accepted(t, time.Second, 0)
	require.Equal(t, keepalivetest.Options{
		Enabled: true, Idle: time.Second, Interval: time.Second, Count: 3,
	}, keepalivetest.Read(t, server), "the system counts whole seconds")
}

func TestWithoutATimeAConnectionIsAsItWas(t *testing.T) {
	_, server := accepted(t, 0, time.Minute)
	require.Zero(t, keepalivetest.Read(t, server).UserTimeout)
}

// To the system, a client that stops reading looks like an unresponsive host: data stays
// unacknowledged.
func TestAnUnacknowledgedWriteEnds(t *testing.T) {
	_, server := accepted(t, time.Second, time.Second)
	failed := make(chan error, 1)
	go func() {
		for {
			if _, err := server.Write(make([]byte, 1<<20)); err != nil {
				failed <- err
				return
			}
		}
	}()
	err := testkit.Soon(t, "an error of the write", failed)
	require.ErrorContains(t, err, "connection timed out")
}
