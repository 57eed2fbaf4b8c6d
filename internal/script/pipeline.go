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
	runner    *Runner
	calls     []*call
	preloaded []*call
}

// call is a command of a pipeline.
type call struct {
	command *Command
	args    []any
	cmd     *redisx.Cmd
}

// Pipeline returns an empty pipeline.
func (r *Runner) Pipeline() *Pipeline { return &Pipeline{runner: r} }

// Add queues a command.
func (p *Pipeline) Add(name string, args ...any) {
	p.calls = append(p.calls, &call{command: p.runner.set.Command(name), args: args})
}

// Commands returns the names of the commands that were added.
func (p *Pipeline) Commands() []string {
	names := make([]string, len(p.calls))
	for i, c := range p.calls {
		names[i] = c.command.name
	}
	return names
}

// Args returns the arguments of a command that was added.
func (p *Pipeline) Args(i int) []any { return p.calls[i].args }

// Preload names a command, with arguments that make it do nothing. A server that does not know some
// script of the pipeline is sent this one first, so that it knows both or neither.
func (p *Pipeline) Preload(name string, args ...any) {
	p.preloaded = append(p.preloaded, &call{command: p.runner.set.Command(name), args: args})
}

// Exec sends the commands and returns the reply or error of each. Commands whose script the server
// did not know are sent once more, the first of each script with its text.
func (p *Pipeline) Exec(ctx context.Context) ([]any, []error) {
	p.send(ctx, p.calls, false)
	var unknown []*call
	for _, c := range p.calls {
		if redis.HasErrorPrefix(c.cmd.Err(), "NOSCRIPT") {
			unknown = append(unknown, c)
		}
	}
	if len(unknown) > 0 {
		p.send(ctx, append(p.preloaded, unknown...), true)
	}
	replies := make([]any, len(p.calls))
	failures := make([]error, len(p.calls))
	for i, c := range p.calls {
		if err := c.cmd.Err(); err != nil && !errors.Is(err, redis.Nil) {
			failures[i] = err
			p.runner.doubt(ctx, err)
		} else {
			replies[i] = c.cmd.Val()
		}
	}
	return replies, failures
}

// send sends some of the commands; with texts, the first of each script has its text.
func (p *Pipeline) send(ctx context.Context, calls []*call, texts bool) {
	pipe := p.runner.rdb.Pipeline()
	sent := map[*Command]bool{}
	for _, c := range calls {
		whole := texts && !sent[c.command]
		sent[c.command] = true
		c.cmd = p.runner.newCmd(ctx, c.command, whole, c.command.Repeatable(), c.args)
		_ = pipe.Process(ctx, c.cmd) // queued: the error comes with the reply
	}
	_, err := pipe.Exec(ctx)
	for _, c := range calls {
		c.fail(err)
	}
}

// fail sets the pipeline's error on a command that has neither a reply nor an error of its own,
// because there was no connection at all.
func (c *call) fail(err error) {
	if err != nil && c.cmd.Err() == nil && c.cmd.Val() == nil {
		c.cmd.SetErr(err)
	}
}
