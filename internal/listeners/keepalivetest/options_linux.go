// Package keepalivetest reads the keep-alive options of connections in tests.
package keepalivetest

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Options are the keep-alive options of a connection.
type Options struct {
	Enabled        bool
	Idle, Interval time.Duration
	Count          int
	UserTimeout    time.Duration
}

// tcpUserTimeout is TCP_USER_TIMEOUT, missing in package syscall.
const tcpUserTimeout = 18

// Read reads the options of a TCP connection.
func Read(t *testing.T, connection net.Conn) Options {
	t.Helper()
	raw, err := connection.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	option := func(level, name int) (value int) {
		err := raw.Control(func(fd uintptr) {
			value, err = syscall.GetsockoptInt(int(fd), level, name)
		})
		require.NoError(t, err)
		return value
	}
	ofTCP := func(name int) int { return option(syscall.IPPROTO_TCP, name) }
	return Options{
		Enabled:     option(syscall.SOL_SOCKET, syscall.SO_KEEPALIVE) != 0,
		Idle:        time.Duration(ofTCP(syscall.TCP_KEEPIDLE)) * time.Second,
		Interval:    time.Duration(ofTCP(syscall.TCP_KEEPINTVL)) * time.Second,
		Count:       ofTCP(syscall.TCP_KEEPCNT),
		UserTimeout: time.Duration(ofTCP(tcpUserTimeout)) * time.Millisecond,
	}
}

// A Recorder is a listener that records the connections it has accepted.
type Recorder struct {
	net.Listener
	Accepted chan net.Conn
}

// Listen returns a recorder on a free port.
func Listen(t *testing.T) *Recorder {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return &Recorder{listener, make(chan net.Conn, 16)}
}

// Accept accepts a connection.
func (r *Recorder) Accept() (net.Conn, error) {
	connection, err := r.Listener.Accept()
	if err == nil {
		r.Accepted <- connection
	}
	return connection, err
}
