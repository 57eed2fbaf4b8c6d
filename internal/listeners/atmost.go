package listeners

import (
	"net"
	"sync"
)

// A limitedListener accepts a connection only when there is room. Further connections wait in the
// backlog.
type limitedListener struct {
	net.Listener
	places chan struct{}
	closed chan struct{}
	close  func() error
}

// AtMost returns a listener with at most that many open connections, or any number if most is 0 or
// less.
func AtMost(l net.Listener, most int) net.Listener {
	if most <= 0 {
		return l
	}
	closed := make(chan struct{})
	return &limitedListener{l, make(chan struct{}, most), closed, sync.OnceValue(func() error {
		close(closed)
		return l.Close()
	})}
}

// Accept waits for room, and then for a connection.
func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	connection, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &placedConn{connection, sync.OnceFunc(func() { <-l.places })}, nil
}

// Close closes the listener.
func (l *limitedListener) Close() error { return l.close() }

// A placedConn makes room for another connection when closed.
type placedConn struct {
	net.Conn
	leave func()
}

// Close closes the connection.
func (c *placedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
