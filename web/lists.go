package web

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/web/internal/actions"
	"github.com/qless/qless-go/web/internal/find"
)

// A jobList is a part of a list of jobs: from a row on, or what was found in it.
type jobList struct {
	Jobs   []inspect.Row `json:"jobs"`
	Total  int           `json:"total"` // of the list, whatever is looked for
	Filter jobFilter     `json:"filter,omitzero"`
	Search *search       `json:"search,omitempty"`
	Rows   rows          `json:"-"`
	order  order
}

// jobOrders are the columns by which jobs are sorted.
var jobOrders = orders[inspect.Row]{
	"klass":    func(job *inspect.Row) any { return job.Klass },
	"jid":      func(job *inspect.Row) any { return job.JID },
	"state":    func(job *inspect.Row) any { return string(job.State) },
	"queue":    func(job *inspect.Row) any { return job.Queue },
	"worker":   func(job *inspect.Row) any { return job.Worker },
	"priority": func(job *inspect.Row) any { return job.Priority },
	"attempts": func(job *inspect.Row) any { return job.Remaining },
	"due":      func(job *inspect.Row) any { return job.Due },
	"expires":  func(job *inspect.Row) any { return job.Expires },
	"since":    func(job *inspect.Row) any { return job.Since },
}

// pageSize is the number of rows of a page.
const pageSize = 45

// shownData is how many bytes of the data of a job a row has.
const shownData = 96

// A jobFilter selects jobs of a list.
type jobFilter struct {
	Klass string `json:"klass,omitempty"`
	Tag   string `json:"tag,omitempty"`
	JID   string `json:"jid,omitempty"`
	Data  string `json:"data,omitempty"`
	Batch bool   `json:"-"`
}

// A search is the progress of the search of a list.
type search struct {
	Looked int            `json:"looked"` // with the requests before
	Total  int            `json:"total"`  // the length of the list
	Next   inspect.Cursor `json:"next,omitempty"`
}

// readJobs reads the part of a list that is asked for.
func (s *site) readJobs(
	ctx context.Context, q query, jobs inspect.Selection,
) (*jobList, error) {
	filter := jobFilter{q.Get("klass"), q.Get("tag"), q.Get("jid"), q.Get("data"), false}
	if filter != (jobFilter{}) {
		return s.searchJobs(ctx, q, jobs, filter)
	}
	if !s.IsRedacted() && !strings.HasPrefix(q.path, "/failures") {
		jobs = jobs.WithData(shownData)
	}
	page, err := jobs.List(ctx, inspect.Range{Offset: q.from(), Limit: pageSize})
	s.redactAll(page.Items)
	shown := rows{q.from(), len(page.Items), page.Total, pageSize}
	by := jobOrders.sortWhole(page.Items, shown, q)
	return &jobList{Jobs: page.Items, Total: page.Total, Rows: shown, order: by}, err
}

// searchJobs looks for jobs in a list, until a page is full or it has looked at enough.
func (s *site) searchJobs(
	ctx context.Context, q query, jobs inspect.Selection, filter jobFilter,
) (*jobList, error) {
	if filter.Data != "" && s.IsRedacted() {
		return nil, find.ErrHidden
	}
	total, err := jobs.Count(ctx)
	if err != nil {
		return nil, err
	}
	bounds := find.Bounds{Items: pageSize, Jobs: find.MaxLooked}
	found := find.New(bounds, s.redactAll)
	list := &find.List{Jobs: jobs, Filter: inspect.Filter(filter)}
	next, err := found.Scan(ctx, list, inspect.Cursor(q.Get("after")))
	before, _ := strconv.Atoi(q.Get("looked"))
	looked := found.Sum() + max(0, before)
	return &jobList{
		Jobs: found.Items, Total: total, Filter: filter,
		Search: &search{Looked: looked, Total: max(total, looked), Next: next},
	}, err
}

// Continue is the URL at which a search continues.
func (f *frame) Continue(found *search) string {
	return f.with(url.Values{
		"after": {string(found.Next)}, "looked": {strconv.Itoa(found.Looked)},
	})
}

// Unfiltered is the URL of the list without a search, perhaps with other parameters.
func (f *frame) Unfiltered(pairs ...string) string {
	parameters := url.Values{}
	for name := range strings.FieldsSeq(ofLists) {
		parameters[name] = nil
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		parameters.Set(pairs[i], pairs[i+1])
	}
	return f.with(parameters)
}

// Tab is the URL of a list of the queue that is shown.
func (f *frame) Tab(list inspect.List) string {
	if list == inspect.Waiting {
		list = ""
	}
	return f.Unfiltered("list", string(list))
}

// Kept are the inputs of a form for what the page is about.
func (f *frame) Kept() (inputs []actions.Hidden) {
	query := f.Request.URL.Query()
	for _, name := range []string{"name", "name" + actions.EscapedMark, "list"} {
		if query.Has(name) {
			inputs = append(inputs, actions.Hidden{Name: name, Value: query.Get(name)})
		}
	}
	return inputs
}

// A listData is a page that is a list of jobs.
type listData struct {
	*jobList
	Tag       string `json:"tag,omitempty"`
	HasFilter bool   `json:"-"`
	Empty     string `json:"-"` // what to say if there are no jobs
}

func (s *site) list(
	ctx context.Context, q query, jobs inspect.Selection, title string, data listData,
) (v *view, err error) {
	data.jobList, err = s.readJobs(ctx, q, jobs)
	if err != nil {
		return nil, err
	}
	isStill := data.HasFilter && data.Search != nil
	return &view{Title: title, Data: &data, isStill: isStill, order: data.order}, nil
}

// tracked lists the tracked jobs.
func (s *site) tracked(ctx context.Context, q query) (*view, error) {
	return s.list(ctx, q, s.in.Tracked(), "Tracked jobs", listData{
		Empty: "No job is tracked. Track a job on its page to follow it here.",
	})
}

// completed lists the completed jobs.
func (s *site) completed(ctx context.Context, q query) (*view, error) {
	return s.list(ctx, q, s.in.Completed(), "Completed jobs", listData{
		HasFilter: true,
		Empty:     "No completed job is kept. Jobs that workers complete are listed here.",
	})
}

// tag lists the jobs that have a tag.
func (s *site) tag(ctx context.Context, q query) (*view, error) {
	return s.list(ctx, q, s.in.Tagged(q.name), "Tag "+q.name, listData{
		Tag: q.name, HasFilter: true, Empty: "No job has this tag any more.",
	})
}

// rowsOf returns the jobs that exist.
func (s *site) rowsOf(ctx context.Context, jids []string) ([]inspect.Row, error) {
	rows := []inspect.Row{}
	if len(jids) == 0 {
		return rows, nil
	}
	for row, err := range s.in.JIDs(jids...).Each(ctx) {
		if err != nil {
			return nil, err
		}
		if row.State != "" {
			rows = append(rows, row)
		}
	}
	s.redactAll(rows)
	return rows, nil
}

// A tagRow is a tag, with the number of its jobs.
type tagRow struct {
	Name string `json:"name"`
	Jobs int    `json:"jobs"`
}

// A tagsData is a part of the tags.
type tagsData struct {
	Tags    []tagRow `json:"tags"`
	From    int      `json:"from"`
	HasMore bool     `json:"has_more"`
	Rows    rows     `json:"-"`
}

// tags lists the tags that are used most.
func (s *site) tags(ctx context.Context, q query) (*view, error) {
	names, err := s.in.Tags(ctx, inspect.Range{Offset: q.from(), Limit: pageSize})
	if err != nil {
		return nil, err
	}
	data := &tagsData{
		Tags: []tagRow{}, From: q.from(),
		Rows: rows{q.from(), len(names.Items), names.Total, pageSize},
	}
	data.HasMore = data.Rows.HasNext()
	for _, name := range names.Items {
		jobs, err := s.in.Tagged(name).Count(ctx)
		if err != nil {
			return nil, err
		}
		data.Tags = append(data.Tags, tagRow{name, jobs})
	}
	return &view{Title: "Tags", Data: data}, nil
}

// columns are the columns of a table of jobs that not every table needs.
type columns struct {
	State, Queue, Due, Expires, Parked, Worker, Failure, Tags, Data, Priority, Attempts bool

	Differ bool // the messages of failures
}

// columnsOf returns the columns that some jobs need.
func columnsOf(jobs []inspect.Row) (c columns) {
	for i := range jobs {
		job := &jobs[i]
		c.State = c.State || job.State != jobs[0].State
		c.Queue = c.Queue || job.Queue != jobs[0].Queue
		c.Due = c.Due || !job.Due.IsZero()
		c.Expires = c.Expires || !job.Expires.IsZero()
		c.Parked = c.Parked || job.Parked != ""
		c.Worker = c.Worker || job.Worker != ""
		c.Failure = c.Failure || job.Failure != nil
		c.Differ = c.Differ || job.Failure != nil && jobs[0].Failure != nil &&
			firstLine(job.Failure.Message) != firstLine(jobs[0].Failure.Message)
		c.Tags = c.Tags || len(job.Tags) > 0
		c.Data = c.Data || job.Data != ""
		c.Priority = c.Priority || job.Priority != 0
		c.Attempts = c.Attempts || job.State != qless.StateComplete && job.State != qless.StateFailed
	}
	return c
}

// redactedFailure returns the failure of a job in a list as it may be shown.
func (s *site) redactedFailure(row *inspect.Row) *qless.Failure {
	redact := s.handler.options.Redact
	if redact == nil || row.Failure == nil {
		return row.Failure
	}
	failure := *row.Failure
	job := &qless.Job{
		JID: row.JID, Klass: row.Klass, Queue: row.Queue, State: row.State,
		Priority: row.Priority, Remaining: row.Remaining, Retries: row.Retries,
		Tags: row.Tags, Worker: row.Worker, Failure: &failure, Data: json.RawMessage("{}"),
	}
	redact(job)
	return job.Failure
}

// redactAll leaves in lists of jobs what may be shown.
func (s *site) redactAll(jobs []inspect.Row) {
	if !s.IsRedacted() {
		return
	}
	for i := range jobs {
		jobs[i].Failure = s.redactedFailure(&jobs[i])
		jobs[i].Data = ""
	}
}

// IsRedacted reports whether data and results of jobs are neither shown nor searched.
func (s *site) IsRedacted() bool { return s.handler.options.Redact != nil }
