package qless

import (
	"context"
	"time"

	"github.com/qless/qless-go/internal/calls"
	"github.com/qless/qless-go/internal/guard"
	"github.com/qless/qless-go/internal/script"
)

// A Command is one command of a client to the server, with its result.
type Command struct {
	// Name is the qless command, such as "put". It is "subscribe" for package events, and "take" for
	// package lease. Commands that set up a connection, and the subscription that workers and waits
	// share, are not observed.
	Name string

	// Queue and Klass describe the job or jobs. Each is empty if the command names none, or if
	// the jobs differ.
	Queue, Klass string

	// JID is the job of the command, or empty if there is none or more than one.
	JID string

	// Count is the number of jobs named, changed or returned by the command.
	Count int

	// Duration is the time until the reply. For "take", it includes the wait for a job.
	Duration time.Duration

	// Err is an [*Error], or nil if the command succeeded.
	Err error
}

// beginPut calls the put observer for jobs of one queue. The returned function takes the jid of a
// single job, and the error.
func (c *Client) beginPut(
	ctx context.Context, command string, puts ...*put,
) (context.Context, func(jid string, err error)) {
	call := Command{Name: command, Count: len(puts)}
	if len(puts) > 0 {
		call.Queue, call.Klass = puts[0].queue, puts[0].klass
	}
	if len(puts) == 1 {
		call.JID = puts[0].jid
	}
	for _, p := range puts {
		call.Queue, call.Klass = calls.Same(call.Queue, p.queue), calls.Same(call.Klass, p.klass)
	}
	return c.beginCall(ctx, call)
}

// beginCall calls the put observer for a call.
func (c *Client) beginCall(
	ctx context.Context, call Command,
) (context.Context, func(jid string, err error)) {
	if c.putObserver == nil {
		return ctx, notObserved
	}
	began := time.Now()
	ctx, end := c.putObserver(ctx, call)
	if end == nil {
		return ctx, notObserved
	}
	return ctx, func(jid string, err error) {
		call.Duration, call.Err = time.Since(began), err
		if call.JID != "" && jid != "" {
			call.JID = jid
		}
		end(call)
	}
}

func notObserved(string, error) {}

// observed calls the observer, which must not be nil, for a command.
func (c *Client) observed(
	ctx context.Context, op, jid string, args []any, reply any, sent time.Time, err error,
) {
	about := calls.Describe(op, jid, args, reply)
	c.observe(ctx, Command{
		Name: op, Queue: about.Queue, Klass: about.Klass, JID: about.JID, Count: about.Count,
		Duration: time.Since(sent), Err: err,
	})
}

// guard puts guards around the functions of the config.
func (c *ClientConfig) guard() {
	c.Logger = guard.Logger(c.Logger)
	c.Clock = guard.Clock(c.Clock, c.Logger)
	if observe, g := c.Observer, guard.New("ClientConfig.Observer", c.Logger); observe != nil {
		c.Observer = func(ctx context.Context, call Command) {
			_ = g.Call(func() { observe(ctx, call) })
		}
	}
	if next := c.NextHeaders; next != nil {
		g := guard.New("ClientConfig.NextHeaders", c.Logger).Patient(guard.Forever)
		c.NextHeaders = func(ctx context.Context, own map[string]string) map[string]string {
			headers, _ := guard.Value(g.Call, func() map[string]string { return next(ctx, own) })
			return headers
		}
	}
	c.guardPutObserver()
}

func (c *ClientConfig) guardPutObserver() {
	observe, g := c.PutObserver, guard.New("ClientConfig.PutObserver", c.Logger)
	if observe == nil {
		return
	}
	c.PutObserver = func(ctx context.Context, put Command) (context.Context, func(Command)) {
		begun, _ := guard.Value(g.Call, func() func() (context.Context, func(Command)) {
			inner, end := observe(ctx, put)
			return func() (context.Context, func(Command)) { return inner, end }
		})
		if begun == nil {
			return ctx, nil
		}
		inner, end := begun()
		if inner == nil {
			inner = ctx
		}
		if end == nil {
			return inner, nil
		}
		return inner, func(put Command) { _ = g.Call(func() { end(put) }) }
	}
}

// guardedHeaders returns the Headers of the config, with an error if they do not return.
func (c *ClientConfig) guardedHeaders() func(ctx context.Context) (map[string]string, error) {
	headers := c.Headers
	if headers == nil {
		return nil
	}
	return func(ctx context.Context) (map[string]string, error) {
		return guard.Value(guard.Call, func() map[string]string { return headers(ctx) })
	}
}

// exec executes a pipeline and calls the observer for each of its commands.
func (c *Client) exec(ctx context.Context, p *script.Pipeline) {
	sent := time.Now()
	p.Exec(ctx)
	if c.observe == nil {
		return
	}
	for i := range p.Len() {
		name, args := p.Call(i)
		reply, err := p.Reply(i)
		c.observed(ctx, name, "", args, reply, sent, wrap(name, "", err))
	}
}
