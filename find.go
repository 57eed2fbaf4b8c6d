package qless

import (
	"context"
	"strconv"

	"github.com/qless/qless-go/internal/wire"
)

// A Filter says which jobs of a list are meant: those that have everything that is set.
type Filter struct {
	// Klass is the klass of the jobs.
	Klass string

	// Tag is one of their tags.
	Tag string

	// JID is a part of their jids.
	JID string

	// Data is a part of their data, as it is stored. Data of more than 256 KiB is not searched, nor
	// is what a codec has encoded.
	Data string

	// Limit is how many jobs are meant at most. The special value 0 means all.
	Limit int

	// All says that nothing else has to be set for [Queue.Cancel].
	All bool
}

// check returns an error if the filter can't be used.
func (f Filter) check(op string) error {
	if f.Limit < 0 {
		return invalid(op, "", "Filter.Limit is negative: %d", f.Limit)
	}
	for what, text := range map[string]string{
		"Filter.Klass": f.Klass, "Filter.Tag": f.Tag, "Filter.JID": f.JID, "Filter.Data": f.Data,
	} {
		if text != "" {
			if err := checkName(op, what, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// isEmpty reports whether the filter leaves out nothing.
func (f Filter) isEmpty() bool {
	return f.Klass == "" && f.Tag == "" && f.JID == "" && f.Data == ""
}

// args returns the script arguments for what jobs must have.
func (f Filter) args() []any { return []any{f.Klass, f.Tag, f.JID, f.Data} }

// A Cursor is a place in a list. The zero value is its beginning.
type Cursor string

// A Finding is what a call of [Queue.Find] has found.
type Finding struct {
	// Items are the jobs, in the order of the list. It is not nil unless the call failed.
	Items []JobSummary `json:"items"`

	// Looked is how many jobs the call has looked at.
	Looked int `json:"looked"`

	// Next is where the next call goes on. It is empty at the end of the list.
	Next Cursor `json:"next,omitempty"`
}

// How many jobs a call looks at, and if it has to read their data.
const (
	lookedAtOnce         = 1000
	lookedWithDataAtOnce = 100
)

// Find looks for jobs in one of the queue's lists, from a cursor on. There is no index of klasses or
// data, so it looks at each job: at no more than 1000 of them in a call, or 100 with Filter.Data. A
// call may find nothing, and yet have a next cursor:
//
//	for after, more := qless.Cursor(""), true; more; more = after != "" {
//		found, err := queue.Find(ctx, qless.ListWaiting, filter, after)
//		...
//		after = found.Next
//	}
//
// The cursor is the place of a job in the list, not a number, so jobs that come and go meanwhile
// hide no others and bring none back. A job that moves behind the cursor is found again. Like
// [Queue.List], it changes nothing.
func (q *Queue) Find(
	ctx context.Context, list List, filter Filter, after Cursor, options ...ListOption,
) (Finding, error) {
	return q.client.find(ctx, q.listOf(list), filter, after, options)
}

// FindCompleted looks for completed jobs, latest first. It works as [Queue.Find].
func (c *Client) FindCompleted(
	ctx context.Context, filter Filter, after Cursor, options ...ListOption,
) (Finding, error) {
	return c.find(ctx, listing{kind: listComplete}, filter, after, options)
}

// FindFailed looks for jobs in a failure group, latest failure first. It works as [Queue.Find]. When
// jobs leave the group that failed earlier than the one at the cursor, as many may be found twice.
func (c *Client) FindFailed(
	ctx context.Context, group string, filter Filter, after Cursor, options ...ListOption,
) (Finding, error) {
	return c.find(ctx, listing{listFailed, group}, filter, after, options)
}

// FindTagged looks for jobs among those with a tag, in the order in which they were tagged. It works
// as [Queue.Find].
func (c *Client) FindTagged(
	ctx context.Context, tag string, filter Filter, after Cursor, options ...ListOption,
) (Finding, error) {
	return c.find(ctx, listing{listTagged, tag}, filter, after, options)
}

func (c *Client) find(
	ctx context.Context, l listing, filter Filter, after Cursor, options []ListOption,
) (Finding, error) {
	const op = "find"
	o, err := listOptions(op, options)
	if err != nil {
		return Finding{}, err
	}
	if err := l.check(op); err != nil {
		return Finding{}, err
	}
	if err := filter.check(op); err != nil {
		return Finding{}, err
	}
	looked, limit := lookedAtOnce, filter.Limit
	if filter.Data != "" {
		looked = lookedWithDataAtOnce
	}
	if limit == 0 || limit > shownAtOnce {
		limit = shownAtOnce
	}
	if o.dataBytes > 0 {
		limit = min(limit, foundWithDataAtOnce)
	}
	args := append([]any{
		string(l.kind), l.name, string(after), strconv.Itoa(looked), strconv.Itoa(limit),
		strconv.Itoa(o.dataBytes),
	}, filter.args()...)
	reply, err := c.run(ctx, op, "", args...)
	if err != nil {
		return Finding{}, err
	}
	got, err := decode[struct {
		Looked wire.Number             `json:"looked"`
		Cursor wire.Text               `json:"cursor"`
		Items  wire.List[summaryOfJob] `json:"items"`
	}](op, reply)
	return Finding{
		Items: c.jobSummaries(got.Items, &o), Looked: got.Looked.Int(), Next: Cursor(got.Cursor),
	}, err
}
