package web

import (
	"context"
	"maps"
	"net/url"
	"slices"

	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/web/internal/find"
)

// A findData is the page of a search in all lists.
type findData struct {
	find.Query
	Items  []inspect.Row `json:"items"`
	Looked []find.Report `json:"looked"`
	Next   string        `json:"next,omitempty"`
	Named  []named       `json:"named,omitempty"`
}

// A named is something else whose name has the text.
type named struct {
	Kind string `json:"kind"` // as in links
	Name string `json:"name"`
}

// find looks for jobs.
func (s *site) find(ctx context.Context, q query) (*view, error) {
	data := &findData{
		Query: find.Query{
			Text: q.Get("q"), In: q.Get("in"), State: q.Get("state"), Queue: q.Get("queue"),
		},
		Items: []inspect.Row{}, Looked: []find.Report{},
	}
	v := &view{Title: "Find", Data: data, isStill: true}
	if !data.IsAsked() {
		return v, nil
	}
	if err := data.Check(s.IsRedacted()); err != nil {
		return nil, err
	}
	next := q.Get("next")
	if next == "" {
		if v.goTo = s.exactly(ctx, data); v.goTo != "" {
			return v, nil
		}
	}
	return v, s.readFind(ctx, data, next)
}

// exactly returns the page of the job, or the recurring job, that has the text as its jid.
func (s *site) exactly(ctx context.Context, data *findData) string {
	if data.Text == "" || data.In != "" && data.In != "jid" {
		return ""
	}
	if _, err := s.Client.Job(ctx, data.Text); err == nil {
		return s.Link("jobs", data.Text)
	}
	if _, err := s.Client.RecurringJob(ctx, data.Text); err == nil {
		return s.Link("recurring", data.Text)
	}
	return ""
}

// A request that first has to find out which lists there are looks in fewer of them, and at fewer
// jobs: one list less for so many queues, and so many jobs for each.
const (
	fewLists     = 10
	fewLooked    = 500
	queuesOfList = 3
	jobsOfQueue  = 50
)

// search searches the lists, from a position on, until a page is full or enough was looked at.
func (s *site) search(ctx context.Context, asked *find.Query, next string) (*find.Search, error) {
	seen, isNew, err := s.seen(ctx)
	if err != nil {
		return nil, err
	}
	bounds := find.Bounds{Items: pageSize, Lists: find.MaxLists, Jobs: find.MaxLooked}
	if isNew {
		queues := len(seen.Queues)
		bounds.Lists = max(fewLists, bounds.Lists-queues/queuesOfList)
		bounds.Jobs = max(fewLooked, bounds.Jobs-queues*jobsOfQueue)
	}
	found := find.New(bounds, s.redactAll)
	return found, found.Run(ctx, asked.Lists(s.in, seen), next)
}

// readFind reads what is found from a position on.
func (s *site) readFind(ctx context.Context, data *findData, next string) error {
	found, err := s.search(ctx, &data.Query, next)
	if err != nil {
		return err
	}
	data.Items, data.Looked, data.Next = found.Items, found.Looked, found.Next
	if next == "" {
		data.Named, err = s.namedIn(ctx, data.Text)
	}
	return err
}

// maxNamed is the number of other things that are shown whose name has the text.
const maxNamed = 20

// namedIn returns the queues, failure groups and workers whose names have a text.
func (s *site) namedIn(ctx context.Context, text string) (all []named, err error) {
	if text == "" {
		return nil, nil
	}
	seen, _, err := s.seen(ctx)
	if err != nil {
		return nil, err
	}
	add := func(kind, name string) {
		if find.HasText(name, text) && len(all) < maxNamed {
			all = append(all, named{kind, name})
		}
	}
	for i := range seen.Queues {
		add("queues", seen.Queues[i].Name)
	}
	for _, name := range slices.Sorted(maps.Keys(seen.FailureGroups)) {
		add("failures", name)
	}
	workers, err := s.listed(ctx)
	for i := range workers {
		add("workers", workers[i].Name)
	}
	return all, err
}

// Fields are the fields in which a text may be searched.
func (f *frame) Fields() []string {
	if f.Site.IsRedacted() {
		return find.Fields[:len(find.Fields)-1] // not in the data
	}
	return find.Fields
}

// States are the states in which jobs may be searched.
func (f *frame) States() []string { return find.States }

// FindMore is the URL at which a search continues.
func (f *frame) FindMore(next string) string { return f.with(url.Values{"next": {next}}) }
