package qless

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// A RecurringJob is a snapshot of a job that is put into its queue again and again. Methods that
// take a context change it on the server and never the struct, except for [RecurringJob.Refresh].
// Jobs that it has already put stay as they are. It is not safe for concurrent use.
//
// A RecurringJob that did not come from a client, such as RecurringJob{}, has no client: its
// methods return [ErrInvalid].
type RecurringJob struct {
	// Backlog is how many missed jobs are put at most; 0 means all of them.
	Backlog int `json:"backlog"`

	// Count is how many jobs it has put.
	Count int `json:"count"`

	// Data is the data of each job.
	Data json.RawMessage `json:"data,omitempty"`

	// Interval is the time from one job to the next. In JSON it is a number of seconds.
	Interval time.Duration `json:"interval"`

	// JID is its id; its jobs are <jid>-1, <jid>-2 and so on.
	JID string `json:"jid"`

	// Klass is the klass of each job.
	Klass string `json:"klass"`

	// Priority is the priority of each job, read like [Job.Priority].
	Priority int `json:"priority"`

	// Queue is the queue that the jobs are put into.
	Queue string `json:"queue"`

	// Retries is how many retries each job has.
	Retries int `json:"retries"`

	// Tags are the tags of each job.
	Tags []string `json:"tags,omitempty"`

	client *Client
}

// MarshalJSON writes the interval as a number of seconds, and Data that is no JSON as a string.
func (r RecurringJob) MarshalJSON() ([]byte, error) {
	type fields RecurringJob
	r.Data = shownJSON(r.Data)
	return marshalFields(struct {
		fields
		Interval float64 `json:"interval"`
	}{fields(r), secondsOf(r.Interval)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (r *RecurringJob) UnmarshalJSON(text []byte) error {
	type fields RecurringJob
	read := struct {
		fields
		Interval float64 `json:"interval"`
	}{fields(*r), secondsOf(r.Interval)}
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	*r = RecurringJob(read.fields)
	r.Interval = durationOf(read.Interval)
	return nil
}

// RecurringJob returns a recurring job, or [ErrNotFound].
func (c *Client) RecurringJob(ctx context.Context, jid string) (*RecurringJob, error) {
	if err := checkName("recur.get", "jid", jid); err != nil {
		return nil, err
	}
	reply, err := c.run(ctx, "recur.get", jid, jid)
	if err != nil {
		return nil, err
	}
	if reply == nil {
		return nil, &Error{Op: "recur.get", Code: CodeNotFound, JID: jid,
			Message: "no such recurring job"}
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
	// Data that can't be decoded stays as it is.
	data, _ := c.decode(string(r.JID), "data", string(r.Data))
	return &RecurringJob{
		Backlog:  r.Backlog.Int(),
		Count:    r.Count.Int(),
		Data:     data,
		Interval: r.Interval.Duration(),
		JID:      string(r.JID),
		Klass:    string(r.Klass),
		Priority: r.Priority.LargeInt(),
		Queue:    string(r.Queue),
		Retries:  r.Retries.Int(),
		Tags:     wire.Strings(r.Tags),
		client:   c,
	}
}

// usable returns an error if the recurring job has no client.
func (r *RecurringJob) usable(op string) error {
	if r.client == nil {
		return invalid(op, r.JID, "the recurring job has no client: it did not come from a server")
	}
	return nil
}

// run runs a command about the recurring job.
func (r *RecurringJob) run(ctx context.Context, op string, args ...any) error {
	if err := r.usable(op); err != nil {
		return err
	}
	_, err := r.client.run(ctx, op, r.JID, args...)
	return err
}

// Refresh reads the recurring job again, with all its fields. If it no longer exists, the error is
// [ErrNotFound].
func (r *RecurringJob) Refresh(ctx context.Context) error {
	if err := r.usable("recur.get"); err != nil {
		return err
	}
	fresh, err := r.client.RecurringJob(ctx, r.JID)
	if err == nil {
		*r = *fresh
	}
	return err
}

// Cancel deletes the recurring job; jobs that it has put are kept.
func (r *RecurringJob) Cancel(ctx context.Context) error {
	return r.run(ctx, "unrecur", r.JID)
}

// SetInterval changes the interval, starting after the next job.
func (r *RecurringJob) SetInterval(ctx context.Context, every time.Duration) error {
	if every <= 0 {
		return invalid("recur.update", r.JID, "the interval %v is not positive", every)
	}
	return r.update(ctx, "interval", wire.FormatSeconds(every))
}

// SetPriority changes the priority of future jobs.
func (r *RecurringJob) SetPriority(ctx context.Context, priority int) error {
	return r.updateNumber(ctx, "priority", priority, math.MinInt32)
}

// SetRetries changes the retries of future jobs.
func (r *RecurringJob) SetRetries(ctx context.Context, retries int) error {
	return r.updateNumber(ctx, "retries", retries, 0)
}

// SetBacklog changes how many missed jobs are put at most; 0 means all of them.
func (r *RecurringJob) SetBacklog(ctx context.Context, jobs int) error {
	return r.updateNumber(ctx, "backlog", jobs, 0)
}

// SetKlass changes the klass of future jobs.
func (r *RecurringJob) SetKlass(ctx context.Context, klass string) error {
	if err := checkName("recur.update", "klass", klass); err != nil {
		return err
	}
	return r.update(ctx, "klass", klass)
}

// SetData changes the data of future jobs. It is encoded as by [Queue.Put].
func (r *RecurringJob) SetData(ctx context.Context, data any) error {
	if err := r.usable("recur.update"); err != nil {
		return err
	}
	raw, err := encodeData("recur.update", r.JID, data)
	if err == nil {
		raw, err = r.client.encode("recur.update", r.JID, r.Klass, "data", raw)
	}
	if err != nil {
		return err
	}
	return r.update(ctx, "data", raw)
}

// Move sends future jobs to another queue.
func (r *RecurringJob) Move(ctx context.Context, queue string) error {
	if err := checkName("recur.update", "queue name", queue); err != nil {
		return err
	}
	return r.update(ctx, "queue", queue)
}

func (r *RecurringJob) update(ctx context.Context, option, value string) error {
	return r.run(ctx, "recur.update", r.JID, option, value)
}

func (r *RecurringJob) updateNumber(ctx context.Context, option string, n, least int) error {
	if err := checkNumber("recur.update", r.JID, option, n, least); err != nil {
		return err
	}
	return r.update(ctx, option, strconv.Itoa(n))
}

// Tag adds tags to future jobs.
func (r *RecurringJob) Tag(ctx context.Context, tags ...string) error {
	return r.changeTags(ctx, "recur.tag", tags)
}

// Untag removes tags from future jobs.
func (r *RecurringJob) Untag(ctx context.Context, tags ...string) error {
	return r.changeTags(ctx, "recur.untag", tags)
}

func (r *RecurringJob) changeTags(ctx context.Context, op string, tags []string) error {
	if err := checkNames(op, "tag", tags); err != nil {
		return err
	}
	return r.run(ctx, op, anys([]any{r.JID}, tags...)...)
}
