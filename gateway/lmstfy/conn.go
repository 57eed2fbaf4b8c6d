package lmstfy

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// A clientConn is a client's connection. It detects a client that goes away during a request, even
// if the client has sent more than the request: net/http looks no further than the first extra
// byte.
type clientConn struct {
	net.Conn

	mu       sync.Mutex
	deadline time.Time     // for reading, as last set
	stopping bool          // reading ahead must end
	looking  chan struct{} // closed when reading ahead has ended; nil if it is not running
	ahead    []byte        // was read ahead
	err      error         // why nothing more can be read
	gone     func()        // called when that is found out; may be nil
}

// past is a deadline that ends reading.
var past = time.Unix(1, 0)

// Read reads the next bytes. A read of a single byte may be net/http checking whether the client
// goes away. More data may follow it, so reading continues until the next call.
func (c *clientConn) Read(p []byte) (int, error) {
	c.stopLooking()
	c.mu.Lock()
	n, err := copy(p, c.ahead), c.err
	c.ahead = c.ahead[n:]
	c.mu.Unlock()
	if n > 0 {
		return n, nil
	}
	if err != nil {
		return 0, err
	}
	n, err = c.Conn.Read(p)
	if n == 1 && len(p) == 1 {
		c.look()
	}
	return n, err
}

// watch calls gone if the client goes away before stop is called. If unread is set, net/http does
// not check, because the body of the request must be read first.
func (c *clientConn) watch(unread bool, gone func()) (stop func()) {
	c.mu.Lock()
	c.gone = gone
	over := c.err != nil
	c.mu.Unlock()
	if over {
		gone()
	} else if unread {
		c.look()
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.gone = nil
	}
}

// look begins to read ahead, unless reading is under way.
func (c *clientConn) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.looking == nil && c.err == nil && len(c.ahead) <= maxAhead {
		c.looking = make(chan struct{})
		go c.readAhead(c.looking)
	}
}

// readAhead reads until the client goes away, or reading is stopped.
func (c *clientConn) readAhead(done chan struct{}) {
	defer close(done)
	buffer := make([]byte, 512)
	for {
		n, err := c.Conn.Read(buffer)
		if c.keep(buffer[:n], err) {
			return
		}
	}
}

// keep stores bytes that were read ahead. It reports whether reading ends.
func (c *clientConn) keep(read []byte, err error) (end bool) {
	c.mu.Lock()
	c.ahead = append(c.ahead, read...)
	full := len(c.ahead) > maxAhead // too much data ends the connection
	gone := c.gone
	failed := err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
	if failed {
		c.err = err
	}
	c.mu.Unlock()
	if (failed || full) && gone != nil {
		gone()
	}
	return err != nil || full
}

// stopLooking stops reading ahead.
func (c *clientConn) stopLooking() {
	c.mu.Lock()
	done := c.looking
	if done != nil {
		c.stopping = true
		_ = c.Conn.SetReadDeadline(past)
	}
	c.mu.Unlock()
	if done == nil {
		return
	}
	<-done
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looking, c.stopping = nil, false
	_ = c.Conn.SetReadDeadline(c.deadline)
}

// SetReadDeadline sets the deadline of reads.
func (c *clientConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	if c.stopping {
		return nil
	}
	return c.Conn.SetReadDeadline(t)
}

// SetDeadline sets the deadline of reads and writes.
func (c *clientConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// A clientListener accepts connections of clients.
type clientListener struct{ net.Listener }

// Accept returns the next connection.
func (l clientListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &clientConn{Conn: conn}, nil
}

// connKey is the context key of a request's connection.
type connKey struct{}

// maxAhead limits the memory allocated ahead for an announced body.
const maxAhead = 64 << 10
