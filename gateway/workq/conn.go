package workq

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/qless/qless-go"
)

// A conn is a connection of a client.
type conn struct {
	server *Server
	net    net.Conn
	in     *bufio.Reader
	half   bool // the client sends no more; it may still read
}

// bufferSize is how much of what a client has sent ahead is read.
const bufferSize = 4096

func newConn(s *Server, connection net.Conn) *conn {
	return &conn{server: s, net: connection, in: bufio.NewReaderSize(connection, bufferSize)}
}

// past is a deadline that ends reading.
var past = time.Unix(1, 0)

// interrupt ends a read that waits for a command.
func (c *conn) interrupt() { _ = c.net.SetReadDeadline(past) }

// readWithin sets how long reading may take; 0 is without limit.
func (c *conn) readWithin(d time.Duration) {
	_ = c.net.SetReadDeadline(deadline(d))
	if c.server.draining.Err() != nil {
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
	for c.server.draining.Err() == nil {
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
		reply = refusalReply(c.refusalFor(request.name, err))
	}
	return c.write(reply)
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
	if errors.As(err, &own) && own.Code == qless.CodeServer {
		return errReadOnly
	}
	return errQueueOutOfSync
}

// within returns the context of a question to Redis.
func (c *conn) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.server.ended, c.server.config.ServerTimeout)
}

// watchAfter is how long a command waits before it is watched whether the client goes away. Most
// have been answered by then, and cost no goroutine.
const watchAfter = 5 * time.Millisecond

// watch notices meanwhile if the client goes away, and cancels then. What the client has sent ahead
// stays in the buffer; when that is full, nothing more is noticed. stop ends watching.
func (c *conn) watch(cancel context.CancelFunc) (stop func()) {
	c.readWithin(0)
	if c.half || c.server.draining.Err() != nil {
		return func() {}
	}
	done := make(chan struct{})
	timer := time.AfterFunc(watchAfter, func() {
		defer close(done)
		c.readAhead(cancel)
	})
	return func() {
		if timer.Stop() {
			c.half = hasEnded(c.net)
			return
		}
		c.interrupt()
		<-done
	}
}

// readAhead reads into the buffer until it is interrupted, or the client goes away.
func (c *conn) readAhead(cancel context.CancelFunc) {
	for n := c.in.Buffered() + 1; n <= c.in.Size(); n = c.in.Buffered() + 1 {
		_, err := c.in.Peek(n)
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			c.half = true
		case !errors.Is(err, os.ErrDeadlineExceeded):
			cancel()
		}
		return
	}
}
