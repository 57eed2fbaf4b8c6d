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
	calls  []*call
}

// A call is a command of a pipeline.
type call struct {
	command string
	args    []any
	cmd     *redisx.Cmd
}

// Pipeline returns an empty pipeline.
func (r *Runner) Pipeline() *Pipeline { return &Pipeline{runner: r} }

// Add queues a command.
func (p *Pipeline) Add(name string, args ...any) {
	p.calls = append(p.calls, &call{command: name, args: args})
}

// Commands returns the names of the commands that were added.
func (p *Pipeline) Commands() []string {
	names := make([]string, len(p.calls))
	for i, c := range p.calls {
		names[i] = c.command
	}
	return names
}

// Args returns the arguments of a command that was added.
func (p *Pipeline) Args(i int) []any { return p.calls[i].args }

// Exec sends the commands and returns the reply or error of each. Commands that a server answered
// with NOSCRIPT are sent again, the first one with the script's text.
func (p *Pipeline) Exec(ctx context.Context) ([]any, []error) {
	seen := p.runner.loader.seen()
	p.send(ctx, p.calls, false)
	for unknown := p.unknown(); len(unknown) > 0; unknown = p.unknown() {
		loaded, err := p.runner.loader.lead(ctx, seen)
		if err != nil {
			break
		}
		seen = p.runner.loader.seen()
		p.send(ctx, unknown, loaded != nil)
		if loaded != nil {
			loaded()
			break
		}
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

// unknown returns the commands for which a server did not have the script.
func (p *Pipeline) unknown() []*call {
	var unknown []*call
	for _, c := range p.calls {
		if isUnknown(c.cmd.Err()) {
			unknown = append(unknown, c)
		}
	}
	return unknown
}

// send sends some of the commands, the first one with the text of the script if it must be loaded.
func (p *Pipeline) send(ctx context.Context, calls []*call, load bool) {
	for i, c := range calls {
		repeatable := p.runner.script.Facts(c.command).Repeatable
		c.cmd = p.runner.newCmd(ctx, c.command, load && i == 0, repeatable, c.args)
	}
	if len(calls) == 1 {
		_ = p.runner.rdb.Process(ctx, calls[0].cmd) // which keeps the error
		return
	}
	pipe := p.runner.rdb.Pipeline()
	for _, c := range calls {
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
