package workq

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/listeners"
	"github.com/qless/qless-go/internal/redisx"
)

// A conn is a connection of a client.
type conn struct {
	server *Server
	net    net.Conn
	in     *bufio.Reader
	half   time.Time // when the client stopped sending; it may still read
}

// bufferSize limits how much data is read ahead.
const bufferSize = 4096

func newConn(s *Server, connection net.Conn) *conn {
	return &conn{server: s, net: connection, in: bufio.NewReaderSize(connection, bufferSize)}
}

// past is a deadline that ends reading.
var past = time.Unix(1, 0)

// interrupt ends a read that waits for a command.
func (c *conn) interrupt() { _ = c.net.SetReadDeadline(past) }

// readWithin limits how long reading may take; 0 means no limit.
func (c *conn) readWithin(d time.Duration) {
	_ = c.net.SetReadDeadline(deadline(d))
	if c.server.drain.Stopped() {
		c.interrupt()
	}
}

func deadline(d time.Duration) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}

// serve answers commands until the connection ends.
func (c *conn) serve() {
	defer func() {
		c.server.clients.Add(-1)
		_ = c.net.Close()
	}()
	for !c.server.drain.Stopped() {
		c.readWithin(c.server.config.IdleTimeout)
		if _, err := c.in.Peek(1); err != nil {
			return
		}
		c.readWithin(c.server.config.CommandTimeout)
		request, err := readCommand(c.in)
		var refused refusal
		switch {
		case errors.As(err, &refused):
			err = c.write(refusalReply(refused))
		case err == nil:
			err = c.answer(&request)
		}
		if err != nil {
			return
		}
	}
}

func refusalReply(r refusal) []byte { return []byte("-" + string(r) + "\r\n") }

// write sends a reply.
func (c *conn) write(reply []byte) error {
	_ = c.net.SetWriteDeadline(deadline(c.server.config.WriteTimeout))
	_, err := c.net.Write(reply)
	return err
}

// answer carries out a command, and sends the reply.
func (c *conn) answer(request *command) error {
	if request.name == "lease" {
		return c.lease(request)
	}
	reply, err := c.do(request)
	if err != nil {
		return c.refuse(request.name, err)
	}
	return c.write(reply)
}

// refuse answers a command with an error. To a client, an error means that nothing was done. If
// that is not certain, refuse sends no answer, and the error ends the connection.
func (c *conn) refuse(name string, err error) error {
	if name != "result" && name != "inspect" && isUnsure(err) {
		c.server.log.Warn("workq: closing a connection, because a command may or may not be done",
			"command", name, "error", err)
		return err
	}
	return c.write(refusalReply(c.refusalFor(name, err)))
}

// An unsureError is the error of a command that may have been carried out in part.
type unsureError struct{ error }

// isUnsure reports whether a command with this error may have taken effect.
func isUnsure(err error) bool {
	var partly unsureError
	if errors.As(err, &partly) || errors.Is(err, qless.ErrNotReplicated) {
		return true
	}
	var own *qless.Error
	return errors.As(err, &own) && own.Code == qless.ErrUnavailable && !redisx.NeverRan(own.Err)
}

// do carries out a command, and returns the reply.
func (c *conn) do(request *command) ([]byte, error) {
	switch request.name {
	case "add", "schedule":
		return c.add(request)
	case "run":
		return c.run(request)
	case "complete", "fail":
		return c.finish(request)
	case "delete":
		return c.delete(request)
	case "result":
		return c.result(request)
	case "inspect":
		return c.inspect(request)
	}
	return nil, errUnknown
}

// refusalFor returns the refusal that answers a command with an error.
func (c *conn) refusalFor(name string, err error) refusal {
	var refused refusal
	if errors.As(err, &refused) {
		return refused
	}
	c.server.log.Warn("workq: a command failed", "command", name, "error", err)
	if errors.Is(err, qless.ErrUnavailable) {
		return errReadOnly
	}
	var own *qless.Error
	if errors.As(err, &own) && own.Code == qless.ErrServer {
		return errReadOnly
	}
	return errQueueOutOfSync
}

// within returns the context for a command to Redis.
func (c *conn) within() (context.Context, context.CancelFunc) {
	return contextOf(c.server.end, time.Now().Add(c.server.config.ServerTimeout))
}

// waiting returns the context for a command that waits until a time.
func (c *conn) waiting(until time.Time) (context.Context, context.CancelFunc) {
	return contextOf(c.server.drain, until)
}

func contextOf(stop *listeners.Stop, until time.Time) (context.Context, context.CancelFunc) {
	limited, cancel := context.WithDeadline(context.Background(), until)
	ctx, leave := stop.Context(limited)
	return ctx, func() { leave(); cancel() }
}

// watchAfter is how long a command waits before its connection is watched. Most commands are
// answered sooner, and cost no goroutine.
const watchAfter = 5 * time.Millisecond

// watch calls cancel if the client goes away before stop is called. A client that stopped sending
// may have gone, or may still read: it may wait for the PeerTimeout, unless its place is needed.
// Data sent ahead by the client stays in the buffer.
func (c *conn) watch(cancel context.CancelFunc) (stop func()) {
	c.readWithin(0)
	if c.server.drain.Stopped() {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	timer := time.AfterFunc(watchAfter, func() {
		defer close(done)
		if c.leaves(quit) {
			cancel()
		}
	})
	return func() {
		if !timer.Stop() {
			close(quit)
			c.interrupt()
			<-done
		}
		c.noteEnd(hasEnded(c.net)) // watching may have been interrupted before it saw the end
	}
}

// noteEnd notes whether the client has ended its side.
func (c *conn) noteEnd(ended bool) {
	if ended && c.half.IsZero() {
		c.half = time.Now()
	}
}

// leaves waits until the client goes away or quit is closed. It reports whether the client has
// gone.
func (c *conn) leaves(quit <-chan struct{}) bool {
	if c.half.IsZero() {
		err := c.readAhead()
		for err == nil { // the buffer is full, but the end has not been read
			select {
			case <-quit:
				return false
			case <-time.After(lookInterval):
				err = look(c.net)
			}
		}
		if !errors.Is(err, io.EOF) {
			return !errors.Is(err, os.ErrDeadlineExceeded)
		}
		c.noteEnd(true)
	}
	return c.server.linger(c, quit)
}

// lookInterval is how often a connection is checked once nothing more can be read.
const lookInterval = time.Second

// readAhead reads into the buffer until the buffer is full, the client sends no more or goes away,
// or reading is interrupted.
func (c *conn) readAhead() error {
	for n := c.in.Buffered() + 1; n <= c.in.Size(); n = c.in.Buffered() + 1 {
		if _, err := c.in.Peek(n); err != nil {
			return err
		}
	}
	return nil
}

// A lingerer is a connection with a waiting command after the client stopped sending. Most such
// clients have gone.
type lingerer struct {
	conn *conn
	out  chan struct{} // closed when its place is needed
}

// linger waits until the client of a connection is considered gone or quit is closed. It reports
// whether the client is gone.
func (s *Server) linger(c *conn, quit <-chan struct{}) bool {
	l := &lingerer{c, make(chan struct{})}
	s.mu.Lock()
	s.lingering = append(s.lingering, l)
	s.mu.Unlock()
	defer s.forget(l)
	var over <-chan time.Time
	if s.config.PeerTimeout > 0 {
		timer := time.NewTimer(time.Until(c.half.Add(s.config.PeerTimeout)))
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-quit:
		return false
	case <-l.out:
	case <-over:
	}
	return true
}

func (s *Server) forget(l *lingerer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lingering = slices.DeleteFunc(s.lingering, func(other *lingerer) bool { return other == l })
}

// makeRoom closes the connection that has lingered longest. It reports whether there was one. The
// mutex is held.
func (s *Server) makeRoom() bool {
	if len(s.lingering) == 0 {
		return false
	}
	l := s.lingering[0]
	s.lingering = s.lingering[1:]
	delete(s.conns, l.conn)
	_ = l.conn.net.Close()
	close(l.out)
	return true
}
