package qless

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/qless/qless-go/internal/wire"
)

// A ListOption is an option for the methods that list jobs, such as [Queue.List] and [Queue.Find]:
// [DataBytes].
type ListOption interface{ applyList(*callOptions) }

// DataBytes is how much of the data of each job a list shows. The default is 0. Data of more than
// 256 KiB is not shown at all.
type DataBytes int

func (o DataBytes) applyList(c *callOptions) { c.dataBytes = int(o) }

// maxShownData is the most that [DataBytes] may be.
const maxShownData = 64 << 10

// A JobSummary is a line of a list of jobs. [Client.Jobs] returns all there is to know.
type JobSummary struct {
	// Data is the beginning of the job's data, as text, if the call has [DataBytes].
	Data string `json:"data,omitempty"`

	// DataSize is how many bytes the data has on the server.
	DataSize int `json:"data_size"`

	// Due is when a scheduled or recurring job falls due, and when the delay ends of a job that
	// waits for others. It is zero for other jobs.
	Due time.Time `json:"due,omitzero"`

	// Expires is when the lock of a running job ends, or zero if it has none.
	Expires time.Time `json:"expires,omitzero"`

	// Failure is why the job failed or was last retried, or nil, as in [Job]. Its message is cut to
	// 256 bytes.
	Failure *Failure `json:"failure,omitempty"`

	// Interval is the interval of a recurring job.
	Interval time.Duration `json:"interval,omitempty"`

	// IsDue says that a scheduled or recurring job has fallen due, and that no worker has asked its
	// queue for jobs since.
	IsDue bool `json:"is_due,omitempty"`

	// JID is the job's id.
	JID string `json:"jid"`

	// Klass names the work to do.
	Klass string `json:"klass"`

	// ParkedBy is the limit that keeps a scheduled job waiting, if one does.
	ParkedBy string `json:"parked_by,omitempty"`

	// Priority is the job's priority.
	Priority int `json:"priority"`

	// Queue is the job's queue, or empty if the job is complete.
	Queue string `json:"queue,omitempty"`

	// Remaining is how many retries are left.
	Remaining int `json:"remaining"`

	// Retries is how many retries the job gets.
	Retries int `json:"retries"`

	// Since is when the job was put, popped, completed or failed, whichever came last. Retries,
	// releases and such do not count.
	Since time.Time `json:"since,omitzero"`

	// State is the job's state. It is empty for a recurring job, and for a job of which a list still
	// has the jid, but which has no record any more.
	State State `json:"state,omitempty"`

	// Tags are the job's tags.
	Tags []string `json:"tags,omitempty"`

	// Worker is the name of the worker that has the job.
	Worker string `json:"worker,omitempty"`
}

// MarshalJSON writes the interval as a number of seconds.
func (s JobSummary) MarshalJSON() ([]byte, error) {
	type fields JobSummary
	return json.Marshal(struct {
		fields
		Interval float64 `json:"interval,omitempty"`
	}{fields(s), secondsOf(s.Interval)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *JobSummary) UnmarshalJSON(text []byte) error {
	type fields JobSummary
	read := struct {
		fields
		Interval float64 `json:"interval"`
	}{fields(*s), secondsOf(s.Interval)}
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	*s = JobSummary(read.fields)
	s.Interval = durationOf(read.Interval)
	return nil
}

// The lists that are not of a queue, for the commands list and find.
const (
	listComplete List = "complete"
	listFailed   List = "failed"
	listTagged   List = "tagged"
	listTracked  List = "tracked"
)

// A listing is a list of jobs: its kind, and the name of its queue, group or tag.
type listing struct {
	kind List
	name string
}

// check returns an error if there is no such list.
func (l listing) check(op string) error {
	switch l.kind {
	case ListWaiting, ListRunning, ListStalled, ListScheduled, ListDepends, ListRecurring:
		return checkName(op, "queue name", l.name)
	case listFailed:
		return checkName(op, "group", l.name)
	case listTagged:
		return checkName(op, "tag", l.name)
	case listComplete, listTracked:
		return nil
	}
	return invalid(op, "", "a queue has no list %q", string(l.kind))
}

// listOf returns one of the queue's lists.
func (q *Queue) listOf(list List) listing {
	switch list {
	case listComplete, listFailed, listTagged, listTracked:
		list = "" // none of a queue's
	}
	return listing{list, q.name}
}

// List returns the jobs in one of the queue's lists, in its order, with what a person wants to know
// of each. It changes nothing: a job that has fallen due is shown as scheduled, and as due.
//
// A range of more than 500 jobs, or 50 with [DataBytes], fewer if they have much data, is read in
// steps. Jobs that come or go meanwhile may be missing from it, or be there twice. [Queue.Find] has no
// such gaps.
func (q *Queue) List(
	ctx context.Context, list List, r Range, options ...ListOption,
) (Page[JobSummary], error) {
	return q.client.summaries(ctx, q.listOf(list), r, options)
}

// ListCompleted returns the completed jobs, latest first. It works as [Queue.List].
func (c *Client) ListCompleted(
	ctx context.Context, r Range, options ...ListOption,
) (Page[JobSummary], error) {
	return c.summaries(ctx, listing{kind: listComplete}, r, options)
}

// ListFailed returns the jobs of a failure group, latest failure first. It works as [Queue.List].
func (c *Client) ListFailed(
	ctx context.Context, group string, r Range, options ...ListOption,
) (Page[JobSummary], error) {
	return c.summaries(ctx, listing{listFailed, group}, r, options)
}

// ListTagged returns the jobs that have a tag, in the order in which they were tagged. It works as
// [Queue.List].
func (c *Client) ListTagged(
	ctx context.Context, tag string, r Range, options ...ListOption,
) (Page[JobSummary], error) {
	return c.summaries(ctx, listing{listTagged, tag}, r, options)
}

// ListTracked returns the tracked jobs, in the order in which tracking began. It works as
// [Queue.List].
func (c *Client) ListTracked(
	ctx context.Context, r Range, options ...ListOption,
) (Page[JobSummary], error) {
	return c.summaries(ctx, listing{kind: listTracked}, r, options)
}

// How many jobs a script shows at most, without data and with it, and how many a search finds with it.
const (
	shownAtOnce         = 500
	shownWithDataAtOnce = 50
	foundWithDataAtOnce = 10
)

// step returns how many jobs to ask a script for if limit more are wanted.
func (c *callOptions) step(limit int) int {
	if c.dataBytes > 0 {
		return min(limit, shownWithDataAtOnce)
	}
	return min(limit, shownAtOnce)
}

// listOptions checks the options of a list.
func listOptions(op string, options []ListOption) (callOptions, error) {
	var o callOptions
	if err := applyOptions(op, &o, options, ListOption.applyList); err != nil {
		return o, err
	}
	if o.dataBytes < 0 || o.dataBytes > maxShownData {
		return o, invalid(op, "", "DataBytes(%d) is not from 0 to %d", o.dataBytes, maxShownData)
	}
	return o, nil
}

// summaries reads a part of a list, in steps.
func (c *Client) summaries(
	ctx context.Context, l listing, r Range, options []ListOption,
) (Page[JobSummary], error) {
	const op = "list"
	var none Page[JobSummary]
	o, err := listOptions(op, options)
	if err != nil {
		return none, err
	}
	if err := l.check(op); err != nil {
		return none, err
	}
	offset, limit, err := r.bounds(op)
	if err != nil {
		return none, err
	}
	page := Page[JobSummary]{Items: []JobSummary{}}
	for {
		count := o.step(limit - len(page.Items))
		part, err := c.summaryPage(ctx, l, offset+len(page.Items), count, &o)
		if err != nil {
			return none, err
		}
		page.Total = part.Total
		page.Items = append(page.Items, part.Items...)
		read := offset + len(page.Items)
		if len(part.Items) == 0 || len(page.Items) == limit || read >= page.Total {
			return page, nil
		}
	}
}

func (c *Client) summaryPage(
	ctx context.Context, l listing, offset, count int, o *callOptions,
) (Page[JobSummary], error) {
	reply, err := c.run(ctx, "list", "", string(l.kind), l.name, strconv.Itoa(offset),
		strconv.Itoa(count), strconv.Itoa(o.dataBytes))
	if err != nil {
		return Page[JobSummary]{}, err
	}
	got, err := decode[struct {
		Total wire.Number             `json:"total"`
		Items wire.List[summaryOfJob] `json:"items"`
	}]("list", reply)
	return Page[JobSummary]{Items: c.jobSummaries(got.Items, o), Total: got.Total.Int()}, err
}

// A summaryOfJob is a job as the commands list and find show it.
type summaryOfJob struct {
	JID       wire.Raw             `json:"jid"`
	Klass     wire.Text            `json:"klass"`
	Queue     wire.Text            `json:"queue"`
	State     wire.Text            `json:"state"`
	Priority  wire.Number          `json:"priority"`
	Tags      wire.List[wire.Text] `json:"tags"`
	Retries   wire.Number          `json:"retries"`
	Remaining wire.Number          `json:"remaining"`
	Worker    wire.Text            `json:"worker"`
	Since     wire.Number          `json:"since"`
	Expires   wire.Number          `json:"expires"`
	Due       wire.Number          `json:"due"`
	IsDue     bool                 `json:"fell_due"`
	Failure   *failureReply        `json:"failure"`
	ParkedBy  wire.Text            `json:"parked_by"`
	Interval  wire.Number          `json:"interval"`
	Size      wire.Number          `json:"size"`
	Data      wire.Text            `json:"data"`
}

// jobSummaries returns the jobs that a command has shown; never nil, which would be null in JSON.
func (c *Client) jobSummaries(replies []summaryOfJob, o *callOptions) []JobSummary {
	all := make([]JobSummary, len(replies))
	for i := range replies {
		all[i] = replies[i].summary(c, o.dataBytes)
	}
	return all
}

func (r *summaryOfJob) summary(c *Client, bytes int) JobSummary {
	s := JobSummary{
		JID: string(r.JID), Klass: string(r.Klass), Queue: string(r.Queue), State: State(r.State),
		Priority: r.Priority.LargeInt(), Tags: wire.Strings(r.Tags),
		Retries: r.Retries.Int(), Remaining: r.Remaining.Int(), Worker: string(r.Worker),
		Since: r.Since.Time(), Expires: r.Expires.Time(), Due: r.Due.Time(), IsDue: r.IsDue,
		ParkedBy: string(r.ParkedBy), Interval: max(r.Interval.Duration(), 0),
		DataSize: r.Size.Int(),
	}
	if r.Failure != nil {
		s.Failure = r.Failure.failure()
	}
	if s.Failure != nil {
		s.Failure.Message = strings.TrimRight(s.Failure.Message, "\uFFFD")
		if s.State == StateFailed {
			s.Since = s.Failure.When
		}
	}
	data, _ := c.decode(s.JID, "data", string(r.Data)) // what can't be decoded is shown as it is
	s.Data = beginning(string(data), bytes)
	return s
}

// beginning returns at most the first bytes of a text, without half a character at the end.
func beginning(text string, bytes int) string {
	if len(text) > bytes {
		text = text[:bytes]
	}
	for range utf8.UTFMax {
		if r, size := utf8.DecodeLastRuneInString(text); r != utf8.RuneError || size != 1 {
			break
		}
		text = text[:len(text)-1]
	}
	return strings.TrimRight(text, "\uFFFD")
}
