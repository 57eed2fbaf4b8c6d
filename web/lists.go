package web

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/qless/qless-go"
)

// A jobSource is where the jobs of a page come from.
type jobSource struct {
	key  string // of its samples
	list func(ctx context.Context, r qless.Range) (qless.Page[qless.JobSummary], error)
	find finder // nil if it can't be searched
}

// A jobList is a part of a list of jobs: from a row on, or what was found in it.
type jobList struct {
	Jobs   []qless.JobSummary `json:"jobs"`
	Total  int                `json:"total"` // of the list, whatever is looked for
	Filter jobFilter          `json:"filter,omitzero"`
	Search *search            `json:"search,omitempty"`
	Rows   rows               `json:"-"`
}

// readJobs reads the part of a list that a request asks for.
func (s *site) readJobs(r *http.Request, source jobSource) (*jobList, error) {
	filter, from := filterOf(r), fromOf(r)
	if filter.isEmpty() || source.find == nil {
		return s.listJobs(r.Context(), source, qless.Range{Offset: from, Limit: pageSize})
	}
	if err := s.checkFilter(filter); err != nil {
		return nil, err
	}
	all, err := s.listJobs(r.Context(), source, qless.Range{Limit: 1})
	if err != nil {
		return nil, err
	}
	found, err := s.search(r, source.key+" ", all.Total, filter, source.find)
	if err != nil {
		return nil, err
	}
	return &jobList{Jobs: found.Items, Total: all.Total, Filter: filter, Search: found}, nil
}

func (s *site) listJobs(ctx context.Context, source jobSource, r qless.Range) (*jobList, error) {
	key := source.key + " " + strconv.Itoa(r.Offset) + " " + strconv.Itoa(r.Limit)
	return sampled(ctx, &s.samples, key, func(ctx context.Context) (*jobList, error) {
		page, err := source.list(ctx, r)
		s.redactAll(page.Items)
		return &jobList{
			Jobs: page.Items, Total: page.Total,
			Rows: rows{From: r.Offset, Shown: len(page.Items), Total: page.Total},
		}, err
	})
}

// A listData is a page that is a list of jobs.
type listData struct {
	*jobList
	Tag       string `json:"tag,omitempty"`
	HasFilter bool   `json:"-"`
	Empty     string `json:"-"` // what to say if there are no jobs
}

// tracked lists the tracked jobs.
func (s *site) tracked(r *http.Request) (*view, error) {
	jobs, err := s.readJobs(r, jobSource{
		key: "tracked",
		list: func(ctx context.Context, r qless.Range) (qless.Page[qless.JobSummary], error) {
			return s.Client.ListTracked(ctx, r)
		},
	})
	if err != nil {
		return nil, err
	}
	return &view{template: "list", title: "Tracked jobs", section: "tracked", data: &listData{
		jobList: jobs,
		Empty:   "No job is tracked. Track a job on its page to follow it here.",
	}}, nil
}

// completed lists the completed jobs.
func (s *site) completed(r *http.Request) (*view, error) {
	jobs, err := s.readJobs(r, jobSource{
		key: "completed",
		list: func(ctx context.Context, r qless.Range) (qless.Page[qless.JobSummary], error) {
			return s.Client.ListCompleted(ctx, r)
		},
		find: func(ctx context.Context, f qless.Filter, after qless.Cursor) (qless.Finding, error) {
			return s.Client.FindCompleted(ctx, f, after)
		},
	})
	if err != nil {
		return nil, err
	}
	return &view{
		template: "list", title: "Completed jobs", section: "completed", isStill: jobs.Search != nil,
		data: &listData{
			jobList: jobs, HasFilter: true,
			Empty: "No completed job is kept. Jobs that workers complete are listed here.",
		},
	}, nil
}

// tag lists the jobs that have a tag.
func (s *site) tag(r *http.Request) (*view, error) {
	tag := nameOf(r, "tag")
	jobs, err := s.readJobs(r, jobSource{
		key: "tag " + strconv.Quote(tag),
		list: func(ctx context.Context, r qless.Range) (qless.Page[qless.JobSummary], error) {
			return s.Client.ListTagged(ctx, tag, r)
		},
		find: func(ctx context.Context, f qless.Filter, after qless.Cursor) (qless.Finding, error) {
			return s.Client.FindTagged(ctx, tag, f, after)
		},
	})
	if err != nil {
		return nil, err
	}
	return &view{
		template: "list", title: "Tag " + tag, section: "tags", isStill: jobs.Search != nil,
		data: &listData{
			jobList: jobs, Tag: tag, HasFilter: true,
			Empty: "No job has this tag any more.",
		},
	}, nil
}

// A tagRow is a tag, with how many jobs have it.
type tagRow struct {
	Name string `json:"name"`
	Jobs int    `json:"jobs"`
}

// A tagsData is a part of the tags.
type tagsData struct {
	Tags    []tagRow `json:"tags"`
	From    int      `json:"from"`
	HasMore bool     `json:"has_more"`
}

// tags lists the tags that are used most.
func (s *site) tags(r *http.Request) (*view, error) {
	from := fromOf(r)
	data, err := sampled(r.Context(), &s.samples, "tags "+strconv.Itoa(from),
		func(ctx context.Context) (*tagsData, error) { return s.readTags(ctx, from) })
	if err != nil {
		return nil, err
	}
	return &view{template: "tags", title: "Tags", section: "tags", data: data}, nil
}

func (s *site) readTags(ctx context.Context, from int) (*tagsData, error) {
	names, err := s.Client.Tags(ctx, qless.Range{Offset: from, Limit: pageSize})
	if err != nil {
		return nil, err
	}
	data := &tagsData{
		Tags: []tagRow{}, From: from, HasMore: from+len(names.Items) < names.Total,
	}
	for _, name := range names.Items {
		jobs, err := s.Client.Tagged(ctx, name, qless.Range{Limit: 1})
		if err != nil {
			return nil, err
		}
		data.Tags = append(data.Tags, tagRow{name, jobs.Total})
	}
	return data, nil
}

// Previous and Next are the first rows of the pages before and after.
func (d *tagsData) Previous() string { return strconv.Itoa(max(0, d.From-pageSize)) }
func (d *tagsData) Next() string     { return strconv.Itoa(d.From + pageSize) }

// NameParameter is the name in the query of the page, if its link has it there.
func (f *frame) NameParameter() string { return f.Request.URL.Query().Get("name") }

// Plain is the page's own URL without parameters, but for the name.
func (f *frame) Plain() string {
	path := f.Request.URL.EscapedPath()
	if query := f.Request.URL.Query(); query.Has("name") {
		return path + "?name=" + url.QueryEscape(query.Get("name"))
	}
	return path
}
