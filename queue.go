package qless

import (
	"context"
	"strconv"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// A Queue is a named queue of jobs. It is only a name: making one costs nothing, and it is
// safe for concurrent use.
type Queue struct {
	client *Client
	name   string
}

// QueueCounts is how many jobs a queue has, by state.
type QueueCounts struct {
	Name      string
	Waiting   int
	Running   int
	Stalled   int // running, with a lock that has ended
	Scheduled int
	Depends   int
	Recurring int
	Paused    bool
}

// Name returns the queue's name.
func (q *Queue) Name() string { return q.name }

// Put puts a job into the queue and returns its jid. The klass names what is to be done.
// The data is stored as JSON: a [json.RawMessage] byte for byte, anything else marshalled
// once.
//
// Warning: with the [JID] of a job that exists, that job is moved here, whatever its state. One
// that is running is taken from its worker and runs twice at once; one that is complete runs again.
//
// A call that failed with [ErrUnavailable] may have put the job; to put it again with the
// same [JID] is safe only while no worker has taken it. It is the qless command put.
func (q *Queue) Put(ctx context.Context, klass string, data any, options ...PutOption) (string, error) {
	p, err := newPut(q.name, klass, data, options)
	if err != nil {
		return "", err
	}
	return p.options.jid, q.client.put(ctx, p)
}

// Pop locks at most count jobs for the client's worker and returns them: jobs whose lock
// has ended first, then by priority, then by age. There are fewer, or none, when the queue
// has no more, is paused, or runs as many as its max-concurrency allows.
//
// The lock lasts for the queue's heartbeat time (60 s unless the settings say otherwise),
// and must be renewed by [Job.Heartbeat] until the job is ended. The call is never sent
// twice: when it failed with [ErrUnavailable], jobs may be locked that come back when their
// locks end. It is the qless command pop.
func (q *Queue) Pop(ctx context.Context, count int) ([]*Job, error) {
	if err := q.checkCount("pop", count); err != nil {
		return nil, err
	}
	reply, err := q.client.run(ctx, "pop", "", q.name, q.client.worker, strconv.Itoa(count))
	if err != nil {
		return nil, err
	}
	return q.client.decodeJobs("pop", reply)
}

// Peek returns the jobs that are next, without locking them. Jobs that fell due are moved to the
// waiting ones. Pop may give fewer: it gives none of a paused queue, no more than max-concurrency
// allows, and none whose lock has ended until its worker has had the grace period. It is the
// qless command peek.
func (q *Queue) Peek(ctx context.Context, count int) ([]*Job, error) {
	if err := q.checkCount("peek", count); err != nil {
		return nil, err
	}
	reply, err := q.client.run(ctx, "peek", "", q.name, strconv.Itoa(count))
	if err != nil {
		return nil, err
	}
	return q.client.decodeJobs("peek", reply)
}

func (q *Queue) checkCount(op string, count int) error {
	if count < 1 {
		return invalid(op, "", "the count %d is not positive", count)
	}
	return q.check(op)
}

func (q *Queue) check(op string) error {
	return checkName(op, "queue name", q.name)
}

// Counts returns how many jobs the queue has. Jobs that fell due are moved to the waiting
// ones. It is the qless command queues.
func (q *Queue) Counts(ctx context.Context) (QueueCounts, error) {
	if err := q.check("queues"); err != nil {
		return QueueCounts{}, err
	}
	reply, err := q.client.run(ctx, "queues", "", q.name)
	if err != nil {
		return QueueCounts{}, err
	}
	counts, err := decode[queueReply]("queues", reply)
	return counts.counts(), err
}

// Queues returns the counts of every known queue, in the order in which they were first
// seen. Its cost grows with their number. It is the qless command queues.
func (c *Client) Queues(ctx context.Context) ([]QueueCounts, error) {
	reply, err := c.run(ctx, "queues", "")
	if err != nil {
		return nil, err
	}
	replies, err := decode[wire.List[queueReply]]("queues", reply)
	if err != nil {
		return nil, err
	}
	counts := make([]QueueCounts, len(replies))
	for i, r := range replies {
		counts[i] = r.counts()
	}
	return counts, nil
}

type queueReply struct {
	Name      wire.Text   `json:"name"`
	Waiting   wire.Number `json:"waiting"`
	Running   wire.Number `json:"running"`
	Stalled   wire.Number `json:"stalled"`
	Scheduled wire.Number `json:"scheduled"`
	Depends   wire.Number `json:"depends"`
	Recurring wire.Number `json:"recurring"`
	Paused    bool        `json:"paused"`
}

func (r queueReply) counts() QueueCounts {
	return QueueCounts{
		Name:      string(r.Name),
		Waiting:   r.Waiting.Int(),
		Running:   r.Running.Int(),
		Stalled:   r.Stalled.Int(),
		Scheduled: r.Scheduled.Int(),
		Depends:   r.Depends.Int(),
		Recurring: r.Recurring.Int(),
		Paused:    r.Paused,
	}
}

// Len returns how many jobs are running, waiting and scheduled, together. It is the qless
// command length.
func (q *Queue) Len(ctx context.Context) (int, error) {
	if err := q.check("length"); err != nil {
		return 0, err
	}
	reply, err := q.client.run(ctx, "length", "", q.name)
	if err != nil {
		return 0, err
	}
	return decodeInt("length", reply)
}

// Jobs returns the jids of the queue's jobs in a state: [StateWaiting] in the order of
// popping, [StateRunning] and [StateStalled] by the end of their locks, [StateScheduled]
// by when they fall due, [StateDepends] by age. It is the qless command jobs.
func (q *Queue) Jobs(ctx context.Context, state State, page Page) ([]string, error) {
	switch state {
	case StateWaiting, StateRunning, StateStalled, StateScheduled, StateDepends:
		return q.list(ctx, string(state), page)
	}
	return nil, invalid("jobs", "", "a queue has no list of jobs in state %q", state)
}

// Recurring returns the jids of the queue's recurring jobs, by when they fall due. It is
// the qless command jobs recurring.
func (q *Queue) Recurring(ctx context.Context, page Page) ([]string, error) {
	return q.list(ctx, "recurring", page)
}

func (q *Queue) list(ctx context.Context, kind string, page Page) ([]string, error) {
	if err := q.check("jobs"); err != nil {
		return nil, err
	}
	args, err := page.args("jobs")
	if err != nil {
		return nil, err
	}
	reply, err := q.client.run(ctx, "jobs", "", append([]any{kind, q.name}, args...)...)
	if err != nil {
		return nil, err
	}
	return decodeStrings("jobs", reply)
}

// Pause keeps jobs of the queue from being popped until it is unpaused. It is the qless
// command pause.
func (q *Queue) Pause(ctx context.Context) error { return q.do(ctx, "pause") }

// Unpause lets jobs of the queue be popped again. It is the qless command unpause.
func (q *Queue) Unpause(ctx context.Context) error { return q.do(ctx, "unpause") }

// Forget takes the queue off the list of known queues until a job is put into it. Its jobs
// stay. It is the qless command queue.forget.
func (q *Queue) Forget(ctx context.Context) error { return q.do(ctx, "queue.forget") }

func (q *Queue) do(ctx context.Context, op string) error {
	if err := q.check(op); err != nil {
		return err
	}
	_, err := q.client.run(ctx, op, "", q.name)
	return err
}

// Unfail moves at most count jobs of a failure group, the oldest failures first, into the
// queue with fresh retries, and returns how many. It is the qless command unfail.
func (q *Queue) Unfail(ctx context.Context, group string, count int) (int, error) {
	if err := q.checkCount("unfail", count); err != nil {
		return 0, err
	}
	if err := checkName("unfail", "group", group); err != nil {
		return 0, err
	}
	reply, err := q.client.run(ctx, "unfail", "", q.name, group, strconv.Itoa(count))
	if err != nil {
		return 0, err
	}
	return decodeInt("unfail", reply)
}

// Recur puts a job of this klass and data into the queue again and again, the first after
// its [Offset], and returns the jid of the recurring job. Jobs are put when the queue is
// popped; all that were missed, unless [Backlog] caps them. Their jids are <jid>-1,
// <jid>-2 and so on. Retries default to 5.
//
// With the [JID] of a recurring job that exists, that one is changed: what the options do not say
// has its default again. It keeps its time as long as its queue and interval stay the same, so
// that a program can call Recur each time it starts; the offset does not count then. With another
// queue or interval it starts over. It is the qless command recur.
func (q *Queue) Recur(ctx context.Context, klass string, data any, every time.Duration, options ...RecurOption) (string, error) {
	o := callOptions{jid: newJID()}
	Retries(5).applyRecur(&o)
	for _, option := range options {
		option.applyRecur(&o)
	}
	if err := q.checkRecur(klass, every, &o); err != nil {
		return "", err
	}
	raw, err := encodeData("recur", o.jid, data)
	if err != nil {
		return "", err
	}
	args := o.appendJob([]any{q.name, o.jid, klass, raw, "interval", wire.FormatSeconds(every), wire.FormatSeconds(o.offset)})
	if o.backlog != nil {
		args = append(args, "backlog", strconv.Itoa(*o.backlog))
	}
	args = append(args, "keep", "1")
	_, err = q.client.run(ctx, "recur", o.jid, args...)
	return o.jid, err
}

func (q *Queue) checkRecur(klass string, every time.Duration, o *callOptions) error {
	if err := q.check("recur"); err != nil {
		return err
	}
	if err := checkName("recur", "klass", klass); err != nil {
		return err
	}
	if err := checkName("recur", "jid", o.jid); err != nil {
		return err
	}
	if every <= 0 {
		return invalid("recur", o.jid, "the interval %v is not positive", every)
	}
	return o.check("recur")
}
