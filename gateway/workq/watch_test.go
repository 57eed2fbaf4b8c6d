package workq

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/listeners"
)

// A readConn reports each read.
type readConn struct {
	*net.TCPConn
	read chan struct{}
}

func (c *readConn) Read(p []byte) (int, error) {
	c.read <- struct{}{}
	return c.TCPConn.Read(p)
}

func TestAnEndAtTheLastMomentIsNoted(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	for range 100 {
		client, err := net.Dial("tcp", listener.Addr().String())
		require.NoError(t, err)
		accepted, err := listener.Accept()
		require.NoError(t, err)
		read := make(chan struct{})
		c := newConn(&Server{drain: listeners.NewStop()}, &readConn{accepted.(*net.TCPConn), read})
		stop := c.watch(func() {})
		<-read
		require.NoError(t, client.Close())
		stop()
		require.False(t, c.half.IsZero())
		require.NoError(t, accepted.Close())
	}
}
