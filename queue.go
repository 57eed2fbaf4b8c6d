package qless

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/wire"
)

// A Queue is a lightweight handle to a named queue of jobs, safe for concurrent use.
type Queue struct {
	client *Client
	name   string
}

// QueueCounts holds the numbers of jobs of a queue, by state.
type QueueCounts struct {
	Name      string `json:"name"`
	Waiting   int    `json:"waiting"`
	Running   int    `json:"running"`
	Stalled   int    `json:"stalled"` // running with an expired lock
	Scheduled int    `json:"scheduled"`
	Depends   int    `json:"depends"`
	Recurring int    `json:"recurring"`
	Paused    bool   `json:"paused"`
}

// Name returns the queue's name.
func (q *Queue) Name() string { return q.name }

// Put puts a job into the queue and returns its jid.
//
// The data is stored as JSON. A [json.RawMessage], or a []byte that is JSON, is stored byte for
// byte; another []byte is [ErrInvalid]. Anything else is passed to [json.Marshal], so a string
// becomes a JSON string. Nil becomes an empty object.
//
// An existing job with the given [JID] is overwritten and put again, unless an [If] refuses that.
//
// A put without a JID is sent again if the connection breaks before the reply, as the server knows
// whether it already has the job. A put with a JID is sent once, and so is one with a [TTL],
// [KeepFor] or [KeepFailedFor] of less than a minute.
//
// Put returns the jid even with an error other than ErrInvalid. After [ErrUnavailable], the job may
// exist. Put it again with this jid and [IfAbsent]: [ErrExists] then tells that it does.
func (q *Queue) Put(
	ctx context.Context, klass string, data any, options ...PutOption,
) (jid string, err error) {
	p, err := newPut(q.name, JobSpec{klass, data, options})
	if err != nil {
		return "", err
	}
	return q.client.put(ctx, p)
}

// popBatchSize is the maximum number of jobs popped by a script.
const popBatchSize = 100

// Pop locks at most count jobs for the client's worker and returns them: first jobs whose locks
// have expired, then by priority, then by age. It returns fewer, or none, if the queue has no more,
// is paused, or has reached its max-concurrency.
//
// The lock must be renewed with [Job.Heartbeat] until the job is ended. After [ErrUnavailable],
// there may be locked jobs, which can be popped again when their locks expire. A job with thousands
// of Dependents may be returned without them: see [Job.Refresh].
func (q *Queue) Pop(ctx context.Context, count int) ([]*Job, error) {
	if err := q.checkCount("pop", count); err != nil {
		return nil, err
	}
	jobs := []*Job{}
	for len(jobs) < count {
		n := min(count-len(jobs), popBatchSize)
		reply, err := q.client.run(ctx, "pop", "", q.name, q.client.worker, strconv.Itoa(n), "timed")
		var some []*Job
		var rest string
		if err == nil {
			some, rest, err = q.client.decodePopped(reply)
		}
		if err != nil && len(jobs) == 0 {
			return nil, err
		}
		jobs = append(jobs, some...)
		if err != nil || len(some) < n && rest == "" {
			break
		}
	}
	_ = q.client.readDependents(ctx, jobs...) // they are locked, so they are returned without
	return jobs, nil
}

// Peek returns the next jobs without locking them, also those of a paused queue. Scheduled jobs
// that are due become waiting.
func (q *Queue) Peek(ctx context.Context, count int) ([]*Job, error) {
	if err := q.checkCount("peek", count); err != nil {
		return nil, err
	}
	jobs, known := []*Job{}, map[string]bool{}
	for cursor := ""; ; {
		wanted := strconv.Itoa(count - len(jobs))
		reply, err := q.client.run(ctx, "peek", "", q.name, wanted, "beside", cursor)
		if err != nil {
			return nil, err
		}
		some, next, err := q.client.decodeJobs("peek", reply)
		if err != nil {
			return nil, err
		}
		if err := q.client.readDependents(ctx, some...); err != nil {
			return nil, err
		}
		for _, job := range some {
			if !known[job.JID] {
				known[job.JID], jobs = true, append(jobs, job)
			}
		}
		if next == "" || len(jobs) == count {
			return jobs, nil
		}
		cursor = next
	}
}

// maxReserve is the maximum number of queues of a call, and of jobs that it asks for.
const maxReserve = 1000

// checkCount checks the number of jobs asked for by a call.
func checkCount(op string, count int) error {
	if count < 1 || count > math.MaxInt32 {
		return invalid(op, "", "the count %d is not from 1 to %d", count, math.MaxInt32)
	}
	return nil
}

func (q *Queue) checkCount(op string, count int) error {
	if err := checkCount(op, count); err != nil {
		return err
	}
	return q.check(op)
}

func (q *Queue) check(op string) error {
	return checkName(op, "queue name", q.name)
}

// Counts returns the numbers of the queue's jobs, by state. Due jobs count as waiting.
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

// Queues returns the counts of every known queue, in the order of their first jobs.
func (c *Client) Queues(ctx context.Context) ([]QueueCounts, error) {
	counts := []QueueCounts{}
	for cursor := ""; ; {
		reply, err := c.run(ctx, "queues", "", "", "from", cursor)
		if err != nil {
			return nil, err
		}
		part, err := decode[struct {
			Cursor wire.Text             `json:"cursor"`
			Queues wire.List[queueReply] `json:"queues"`
		}]("queues", reply)
		if err != nil {
			return nil, err
		}
		for _, r := range part.Queues {
			counts = append(counts, r.counts())
		}
		if cursor = string(part.Cursor); cursor == "" {
			return counts, nil
		}
	}
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

// Pause keeps jobs of the queue from being popped until [Queue.Resume] is called.
func (q *Queue) Pause(ctx context.Context) error { return q.do(ctx, "pause") }

// Resume lets jobs of the queue be popped again.
func (q *Queue) Resume(ctx context.Context) error { return q.do(ctx, "unpause") }

func (q *Queue) do(ctx context.Context, op string) error {
	if err := q.check(op); err != nil {
		return err
	}
	_, err := q.client.run(ctx, op, "", q.name)
	return err
}

// Recur puts a job of this klass and data into the queue at regular intervals, the first after the
// [Offset], and returns the jid of the recurring job. Jobs are put when the queue is popped,
// including all that were missed unless [Backlog] limits them. Their jids are <jid>-1, <jid>-2 and
// so on.
//
// A recurring job with the given [JID] is changed, and options that are not given are reset to
// their defaults. The schedule continues as long as the queue and the interval stay the same, so a
// program can call Recur each time it starts.
func (q *Queue) Recur(
	ctx context.Context, klass string, data any, every time.Duration, options ...RecurOption,
) (jid string, err error) {
	retries := 5
	o := recurOptions{Options: jobopts.Options{JID: newJID(), Retries: &retries}}
	if err := applyOptions("recur", "", &o, options, RecurOption.applyRecur); err != nil {
		return "", err
	}
	if err := q.checkRecur(klass, every, &o); err != nil {
		return "", err
	}
	raw, err := encodeData("recur", o.JID, data)
	if err == nil {
		raw, err = q.client.encode("recur", o.JID, klass, "data", raw)
	}
	if err != nil {
		return "", err
	}
	args := o.JobArgs([]any{
		q.name, o.JID, klass, raw, "interval", wire.FormatSeconds(every), wire.FormatSeconds(o.offset),
	})
	if o.backlog != 0 {
		args = append(args, "backlog", strconv.Itoa(o.backlog))
	}
	args = append(args, "keep", "1")
	_, err = q.client.run(ctx, "recur", o.JID, args...)
	return o.JID, err
}

func (q *Queue) checkRecur(klass string, every time.Duration, o *recurOptions) error {
	if err := q.check("recur"); err != nil {
		return err
	}
	if err := checkName("recur", "klass", klass); err != nil {
		return err
	}
	if err := checkName("recur", "jid", o.JID); err != nil {
		return err
	}
	if every <= 0 {
		return invalid("recur", o.JID, "the interval %v is not positive", every)
	}
	if o.offset < 0 {
		return invalid("recur", o.JID, "the offset %v is negative", o.offset)
	}
	if err := checkNumber("recur", o.JID, "backlog", o.backlog, 0); err != nil {
		return err
	}
	return checkOptions("recur", o.JID, &o.Options)
}
