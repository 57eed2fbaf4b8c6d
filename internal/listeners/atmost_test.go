package listeners

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

func TestALimitedListenerHasSomeConnections(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	listener := AtMost(inner, 2)
	taken, ended := make(chan net.Conn, 3), make(chan error, 1)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				ended <- err
				return
			}
			taken <- connection
		}
	}()
	for range 3 {
		dialed, err := net.Dial("tcp", listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = dialed.Close() })
	}
	first := testkit.Soon(t, "the first connection", taken)
	testkit.Soon(t, "the second connection", taken)
	select {
	case <-taken:
		t.Fatal("a third connection was taken")
	default:
	}
	require.NoError(t, first.Close())
	_ = first.Close() // makes room only once
	testkit.Soon(t, "the third connection", taken)
	require.NoError(t, listener.Close())
	require.ErrorIs(t, testkit.Soon(t, "the end", ended), net.ErrClosed)
	_ = listener.Close()
}
