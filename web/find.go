package web

import (
	"context"
	"maps"
	"slices"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/terms"
	"github.com/qless/qless-go/web/internal/find"
)

// A findData is the result of a search in all lists.
type findData struct {
	find.Query
	Items    []inspect.Row `json:"items"`
	Examined []find.Report `json:"examined"`
	Search   *search       `json:"search,omitempty"`
	Next     string        `json:"next,omitempty"`
	Named    []named       `json:"named,omitempty"`
	Tabs     []counted     `json:"-"` // a negative number is unknown
	Known    []string      `json:"-"` // completions of the search box
}

// A named is something other than a job with the text in its name.
type named struct {
	Kind string `json:"kind"` // as in links
	Name string `json:"name"`
}

// find looks for jobs.
func (s *site) find(ctx context.Context, q query) (*view, error) {
	data := &findData{
		Items: []inspect.Row{}, Examined: []find.Report{},
	}
	v := &view{Title: "Find", Data: data, isStill: true}
	var err error
	if data.Query, err = q.search(); err != nil {
		return nil, err
	}
	if !data.IsAsked() {
		return v, s.addTabs(ctx, data)
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
	if err := s.readFind(ctx, q, data); err != nil {
		return nil, err
	}
	v.search = data.Search
	return v, s.addTabs(ctx, data)
}

// addTabs adds the states, with the numbers of jobs in the queue or in all queues. A search for a
// text has no numbers.
func (s *site) addTabs(ctx context.Context, data *findData) error {
	seen, _, err := s.seen(ctx)
	if err != nil {
		return err
	}
	if data.Known, err = s.knownWords(ctx, seen); err != nil {
		return err
	}
	sum := qless.QueueCounts{}
	for i := range seen.Queues {
		if q := &seen.Queues[i]; data.Queue == "" || q.Name == data.Queue {
			addCounts(&sum, &q.QueueCounts)
		}
	}
	failed := 0
	for _, jobs := range seen.FailureGroups {
		failed += jobs
	}
	if data.Queue != "" {
		failed = -1
	}
	data.Tabs = append([]counted{{"", -1}}, listsOf(&sum)[:5]...)
	data.Tabs = append(data.Tabs, counted{"failed", failed}, counted{"complete", -1})
	for i := range data.Tabs {
		if data.Words != "" {
			data.Tabs[i].Jobs = -1
		}
	}
	return nil
}

// knownWords returns the completions of the search box: the states, and some queues and tags.
func (s *site) knownWords(ctx context.Context, seen *inspect.Overview) (known []string, err error) {
	for _, state := range find.States[1:] {
		known = append(known, "state:"+state)
	}
	for i := range seen.Queues[:min(wordsKnown, len(seen.Queues))] {
		known = append(known, terms.Word("queue:", seen.Queues[i].Name))
	}
	tags, err := s.in.Tags(ctx, inspect.Range{Limit: wordsKnown})
	for _, tag := range tags.Items {
		known = append(known, terms.Word("tag:", tag))
	}
	return known, err
}

// wordsKnown is the maximum number of queues, and of tags, among the completions.
const wordsKnown = 100

// exactly returns the URL of the job or recurring job with the text as jid.
func (s *site) exactly(ctx context.Context, data *findData) string {
	if data.Text == "" || data.Text != data.Words {
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

// A request that must read the lists first searches fewer lists, and fewer jobs: one list less per
// so many queues, and so many jobs less per list.
const (
	fewLists     = 10
	fewLooked    = 500
	queuesOfList = 3
	jobsOfQueue  = 50
)

// search searches the lists from a position until a page is full or the limit of a request is
// reached. It also returns the number of jobs in the lists.
func (s *site) search(
	ctx context.Context, asked *find.Query, next string,
) (found *find.Search, total int, err error) {
	seen, isNew, err := s.seen(ctx)
	if err != nil {
		return nil, 0, err
	}
	bounds := find.Bounds{Items: pageSize, Lists: find.MaxLists, Jobs: find.MaxExamined}
	if isNew {
		queues := len(seen.Queues)
		bounds.Lists = max(fewLists, bounds.Lists-queues/queuesOfList)
		bounds.Jobs = max(fewLooked, bounds.Jobs-queues*jobsOfQueue)
	}
	lists := asked.Lists(s.in, seen)
	total, hasCompleted := find.Total(lists)
	if hasCompleted {
		completed, err := s.in.Completed().Count(ctx)
		if err != nil {
			return nil, 0, err
		}
		total += completed
	}
	found = find.New(bounds, s.redactAll)
	return found, total, found.Run(ctx, lists, next)
}

// readFind reads the matches from a position.
func (s *site) readFind(ctx context.Context, q query, data *findData) error {
	found, total, err := s.search(ctx, &data.Query, q.Get("next"))
	if err != nil {
		return err
	}
	data.Items, data.Examined, data.Next = found.Items, found.Examined, found.Next
	data.Search = newSearch(q.Values, found, total, "next", found.Next)
	if q.Get("next") == "" {
		data.Named, err = s.namedIn(ctx, data.Text)
	}
	return err
}

// maxNamed is the maximum number of other things that are shown.
const maxNamed = 20

// namedIn returns the queues, failure groups and workers with a text in their names.
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

// Words returns the completions of a search.
func (f *frame) Words() []string {
	if data, isFind := f.Data.(*findData); isFind {
		return slices.Concat(f.Fields(), data.Known)
	}
	return f.Fields()
}

// Fields returns the beginnings of words that name a field.
func (f *frame) Fields() []string {
	if f.Site.IsRedacted() {
		return terms.Words[:len(terms.Words)-1] // not in the data
	}
	return terms.Words
}

// InData returns the URL of a search for the text in the data.
func (f *frame) InData() string {
	return f.With("q", terms.Word("data:", f.Data.(*findData).Text))
}
