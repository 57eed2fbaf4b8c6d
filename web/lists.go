package web

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/web/internal/actions"
	"github.com/qless/qless-go/web/internal/find"
)

// A jobList is a page of a list of jobs, or of jobs found in the list.
type jobList struct {
	Jobs   []inspect.Row `json:"jobs"`
	Total  int           `json:"total"` // of the whole list
	Query  find.Query    `json:"filter,omitzero"`
	Search *search       `json:"search,omitempty"`
	Rows   rows          `json:"-"`
	order  order
}

// jobOrders are the columns for sorting jobs.
var jobOrders = orders[inspect.Row]{
	"klass":    func(job *inspect.Row) any { return job.Klass },
	"jid":      func(job *inspect.Row) any { return job.JID },
	"state":    func(job *inspect.Row) any { return string(job.State) },
	"queue":    func(job *inspect.Row) any { return job.Queue },
	"priority": func(job *inspect.Row) any { return job.Priority },
	"attempts": func(job *inspect.Row) any { return job.Remaining },
	"details": func(job *inspect.Row) any {
		if job.Failure != nil {
			return job.Failure.Group
		}
		return job.Worker + job.Parked
	},
	"next":  func(job *inspect.Row) any { return cmp.Or(job.Due, job.Expires) },
	"since": func(job *inspect.Row) any { return job.Since },
}

// shownData is the number of bytes of a job's data in a row.
const shownData = 96

// klassesShown is the number of klasses of a page available as filters of the list.
const klassesShown = 6

// Klasses returns the most frequent klasses of the page, unless there is only one.
func (l *jobList) Klasses() (all []counted) {
	counts := map[string]int{}
	for i := range l.Jobs {
		counts[l.Jobs[i].Klass]++
	}
	if l.Query.Klass != "" {
		counts[l.Query.Klass] += 0
	} else if len(counts) < 2 {
		return nil
	}
	for klass, jobs := range counts {
		all = append(all, counted{klass, jobs})
	}
	slices.SortFunc(all, func(a, b counted) int {
		return cmp.Or(b.Jobs-a.Jobs, cmp.Compare(a.Name, b.Name))
	})
	return part(all, 0, klassesShown)
}

// readJobs reads the requested part of a list.
func (s *site) readJobs(
	ctx context.Context, q query, jobs inspect.Selection,
) (*jobList, error) {
	asked, err := q.search()
	if err != nil {
		return nil, err
	}
	if !s.IsRedacted() && !strings.HasPrefix(q.path, "/failures") {
		jobs = jobs.WithData(shownData)
	}
	if asked.IsAsked() {
		return s.searchJobs(ctx, q, jobs, asked)
	}
	page, err := jobs.List(ctx, inspect.Range{Offset: q.from(), Limit: pageSize})
	s.redactAll(page.Items)
	shown := rows{q.from(), len(page.Items), page.Total, pageSize}
	by := jobOrders.sortWhole(page.Items, shown, q)
	return &jobList{Jobs: page.Items, Total: page.Total, Rows: shown, order: by}, err
}

// searchJobs looks for jobs in a list, until a page is full or the limit of a request is reached.
func (s *site) searchJobs(
	ctx context.Context, q query, jobs inspect.Selection, asked find.Query,
) (*jobList, error) {
	if err := asked.Check(s.IsRedacted()); err != nil {
		return nil, err
	}
	total, err := jobs.Count(ctx)
	if err != nil {
		return nil, err
	}
	bounds := find.Bounds{Items: pageSize, Jobs: find.MaxExamined}
	found := find.New(bounds, s.redactAll)
	list := asked.In(find.List{
		Jobs: jobs, IsLatestFirst: q.path == "/failures/{name}" || q.path == "/completed",
	})
	next, err := found.Scan(ctx, &list, inspect.Cursor(q.Get("after")))
	return &jobList{
		Jobs: found.Items, Total: total, Query: asked,
		Search: newSearch(q.Values, found, total, "after", string(next)),
	}, err
}

// Unfiltered returns the URL of the list without a search.
func (f *frame) Unfiltered() string { return f.Tab(f.Request.URL.Query().Get("list")) }

// Tab returns the URL of a list of the current queue.
func (f *frame) Tab(list string) string {
	parameters := url.Values{"list": {strings.TrimPrefix(list, "waiting")}}
	for name := range strings.FieldsSeq(ofLists) {
		parameters[name] = nil
	}
	return f.with(parameters)
}

// A listData is a page with a list of jobs.
type listData struct {
	*jobList
	Tag       string          `json:"tag,omitempty"`
	Ends      map[string]*end `json:"ends,omitempty"` // of completed jobs
	HasFilter bool            `json:"-"`
	Empty     string          `json:"-"` // the text of an empty page
}

func (s *site) list(
	ctx context.Context, q query, jobs inspect.Selection, title string, data listData,
) (v *view, err error) {
	data.jobList, err = s.readJobs(ctx, q, jobs)
	if err != nil {
		return nil, err
	}
	isStill := data.HasFilter && data.Search != nil
	return &view{
		Title: title, Data: &data, isStill: isStill, search: data.Search, order: data.order,
	}, nil
}

// tracked lists the tracked jobs.
func (s *site) tracked(ctx context.Context, q query) (*view, error) {
	return s.list(ctx, q, s.in.Tracked(), "Tracked jobs", listData{
		Empty: "No job is tracked. Track a job on its page to follow it here.",
	})
}

// completed lists the completed jobs.
func (s *site) completed(ctx context.Context, q query) (*view, error) {
	v, err := s.list(ctx, q, s.in.Completed(), "Completed jobs", listData{
		HasFilter: true,
		Empty:     "No completed job is kept. Jobs that workers complete are listed here.",
	})
	if err != nil {
		return nil, err
	}
	list := v.Data.(*listData)
	if err := s.addEnds(ctx, list); err != nil {
		return nil, err
	}
	if list.Search == nil {
		jobOrders.sortWhole(list.Jobs, list.Rows, q) // also by queue
	}
	return v, nil
}

// An end describes the completion of a job. The history has whole seconds only.
type end struct {
	Wait units.Text `json:"wait"` // for the first run in the queue
	Ran  units.Text `json:"ran"`  // the last run
}

// End returns the end of a completed job in the list, or nil if unknown.
func (d *listData) End(jid string) *end { return d.Ends[jid] }

// addEnds adds the last queues of completed jobs, and how long they waited and ran.
func (s *site) addEnds(ctx context.Context, list *listData) error {
	jids := make([]string, len(list.Jobs))
	for i := range list.Jobs {
		jids[i] = list.Jobs[i].JID
	}
	jobs, err := s.Client.Jobs(ctx, jids...)
	if err != nil {
		return err
	}
	list.Ends = map[string]*end{}
	for _, job := range jobs {
		s.redact(job)
		i := slices.Index(jids, job.JID)
		list.Jobs[i].Queue = actions.QueueOf(job)
		list.Ends[job.JID] = endOf(job.History)
	}
	return nil
}

// endOf returns the last completion in a history, or nil if unknown.
func endOf(history []qless.HistoryEntry) (last *end) {
	var put, began time.Time
	now := end{}
	for _, entry := range history {
		switch entry.What {
		case "put":
			put, began = entry.When, time.Time{}
		case "popped":
			if began.IsZero() {
				now.Wait = units.Text(entry.When.Sub(put))
			}
			began = entry.When
		case "done":
			if last = nil; !put.IsZero() && !began.IsZero() {
				now.Ran = units.Text(entry.When.Sub(began))
				last = &now
			}
		}
	}
	return last
}

// tag lists the jobs with a tag.
func (s *site) tag(ctx context.Context, q query) (*view, error) {
	return s.list(ctx, q, s.in.Tagged(q.name), "Tag "+q.name, listData{
		Tag: q.name, HasFilter: true, Empty: "No job has this tag any more.",
	})
}

// rowsOf returns the existing jobs.
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

// A tagsData holds a page of the tags.
type tagsData struct {
	Tags    []counted `json:"tags"`
	From    int       `json:"from"`
	HasMore bool      `json:"has_more"`
	Rows    rows      `json:"-"`
}

// tags lists the most used tags.
func (s *site) tags(ctx context.Context, q query) (*view, error) {
	names, err := s.in.Tags(ctx, inspect.Range{Offset: q.from(), Limit: pageSize})
	if err != nil {
		return nil, err
	}
	data := &tagsData{
		Tags: []counted{}, From: q.from(),
		Rows: rows{q.from(), len(names.Items), names.Total, pageSize},
	}
	data.HasMore = data.Rows.HasNext()
	for _, name := range names.Items {
		jobs, err := s.in.Tagged(name).Count(ctx)
		if err != nil {
			return nil, err
		}
		data.Tags = append(data.Tags, counted{name, jobs})
	}
	return &view{Title: "Tags", Data: data}, nil
}

// columns are the optional columns of a table of jobs.
type columns struct {
	State, Queue, Tags, Data, Priority, Attempts bool

	// Details is the heading of the reasons of failures, the workers, or the limits of waiting jobs.
	// Next is the heading of due times or lock expiry times. Both may be empty.
	Details, Next string
}

// mixed are the sections with lists of jobs in any state and queue.
var mixed = []string{"find", "tags", "tracked"}

// columnsOf returns the columns needed by some jobs in a section.
func columnsOf(jobs []inspect.Row, section string) (c columns) {
	c.State = slices.Contains(mixed, section)
	c.Queue = c.State
	message, differ := "", false
	details, next := map[string]bool{}, map[string]bool{}
	for i := range jobs {
		job := &jobs[i]
		hasEnded := job.State == qless.StateComplete || job.State == qless.StateFailed
		c.State = c.State || job.State != jobs[0].State
		c.Queue = c.Queue || section == "completed" || job.Queue != jobs[0].Queue
		c.Tags = c.Tags || len(job.Tags) > 0
		c.Data = c.Data || job.Data != ""
		c.Priority = c.Priority || job.Priority != 0
		c.Attempts = c.Attempts || job.Remaining != job.Retries && !hasEnded
		if job.Failure != nil {
			line := firstLine(job.Failure.Message)
			differ = differ || i > 0 && line != message
			message, details["Failure"] = line, differ || section != "failures"
		}
		details["Worker"] = details["Worker"] || job.Worker != "" && section != "workers"
		details["Waits for limit"] = details["Waits for limit"] || job.Parked != ""
		next["Due"] = next["Due"] || !job.Due.IsZero()
		next["Lock ends"] = next["Lock ends"] || !job.Expires.IsZero()
	}
	c.Details, c.Next = only(details, "Details"), only(next, "Next")
	return c
}

// only returns the single true name, several if more than one is true, or "".
func only(names map[string]bool, several string) (only string) {
	for name, isTrue := range names {
		switch {
		case isTrue && only != "":
			return several
		case isTrue:
			only = name
		}
	}
	return only
}

// A counted is a list, a klass or a tag, with the number of its jobs.
type counted struct {
	Name string `json:"name"`
	Jobs int    `json:"jobs"`
}
