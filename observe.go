package qless

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/qless/qless-go/internal/script"
	"github.com/qless/qless-go/internal/wire"
)

// A Call is one command that a client has sent to the server, with its result.
type Call struct {
	// Command is the qless command, such as "put". A call of [Client.Events] is "subscribe", one of
	// [Client.Receive] is "receive". Commands that set up a connection, such as PING and INFO, and
	// the subscription that workers and waits share are not observed.
	Command string

	// Queue and Klass describe the job or jobs. Each is empty if the command names none, or if
	// the jobs differ.
	Queue, Klass string

	// JID is the job that the command is about. It is empty if there is none, or more than one.
	JID string

	// Count is the number of jobs that the command named, changed or returned.
	Count int

	// Duration is how long the reply took. Commands that were sent together have the duration of
	// the whole exchange. That of "receive" has the time in which there was no job.
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
// first one's context. [WithPutObserver] sees each put. Calls of [Client.Receive] ask the server
// together, too: what they send ("reserve", "finish") has a context of the client's, and each of
// them is a call of its own, "receive", when it returns, with its context, the jobs that it got,
// and the time that it waited for them.
//
// Used several times, all functions are called, in their order. If one panics in a goroutine of a
// worker or a receiver, that is logged, and those after it are not called; elsewhere, the caller gets
// the panic.
func WithObserver(observe func(ctx context.Context, call Call)) ClientOption {
	return func(c *Client) { c.observe = both(c.observe, observe) }
}

// both returns a function that calls two, either of which may be nil.
func both(first, second func(context.Context, Call)) func(context.Context, Call) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(ctx context.Context, call Call) {
		first(ctx, call)
		second(ctx, call)
	}
}

// WithPutObserver sets a function that is called before each call that puts jobs: [Queue.Put],
// [Queue.PutMany], [Queue.Call] and [CallFor], [Client.NewBatch], [Batch.Add] and
// [Client.RunSchedule], and those of [Shards], once for each shard. Its argument describes the put:
// the Command is "put", or "put.many" for PutMany and Add.
//
// The jobs are put with the context that it returns, which the function of [WithHeaders] gets too:
// so a span that begins here can go into the headers of the jobs. What it returns as done, unless
// nil, is called when the put is over, with the JID, the Duration and the Err. Arguments that are
// invalid by themselves are refused before.
//
// Unlike the function of [WithObserver], it sees each put, also when several go together. It does
// not see what the schedules of workers put. Used several times, all functions are called, in their
// order, each with the context of the one before; those for the end in the opposite order. It must
// be safe for concurrent use.
func WithPutObserver(
	begin func(ctx context.Context, put Call) (_ context.Context, done func(put Call)),
) ClientOption {
	return func(c *Client) {
		if begin != nil {
			c.putObservers = append(slices.Clip(c.putObservers), begin)
		}
	}
}

// beginPut calls the put observers for jobs of one queue. The function that it returns takes the
// jid of a single job, and the error.
func (c *Client) beginPut(
	ctx context.Context, command string, puts ...*put,
) (context.Context, func(jid string, err error)) {
	if c.putObservers == nil {
		return ctx, notObserved
	}
	call := Call{Command: command, Count: len(puts)}
	if len(puts) > 0 {
		call.Queue, call.Klass = puts[0].queue, puts[0].klass
	}
	if len(puts) == 1 {
		call.JID = puts[0].options.jid
	}
	for _, p := range puts {
		call.Queue, call.Klass = same(call.Queue, p.queue), same(call.Klass, p.klass)
	}
	return c.beginCall(ctx, call)
}

func notObserved(string, error) {}

// beginCall calls the put observers for a call.
func (c *Client) beginCall(
	ctx context.Context, call Call,
) (context.Context, func(jid string, err error)) {
	began := time.Now()
	var ends []func(Call)
	for _, begin := range c.putObservers {
		var end func(Call)
		if ctx, end = begin(ctx, call); end != nil {
			ends = append(ends, end)
		}
	}
	return ctx, func(jid string, err error) {
		call.Duration, call.Err = time.Since(began), err
		if call.JID != "" && jid != "" {
			call.JID = jid
		}
		for _, end := range slices.Backward(ends) {
			end(call)
		}
	}
}

// observed calls the observer, which must not be nil, for a command.
func (c *Client) observed(
	ctx context.Context, op, jid string, args []any, reply any, sent time.Time, err error,
) {
	call := Call{Command: op, JID: jid, Duration: time.Since(sent), Err: err}
	call.describe(args, reply)
	c.observe(ctx, call)
}

// guardObserver makes a panic of the observer harmless. It is for a client that this module's own
// goroutines use: elsewhere, the caller gets the panic.
func (c *Client) guardObserver() {
	observe, logger := c.observe, c.logger
	if observe == nil {
		return
	}
	c.observe = func(ctx context.Context, call Call) {
		defer panicHarmless(logger, "the observer of calls")
		observe(ctx, call)
	}
}

// guarded returns a copy of the client with a guarded observer.
func (c *Client) guarded() *Client {
	other := *c
	other.guardObserver()
	return &other
}

// panicHarmless is deferred around a function of the user's that this module's own goroutines call:
// if it panics, that is logged, and does not end the program.
func panicHarmless(logger *slog.Logger, what string) {
	if value := recover(); value != nil {
		logger.Error("qless: "+what+" panicked", "panic", value, "stack", string(debug.Stack()))
	}
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
	"cancel.found": {1, -1},
	"complete":     {2, -1},
	"jobs":         {1, -1},
	"length":       {0, -1},
	"move.many":    {1, -1},
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
	case "await", "result":
		c.JID, c.Count = argument(args, 0), 1
	case "progress":
		c.Count = (len(args) - 1) / 5
	case "reserve":
		c.Count = max(0, len(items(reply))-reservedHead-1)
		c.Queue = queueOfReserve(args)
	case "latency", "queues.ready":
		c.Queue = only(args, 0)
	case "sweep":
		c.Count, _ = decodeInt(c.Command, reply) // 0 if it failed
		if queue := only(args, 0); queue != AllQueues {
			c.Queue = queue
		}
	case "cancel.failed", "cancel.found", "change", "move.many", "unfail", "unfail.group",
		"unfail.jobs":
		c.Count = changed(reply)
	case "find", "list":
		c.describeList(args, reply)
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

// describeList describes a command that lists what is named by its second argument: a queue, unless
// its first argument says that it is a failure group or a tag.
func (c *Call) describeList(args []any, reply any) {
	if kind := List(argument(args, 0)); kind != listFailed && kind != listTagged {
		c.Queue = argument(args, 1)
	}
	var got struct{ Items []json.RawMessage }
	raw, _ := reply.(string)
	_ = json.Unmarshal([]byte(raw), &got)
	c.Count = len(got.Items)
}

// only returns the argument at an index if it is the last one.
func only(args []any, at int) string {
	if len(args) != at+1 {
		return ""
	}
	return argument(args, at)
}

// changed returns how many jobs a command has changed, by its reply: a number, or JSON that has it.
func changed(reply any) int {
	if n, err := decodeInt("", reply); err == nil {
		return n
	}
	raw, _ := reply.(string)
	var got struct{ Count wire.Number }
	_ = json.Unmarshal([]byte(raw), &got)
	return got.Count.Int()
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
	text, _, _ := besides(reply)
	raw, _ := text.(string)
	var list []json.RawMessage
	_ = json.Unmarshal([]byte(raw), &list)
	return len(list)
}
