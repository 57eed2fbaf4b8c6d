// Package keepalive closes connections whose other side has vanished without a word, as a host does
// that loses its power or its network.
package keepalive

import (
	"net"
	"time"
)

// Listener returns a listener whose TCP connections fail when the other host is silent for that
// long: a silent one is probed, after half of the time for the first time. Written data may stay
// unacknowledged for that long too, or for the time for writing if that is longer; if that is 0, as
// long as the system likes. Other systems than Linux do not know such a limit.
//
// With a silence of 0 or less, the connections are as the listener returns them. Connections that
// are not of TCP always are.
func Listener(l net.Listener, silence, writing time.Duration) net.Listener {
	if silence <= 0 {
		return l
	}
	unacknowledged := time.Duration(0)
	if writing > 0 {
		unacknowledged = max(silence, writing)
	}
	return &listener{l, silence, unacknowledged}
}

// probes is how many probes are sent, one after the other, before a connection is given up.
const probes = 3

type listener struct {
	net.Listener
	silence, unacknowledged time.Duration
}

// Accept returns the next connection.
func (l *listener) Accept() (net.Conn, error) {
	connection, err := l.Listener.Accept()
	if tcp, is := connection.(*net.TCPConn); is && err == nil {
		l.set(tcp)
	}
	return connection, err
}

// set sets the options of a connection. One that is broken by now fails without them.
func (l *listener) set(tcp *net.TCPConn) {
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: l.silence / 2, Interval: l.silence / (2 * probes), Count: probes,
	})
	if l.unacknowledged > 0 {
		_ = setUserTimeout(tcp, l.unacknowledged)
	}
}
