// Package listeners has parts shared by servers: listeners that limit the number of connections and
// the silence of the other side, and the stop of a server.
package listeners

import (
	"net"
	"time"
)

// KeepAlive returns a listener with TCP connections that fail once the other host has been silent
// for that long, as after a loss of power or network. The first probe is sent after half that time.
// Written data may stay unacknowledged for the longer of silence and writing, or as long as the
// system likes if writing is 0. Only Linux has such a limit.
//
// If silence is 0 or less, or a connection is not TCP, connections are returned unchanged.
func KeepAlive(l net.Listener, silence, writing time.Duration) net.Listener {
	if silence <= 0 {
		return l
	}
	unacknowledged := time.Duration(0)
	if writing > 0 {
		unacknowledged = max(silence, writing)
	}
	return &keepAlive{l, silence, unacknowledged}
}

// probes is the number of unanswered probes after which a connection is given up.
const probes = 3

type keepAlive struct {
	net.Listener
	silence, unacknowledged time.Duration
}

// Accept returns the next connection.
func (l *keepAlive) Accept() (net.Conn, error) {
	connection, err := l.Listener.Accept()
	if tcp, is := connection.(*net.TCPConn); is && err == nil {
		l.set(tcp)
	}
	return connection, err
}

// set sets the options of a connection. Errors are ignored: a broken connection fails anyway.
func (l *keepAlive) set(tcp *net.TCPConn) {
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: l.silence / 2, Interval: l.silence / (2 * probes), Count: probes,
	})
	if l.unacknowledged > 0 {
		_ = setUserTimeout(tcp, l.unacknowledged)
	}
}
