package qless

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/internal/wire"
)

// A RecurringJob is a snapshot of a job put into its queue again and again, not safe for concurrent
// use. To change the job, set fields and call [RecurringJob.Update].
//
// A RecurringJob from elsewhere, such as RecurringJob{}, has no client: methods return
// [ErrInvalid].
type RecurringJob struct {
	// Backlog is the maximum number of missed jobs to put; 0 means all of them.
	Backlog int `json:"backlog"`

	// Count is the number of jobs put so far.
	Count int `json:"count"`

	// Data is the data of each job.
	Data json.RawMessage `json:"data,omitempty"`

	// Interval is the time from one job to the next, in JSON a string such as "1m30s".
	Interval time.Duration `json:"interval"`

	// JID is the id; the jobs are <jid>-1, <jid>-2 and so on.
	JID string `json:"jid"`

	// Klass is the klass of each job.
	Klass string `json:"klass"`

	// Priority is the priority of each job, read like [Job.Priority].
	Priority int `json:"priority"`

	// Queue is the queue of the jobs.
	Queue string `json:"queue"`

	// Retries is the number of retries of each job.
	Retries int `json:"retries"`

	// Tags are the tags of each job.
	Tags Tags `json:"tags,omitempty"`

	client *Client
	was    *RecurringJob // as read
}

// MarshalJSON writes the interval as text, and Data other than JSON as a string.
func (r RecurringJob) MarshalJSON() ([]byte, error) {
	r.Data = shownJSON(r.Data)
	return units.Marshal(r)
}

// UnmarshalJSON reads the output of MarshalJSON.
func (r *RecurringJob) UnmarshalJSON(text []byte) error { return units.Unmarshal(text, r) }

// RecurringJob returns the recurring job with this jid, or [ErrNotFound].
func (c *Client) RecurringJob(ctx context.Context, jid string) (*RecurringJob, error) {
	if err := checkName("recur.get", "jid", jid); err != nil {
		return nil, err
	}
	reply, err := c.run(ctx, "recur.get", jid, jid)
	if err != nil {
		return nil, err
	}
	if reply == nil {
		return nil, &Error{Op: "recur.get", Code: ErrNotFound, JID: jid,
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
	// Undecodable data stays as it is.
	data, _ := c.decode(string(r.JID), "data", json.RawMessage(r.Data))
	job := &RecurringJob{
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
	job.remember()
	return job
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

// Refresh reads the recurring job again, with all fields. If it no longer exists, the error is
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

// Cancel deletes the recurring job; the jobs already put are kept.
func (r *RecurringJob) Cancel(ctx context.Context) error {
	return r.run(ctx, "unrecur", r.JID)
}

// Update writes the fields changed since the recurring job was read, all or none of them. Jobs that
// were already put stay unchanged.
//
// With a new Interval, the next job is due that long after the last one. Data is encoded as by
// [Queue.Put]. The JID and the Count can't be changed. If the recurring job no longer exists, the
// error is [ErrNotFound].
func (r *RecurringJob) Update(ctx context.Context) error {
	const op = "recur.update"
	if err := r.usable(op); err != nil {
		return err
	}
	pairs, err := r.changes(op)
	if err != nil || len(pairs) == 0 {
		return err
	}
	if err := r.run(ctx, op, wire.Anys([]any{r.JID}, pairs...)...); err != nil {
		return err
	}
	r.remember()
	return nil
}

// remember records the fields as the server has them.
func (r *RecurringJob) remember() {
	was := *r
	was.Data, was.Tags, was.was = slices.Clone(r.Data), slices.Clone(r.Tags), nil
	r.was = &was
}

// changes returns the fields changed since they were read, as pairs of arguments.
func (r *RecurringJob) changes(op string) ([]string, error) {
	if r.JID != r.was.JID || r.Count != r.was.Count {
		return nil, invalid(op, r.was.JID, "the JID and the Count of a recurring job can't be changed")
	}
	var pairs []string
	for _, field := range []struct {
		name, is, was string
		problem       error
	}{
		{"klass", r.Klass, r.was.Klass, checkName(op, "klass", r.Klass)},
		{"queue", r.Queue, r.was.Queue, checkName(op, "queue name", r.Queue)},
		{"interval", wire.FormatSeconds(r.Interval), wire.FormatSeconds(r.was.Interval),
			r.checkInterval(op)},
		{"priority", strconv.Itoa(r.Priority), strconv.Itoa(r.was.Priority),
			checkNumber(op, r.JID, "priority", r.Priority, math.MinInt32)},
		{"retries", strconv.Itoa(r.Retries), strconv.Itoa(r.was.Retries),
			checkNumber(op, r.JID, "retries", r.Retries, 0)},
		{"backlog", strconv.Itoa(r.Backlog), strconv.Itoa(r.was.Backlog),
			checkNumber(op, r.JID, "backlog", r.Backlog, 0)},
		{"tags", wire.JSONList(r.Tags), wire.JSONList(r.was.Tags),
			checkOptions(op, r.JID, &jobopts.Options{Tags: r.Tags})},
	} {
		if field.is == field.was {
			continue
		}
		if field.problem != nil {
			return nil, field.problem
		}
		pairs = append(pairs, field.name, field.is)
	}
	if bytes.Equal(r.Data, r.was.Data) {
		return pairs, nil
	}
	data, err := encodeData(op, r.JID, r.Data)
	if err == nil {
		data, err = r.client.encode(op, r.JID, r.Klass, "data", data)
	}
	return append(pairs, "data", data), err
}

func (r *RecurringJob) checkInterval(op string) error {
	if r.Interval <= 0 {
		return invalid(op, r.JID, "the interval %v is not positive", r.Interval)
	}
	return nil
}
