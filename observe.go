package qless

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/qless/qless-go/internal/script"
)

// A Call is one command that a client has sent to the server, with its result.
type Call struct {
	// Command is the qless command, such as "put". Subscriptions are "subscribe". Commands
	// that set up a connection, such as PING and INFO, are not observed.
	Command string

	// Queue and Klass describe the job or jobs. Each is empty if the command names none, or if
	// the jobs differ.
	Queue, Klass string

	// JID is the job that the command is about. It is empty if there is none, or more than one.
	JID string

	// Count is the number of jobs that the command named, changed or returned.
	Count int

	// Duration is how long the reply took. Commands that were sent together have the duration of
	// the whole exchange.
	Duration time.Duration

	// Err is an [*Error], or nil if the command succeeded.
	Err error
}

// MarshalJSON writes the duration in seconds, and Err as its text.
func (c Call) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Command  string  `json:"command"`
		Queue    string  `json:"queue,omitempty"`
		Klass    string  `json:"klass,omitempty"`
		JID      string  `json:"jid,omitempty"`
		Count    int     `json:"count"`
		Duration float64 `json:"duration"`
		Err      string  `json:"error,omitempty"`
	}{c.Command, c.Queue, c.Klass, c.JID, c.Count, secondsOf(c.Duration), textOf(c.Err)})
}

// WithObserver sets a function that is called once for every command that the client and its
// workers send to the server, after the reply, on the goroutine that sent it. It must be fast and
// safe for concurrent use.
//
// Puts of several goroutines that go together are one call, "put.many", with the values of the
// first one's context.
func WithObserver(observe func(ctx context.Context, call Call)) ClientOption {
	return func(c *Client) { c.observe = observe }
}

// observed calls the observer, which must not be nil, for a command.
func (c *Client) observed(
	ctx context.Context, op, jid string, args []any, reply any, sent time.Time, err error,
) {
	call := Call{Command: op, JID: jid, Duration: time.Since(sent), Err: err}
	call.describe(args, reply)
	c.observe(ctx, call)
}

// exec executes a pipeline and calls the observer for each of its commands.
func (c *Client) exec(ctx context.Context, p *script.Pipeline) ([]any, []error) {
	if c.observe == nil {
		return p.Exec(ctx)
	}
	sent := time.Now()
	replies, failures := p.Exec(ctx)
	for i, name := range p.Commands() {
		c.observed(ctx, name, "", p.Args(i), replies[i], sent, wrap(name, "", failures[i]))
	}
	return replies, failures
}

// describedBy holds the index of the queue and the klass in the arguments of a command; -1 means
// that there is none.
var describedBy = map[string]struct{ queue, klass int }{
	"complete":     {2, -1},
	"jobs":         {1, -1},
	"length":       {0, -1},
	"pause":        {0, -1},
	"peek":         {0, -1},
	"pop":          {0, -1},
	"put":          {1, 3},
	"queue.forget": {0, -1},
	"queues":       {0, -1},
	"recur":        {0, 2},
	"release":      {1, -1},
	"requeue":      {1, 3},
	"retry":        {1, -1},
	"schedule":     {3, 5},
	"stats":        {0, -1},
	"unfail":       {0, -1},
	"unpause":      {0, -1},
}

// describe fills in the fields of the call from the arguments and the reply.
func (c *Call) describe(args []any, reply any) {
	if at, found := describedBy[c.Command]; found && !(c.Command == "jobs" && len(args) < 5) {
		c.Queue, c.Klass = argument(args, at.queue), argument(args, at.klass)
	}
	if c.JID != "" {
		c.Count = 1
	}
	switch c.Command {
	case "put.many":
		c.describeBatch(args[1:], 6, 1, 0, 2)
	case "finish":
		c.describeBatch(args, 5, 1, 2, -1)
	case "cancel", "timeout":
		c.Count = len(args)
	case "renew":
		c.Count = len(args) - 1
	case "result":
		c.JID, c.Count = argument(args, 0), 1
	case "progress":
		c.Count = (len(args) - 1) / 5
	case "reserve":
		c.Count = max(0, len(items(reply))-reservedHead-1)
	case "unfail", "unfail.group":
		c.Count, _ = decodeInt(c.Command, reply) // 0 if it failed
	case "pop", "peek", "multiget":
		c.Count = lengthOf(reply)
	}
}

// describeBatch describes a command whose arguments, after the first, are those of several jobs:
// each has a number of fields, the last of which is how many more arguments follow.
func (c *Call) describeBatch(args []any, fields, jid, queue, klass int) {
	c.Count = 0
	for i := 1; i+fields <= len(args); c.Count++ {
		job := args[i : i+fields]
		if c.Count == 0 {
			c.JID, c.Queue, c.Klass = argument(job, jid), argument(job, queue), argument(job, klass)
		} else {
			c.JID = ""
			c.Queue = same(c.Queue, argument(job, queue))
			c.Klass = same(c.Klass, argument(job, klass))
		}
		more, _ := strconv.Atoi(argument(job, fields-1))
		i += fields + more
	}
}

// same returns a if it equals b, else the empty string.
func same(a, b string) string {
	if a == b {
		return a
	}
	return ""
}

// argument returns one of the arguments, or the empty string if there is none at that index.
func argument(args []any, at int) string {
	if at < 0 || at >= len(args) {
		return ""
	}
	return fmt.Sprint(args[at])
}

func items(reply any) []any {
	list, _ := reply.([]any)
	return list
}

// lengthOf returns the length of a JSON array, or 0 if the reply is not one.
func lengthOf(reply any) int {
	raw, _ := reply.(string)
	var list []json.RawMessage
	_ = json.Unmarshal([]byte(raw), &list)
	return len(list)
}
