package qless

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// A RecurringJob puts a job into its queue again and again. Its methods change it on the
// server, and the fields that they name here; jobs that it has put already stay as they
// are. It is not safe for concurrent use.
type RecurringJob struct {
	Backlog  int             // how many missed jobs are put at the most; 0 for all
	Count    int             // how many jobs it has put
	Data     json.RawMessage // the data of each job
	Interval time.Duration   // the time from one job to the next
	JID      string          // its id; its jobs are <jid>-1, <jid>-2 and so on
	Klass    string          // the klass of each job
	Priority int             // the priority of each job
	Queue    string          // where the jobs are put
	Retries  int             // the retries of each job
	Tags     []string        // the tags of each job

	client *Client
}

// RecurringJob returns a recurring job; [ErrNotFound] when there is none. It is the qless
// command recur.get.
func (c *Client) RecurringJob(ctx context.Context, jid string) (*RecurringJob, error) {
	if err := checkName("recur.get", "jid", jid); err != nil {
		return nil, err
	}
	reply, err := c.run(ctx, "recur.get", jid, jid)
	if err != nil {
		return nil, err
	}
	if reply == nil {
		return nil, &Error{Op: "recur.get", Code: CodeNotFound, JID: jid, Message: "no such recurring job"}
	}
	r, err := decode[recurringReply]("recur.get", reply)
	if err != nil {
		return nil, err
	}
	return r.job(c), nil
}

type recurringReply struct {
	Backlog  wire.Number          `json:"backlog"`
	Count    wire.Number          `json:"count"`
	Data     wire.Text            `json:"data"`
	Interval wire.Number          `json:"interval"`
	JID      wire.Text            `json:"jid"`
	Klass    wire.Text            `json:"klass"`
	Priority wire.Number          `json:"priority"`
	Queue    wire.Text            `json:"queue"`
	Retries  wire.Number          `json:"retries"`
	Tags     wire.List[wire.Text] `json:"tags"`
}

func (r *recurringReply) job(c *Client) *RecurringJob {
	return &RecurringJob{
		Backlog:  r.Backlog.Int(),
		Count:    r.Count.Int(),
		Data:     json.RawMessage(r.Data),
		Interval: r.Interval.Duration(),
		JID:      string(r.JID),
		Klass:    string(r.Klass),
		Priority: r.Priority.Int(),
		Queue:    string(r.Queue),
		Retries:  r.Retries.Int(),
		Tags:     wire.Strings(r.Tags),
		client:   c,
	}
}

// Cancel ends the recurring job; jobs that it has put stay. It is the qless command
// unrecur.
func (r *RecurringJob) Cancel(ctx context.Context) error {
	_, err := r.client.run(ctx, "unrecur", r.JID, r.JID)
	return err
}

// SetInterval changes the time from one job to the next, from the next one on.
func (r *RecurringJob) SetInterval(ctx context.Context, every time.Duration) error {
	if every <= 0 {
		return invalid("recur.update", r.JID, "the interval %v is not positive", every)
	}
	err := r.update(ctx, "interval", wire.FormatSeconds(every))
	if err == nil {
		r.Interval = every
	}
	return err
}

// SetPriority changes the priority of the jobs to come.
func (r *RecurringJob) SetPriority(ctx context.Context, priority int) error {
	if err := checkNumber("recur.update", r.JID, "priority", priority, math.MinInt32); err != nil {
		return err
	}
	err := r.update(ctx, "priority", strconv.Itoa(priority))
	if err == nil {
		r.Priority = priority
	}
	return err
}

// SetRetries changes the retries of the jobs to come.
func (r *RecurringJob) SetRetries(ctx context.Context, retries int) error {
	if err := checkNumber("recur.update", r.JID, "retries", retries, 0); err != nil {
		return err
	}
	err := r.update(ctx, "retries", strconv.Itoa(retries))
	if err == nil {
		r.Retries = retries
	}
	return err
}

// SetBacklog changes how many missed jobs are put at the most; 0 for all.
func (r *RecurringJob) SetBacklog(ctx context.Context, jobs int) error {
	if err := checkNumber("recur.update", r.JID, "backlog", jobs, 0); err != nil {
		return err
	}
	err := r.update(ctx, "backlog", strconv.Itoa(jobs))
	if err == nil {
		r.Backlog = jobs
	}
	return err
}

// SetKlass changes the klass of the jobs to come.
func (r *RecurringJob) SetKlass(ctx context.Context, klass string) error {
	if err := checkName("recur.update", "klass", klass); err != nil {
		return err
	}
	err := r.update(ctx, "klass", klass)
	if err == nil {
		r.Klass = klass
	}
	return err
}

// SetData changes the data of the jobs to come.
func (r *RecurringJob) SetData(ctx context.Context, data any) error {
	raw, err := encodeData("recur.update", r.JID, data)
	if err != nil {
		return err
	}
	if err = r.update(ctx, "data", raw); err == nil {
		r.Data = json.RawMessage(raw)
	}
	return err
}

// Move makes the jobs to come go to another queue.
func (r *RecurringJob) Move(ctx context.Context, queue string) error {
	if err := checkName("recur.update", "queue name", queue); err != nil {
		return err
	}
	err := r.update(ctx, "queue", queue)
	if err == nil {
		r.Queue = queue
	}
	return err
}

// update is the qless command recur.update, for one option.
func (r *RecurringJob) update(ctx context.Context, option, value string) error {
	_, err := r.client.run(ctx, "recur.update", r.JID, r.JID, option, value)
	return err
}

// Tag gives tags to the jobs to come. It is the qless command recur.tag.
func (r *RecurringJob) Tag(ctx context.Context, tags ...string) error {
	return r.changeTags(ctx, "recur.tag", tags)
}

// Untag takes tags from the jobs to come. It is the qless command recur.untag.
func (r *RecurringJob) Untag(ctx context.Context, tags ...string) error {
	return r.changeTags(ctx, "recur.untag", tags)
}

func (r *RecurringJob) changeTags(ctx context.Context, op string, tags []string) error {
	if err := checkNames(op, "tag", tags); err != nil {
		return err
	}
	reply, err := r.client.run(ctx, op, r.JID, anys([]any{r.JID}, tags...)...)
	if err != nil {
		return err
	}
	left, err := decode[wire.List[wire.Text]](op, reply)
	if err == nil {
		r.Tags = wire.Strings(left)
	}
	return err
}
