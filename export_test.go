package qless

import "context"

// What the tests, which are outside of the package, need from its inside.

var (
	EncodeData    = encodeData
	FormatSeconds = formatSeconds
	FormatTime    = formatTime
	NeverRan      = neverRan
	Wrap          = wrap
)

// Run runs a script with any arguments.
func (c *Client) Run(ctx context.Context, op, jid string, args ...any) (any, error) {
	return c.run(ctx, op, jid, args...)
}

// Pipeline returns an empty pipeline of scripts.
func (c *Client) Pipeline() *pipeline { return &pipeline{runner: &c.runner} }

func (p *pipeline) Add(name string, args ...any) { p.add(name, args...) }

func (p *pipeline) Exec(ctx context.Context) ([]any, []error) { return p.exec(ctx) }

// ScriptSHA returns the digest by which a server knows a command.
func ScriptSHA(command string) string { return scriptOf(command).sha }

// ScriptText returns the flattened script of a command.
func ScriptText(command string) string { return scriptOf(command).text }

// Repeatable reports whether a command is sent again when its connection broke.
func Repeatable(command string) bool { return repeatable[command] }

// DecodeJobs reads a reply that is an array of jobs.
func (c *Client) DecodeJobs(reply any) ([]*Job, error) { return c.decodeJobs("test", reply) }

// DecodeEvent reads what was published on a channel.
func (c *Client) DecodeEvent(channel, payload string) Event { return c.decodeEvent(channel, payload) }

// DecodeReplies reads a text as each of the other replies that are JSON, and returns what it
// became, or the error.
func DecodeReplies(reply any) []any {
	stats, statsErr := decode[statsReply]("test", reply)
	queue, queueErr := decode[queueReply]("test", reply)
	recurring, recurringErr := decode[recurringReply]("test", reply)
	tags, tagsErr := decode[list[text]]("test", reply)
	counts, countsErr := decode[map[string]number]("test", reply)
	number, numberErr := decodeInt("test", reply)
	names, namesErr := decodeStrings("test", reply)
	return []any{
		stats.Wait.summary(), stats.Run.summary(), statsErr, queue.counts(), queueErr, recurring.job(nil), recurringErr,
		stringsOf(tags), tagsErr, counts, countsErr, number, numberErr, names, namesErr,
	}
}

// Send is Run without a look at the observer.
func (c *Client) Send(ctx context.Context, op, jid string, args []any) (any, error) {
	return c.send(ctx, op, jid, args)
}
