package script

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
)

// A Pipeline runs several commands in one round trip, in order but not atomically. It is used once,
// from one goroutine.
type Pipeline struct {
	runner *Runner
	calls  []call
	room   [2]call // for the usual calls
}

// A call is a command of a pipeline.
type call struct {
	command string
	args    []any
	cmd     *redisx.Cmd
	sent    bool // to a server that may know the script
}

// Pipeline returns an empty pipeline.
func (r *Runner) Pipeline() *Pipeline {
	p := &Pipeline{runner: r}
	p.calls = p.room[:0]
	return p
}

// Add queues a command.
func (p *Pipeline) Add(name string, args ...any) {
	p.calls = append(p.calls, call{command: name, args: args})
}

// Len returns the number of added commands.
func (p *Pipeline) Len() int { return len(p.calls) }

// Call returns the name and the arguments of an added command.
func (p *Pipeline) Call(i int) (name string, args []any) {
	return p.calls[i].command, p.calls[i].args
}

// Reply returns the reply to a command, or its error, after Exec.
func (p *Pipeline) Reply(i int) (any, error) {
	cmd := p.calls[i].cmd
	if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	return cmd.Val(), nil
}

// AnyRan reports whether a command has a reply, after Exec.
func (p *Pipeline) AnyRan() bool {
	for i := range p.calls {
		if _, err := p.Reply(i); err == nil {
			return true
		}
	}
	return false
}

// Exec sends the commands. Commands answered with NOSCRIPT are sent again, the first one with the
// script's text.
func (p *Pipeline) Exec(ctx context.Context) {
	seen := p.runner.loader.seen()
	p.send(ctx, false)
	for p.isUnknown() {
		loaded, err := p.runner.loader.lead(ctx, seen)
		if err != nil {
			break
		}
		seen = p.runner.loader.seen()
		p.send(ctx, loaded != nil)
		if loaded != nil {
			loaded()
			break
		}
	}
	for i := range p.calls {
		if _, err := p.Reply(i); err != nil {
			p.runner.doubt(ctx, err)
		}
	}
}

// isUnknown reports whether a server did not have the script, and marks the commands to resend.
func (p *Pipeline) isUnknown() bool {
	found := false
	for i := range p.calls {
		c := &p.calls[i]
		c.sent = !isUnknown(c.cmd.Err())
		found = found || !c.sent
	}
	return found
}

// send sends the unsent commands, the first one with the text of the script if it must be loaded.
func (p *Pipeline) send(ctx context.Context, load bool) {
	var pipe redis.Pipeliner
	if len(p.calls) > 1 {
		pipe = p.runner.rdb.Pipeline()
	}
	for i := range p.calls {
		c := &p.calls[i]
		if c.sent {
			continue
		}
		facts := p.runner.script.Facts(c.command)
		c.cmd = p.runner.newCmd(ctx, facts, load, facts.Repeatable, c.args)
		if load = false; pipe == nil {
			_ = p.runner.rdb.Process(ctx, c.cmd) // cmd keeps the error
			return
		}
		_ = pipe.Process(ctx, c.cmd) // queued: the error comes with the reply
	}
	if pipe == nil {
		return
	}
	_, err := pipe.Exec(ctx)
	for i := range p.calls {
		if c := &p.calls[i]; !c.sent {
			c.fail(err)
		}
	}
}

// fail sets the pipeline's error on a command with neither a reply nor its own error, because there
// was no connection at all.
func (c *call) fail(err error) {
	if err != nil && c.cmd.Err() == nil && c.cmd.Val() == nil {
		c.cmd.SetErr(err)
	}
}
