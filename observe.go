package qless

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
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

// beginPut calls the put observer for jobs of one queue. The function that it returns takes the
// jid of a single job, and the error.
func (c *Client) beginPut(
	ctx context.Context, command string, puts ...*put,
) (context.Context, func(jid string, err error)) {
	call := Call{Command: command, Count: len(puts)}
	if len(puts) > 0 {
		call.Queue, call.Klass = puts[0].queue, puts[0].klass
	}
	if len(puts) == 1 {
		call.JID = puts[0].jid
	}
	for _, p := range puts {
		call.Queue, call.Klass = same(call.Queue, p.queue), same(call.Klass, p.klass)
	}
	return c.beginCall(ctx, call)
}

// beginCall calls the put observer for a call.
func (c *Client) beginCall(
	ctx context.Context, call Call,
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

// panicHarmless recovers from a panic in a function of the user's that this module's own goroutines
// call, and logs it. It must be deferred.
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
	"complete":       {2, -1},
	"jobs":           {1, -1},
	"length":         {0, -1},
	"pause":          {0, -1},
	"peek":           {0, -1},
	"pop":            {0, -1},
	"put":            {1, 3},
	"queue.forget":   {0, -1},
	"queue.settings": {0, -1},
	"queues":         {0, -1},
	"recur":          {0, 2},
	"release":        {1, -1},
	"requeue":        {1, 3},
	"retry":          {1, -1},
	"schedule":       {3, 5},
	"stats":          {0, -1},
	"unfail":         {0, -1},
	"unpause":        {0, -1},
}

// describe fills in the fields of the call from the arguments and the reply.
func (c *Call) describe(args []any, reply any) {
	if at, found := describedBy[c.Command]; found && !(c.Command == "jobs" && len(args) < 5) {
		c.Queue, c.Klass = argumentAt(args, at.queue), argumentAt(args, at.klass)
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
		c.JID, c.Count = argumentAt(args, 0), 1
	case "progress":
		c.Count = (len(args) - 1) / 5
	case "reserve":
		c.Count = max(0, len(items(reply))-reservedHead-1)
		c.Queue = queueOfReserve(args)
	case "latency", "queues.ready":
		c.Queue = only(args, 0)
	case "sweep":
		c.Count, _ = decodeInt(c.Command, reply) // 0 if it failed
		if queue := only(args, 0); queue != allQueues {
			c.Queue = queue
		}
	case "cancel.all", "unfail":
		c.Count = changed(reply)
	case "find", "list":
		c.Queue = queueOfList(args, 0)
		c.Count = itemsOf(reply)
	case "repair":
		c.Queue = queueOfList(args, 2)
		c.Count = changed(reply)
	case "pop", "peek", "multiget":
		c.Count = lengthOf(reply)
	}
}

// describeBatch describes a command whose arguments, after the first, are those of several jobs:
// each has a number of fields, the last of which is how many more arguments follow. Jobs may also
// be named together, as finishArgs and putManyArgs do.
func (c *Call) describeBatch(args []any, fields, jid, queue, klass int) {
	c.Count = 0
	for i := 1; i+2 < len(args); {
		switch first := argumentAt(args, i); {
		case klass < 0 && first == "completed":
			n, _ := strconv.Atoi(argumentAt(args, i+2))
			c.describeJobs(n, argumentAt(args, i+3), argumentAt(args, i+1), "")
			i += 3 + n
		case klass >= 0 && first == "":
			more, _ := strconv.Atoi(argumentAt(args, i+4))
			jobs := args[min(i+5+more, len(args)):]
			c.describeJobs(len(jobs)/2, argumentAt(jobs, 0), argumentAt(args, i+1), argumentAt(args, i+2))
			return
		default:
			job := args[i:]
			c.describeJobs(1, argumentAt(job, jid), argumentAt(job, queue), argumentAt(job, klass))
			more, _ := strconv.Atoi(argumentAt(job, fields-1))
			i += fields + more
		}
	}
}

// describeJobs adds n jobs, of which the first has a jid, to the description of a call.
func (c *Call) describeJobs(n int, jid, queue, klass string) {
	if c.Count == 0 {
		c.JID, c.Queue, c.Klass = jid, queue, klass
	}
	c.Count += n
	if c.Count > 1 {
		c.JID, c.Queue, c.Klass = "", same(c.Queue, queue), same(c.Klass, klass)
	}
}

// queueOfList returns the queue of a list, which is named by the argument at an index and the one
// after it, or the empty string if it is not of a queue.
func queueOfList(args []any, at int) string {
	switch argumentAt(args, at) {
	case "failed", "tagged", "worker", "jids":
		return ""
	}
	return argumentAt(args, at+1)
}

// itemsOf returns the number of items in the JSON of a list.
func itemsOf(reply any) int {
	var got struct{ Items []json.RawMessage }
	raw, _ := reply.(string)
	_ = json.Unmarshal([]byte(raw), &got)
	return len(got.Items)
}

// only returns the argument at an index if it is the last one.
func only(args []any, at int) string {
	if len(args) != at+1 {
		return ""
	}
	return argumentAt(args, at)
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

// argumentAt returns one of the arguments, or the empty string if there is none at that index.
func argumentAt(args []any, at int) string {
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
	text, _, _ := largeData(reply)
	raw, _ := text.(string)
	var list []json.RawMessage
	_ = json.Unmarshal([]byte(raw), &list)
	return len(list)
}

// reserveArgs is how many arguments of the script reserve precede the pairs. The last one is how
// many these are, and the queues come after them.
const reserveArgs = 4

// reservedHead is how many items precede the jobs in a reply of the script reserve.
const reservedHead = 4

// queueOfReserve returns the queue that some arguments of the script reserve name, if it is only
// one.
func queueOfReserve(args []any) string {
	pairs, err := strconv.Atoi(argumentAt(args, reserveArgs-1))
	if err != nil {
		return ""
	}
	return only(args, reserveArgs+pairs)
}
