package web

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qless/qless-go"
)

// A findData is what was found of what somebody looks for, and where.
type findData struct {
	Query string             `json:"query"`
	In    string             `json:"in,omitempty"` // what has to match; empty: klass, tag or jid
	State string             `json:"state,omitempty"`
	Queue string             `json:"queue,omitempty"`
	Items []qless.JobSummary `json:"items"`
	Legs  []legReport        `json:"looked"`
	Next  string             `json:"next,omitempty"`
	Named []named            `json:"named,omitempty"`

	most  int // how many jobs to find at once
	lists int // in how many lists to look at once
	jobs  int // at how many jobs
}

// A legReport says how far a request has looked in a list.
type legReport struct {
	List   string `json:"list"`
	Looked int    `json:"looked"`
	Total  int    `json:"total"`
	IsDone bool   `json:"is_done"` // to the end of the list
}

// A named is something else whose name has the text.
type named struct {
	Kind string `json:"kind"` // as in links
	Name string `json:"name"`
}

// IsAsked reports whether somebody looks for something.
func (d *findData) IsAsked() bool { return d.Query != "" || d.State != "" || d.Queue != "" }

// A choice is an option of a form.
type choice struct{ Value, Text string }

// Fields are what a text may be looked for in.
func (f *frame) Fields() []choice {
	all := []choice{
		{"", "klass, tag or part of the jid"}, {"klass", "klass"}, {"tag", "tag"},
		{"jid", "part of the jid"}, {"failure", "failure"},
	}
	if !f.Site.IsRedacted() {
		all = append(all, choice{"data", "part of the data"})
	}
	return all
}

// States are what lists of jobs may be looked at.
func (f *frame) States() []choice {
	return []choice{
		{"", "any state"}, {"waiting", "waiting"}, {"running", "running"}, {"stalled", "stalled"},
		{"scheduled", "scheduled"}, {"depends", "depends"}, {"failed", "failed"},
		{"complete", "complete"},
	}
}

// find looks for jobs.
func (s *site) find(r *http.Request) (*view, error) {
	query := r.URL.Query()
	data := &findData{
		Query: query.Get("q"), In: query.Get("in"), State: query.Get("state"),
		Queue: query.Get("queue"), Items: []qless.JobSummary{}, Legs: []legReport{}, most: pageSize,
	}
	v := &view{template: "find", title: "Find", section: "find", data: data, isStill: true}
	if !data.IsAsked() {
		return v, nil
	}
	if err := s.checkFind(data); err != nil {
		return nil, err
	}
	next := query.Get("next")
	if next == "" {
		if v.goTo = s.exactly(r.Context(), data); v.goTo != "" {
			return v, nil
		}
	}
	key := fmt.Sprintf("find %q %q %q %q %q", data.Query, data.In, data.State, data.Queue, next)
	found, err := sampled(r.Context(), &s.samples, key, func(ctx context.Context) (*findData, error) {
		read := *data
		return &read, s.readFind(ctx, &read, next)
	})
	v.data = found
	return v, err
}

func (s *site) checkFind(data *findData) error {
	f := &frame{Site: s}
	isKnown := func(value string) func(choice) bool {
		return func(c choice) bool { return c.Value == value }
	}
	if data.In == "data" && s.IsRedacted() {
		return s.checkFilter(jobFilter{Data: data.Query})
	}
	if !slices.ContainsFunc(f.Fields(), isKnown(data.In)) {
		return invalid("there is nothing called %q to look in", data.In)
	}
	if !slices.ContainsFunc(f.States(), isKnown(data.State)) {
		return invalid("there is no state %q", data.State)
	}
	return nil
}

// exactly returns the page of the job, or the recurring job, that has the text as its jid.
func (s *site) exactly(ctx context.Context, data *findData) string {
	if data.Query == "" || data.In != "" && data.In != "jid" {
		return ""
	}
	if _, err := s.Client.Job(ctx, data.Query); err == nil {
		return s.link("jobs", data.Query)
	}
	if _, err := s.Client.RecurringJob(ctx, data.Query); err == nil {
		return s.link("recurring", data.Query)
	}
	return ""
}

// readFind goes through the lists, from a place on, until a page is full or enough was looked at.
func (s *site) readFind(ctx context.Context, data *findData, next string) error {
	seen, isNew, err := s.seen(ctx)
	if err != nil {
		return err
	}
	data.lists, data.jobs = maxLegs, maxLooked
	if isNew {
		queues := len(seen.Queues)
		data.lists = max(fewLegs, maxLegs-queues/queuesOfLeg)
		data.jobs = max(fewLooked, maxLooked-queues*jobsOfQueue)
	}
	if next == "" {
		if data.Named, err = s.namedIn(ctx, seen, data.Query); err != nil {
			return err
		}
	}
	return s.readLegs(ctx, data, seen, next)
}

func (s *site) readLegs(
	ctx context.Context, data *findData, seen *qless.Overview, next string,
) error {
	at, after, err := parsePlace(next)
	if err != nil {
		return err
	}
	most, until := data.jobs, time.Now().Add(maxSearch)
	if data.In == "data" {
		most = min(most, maxLookedWithData)
	}
	for _, l := range s.legsOf(data, seen) {
		if at != nil && l.place.compare(*at) < 0 {
			continue
		}
		if at == nil || l.place != *at {
			after = ""
		}
		looked, rest, err := s.walk(ctx, data, &l, after, most, until)
		if err != nil {
			return err
		}
		most -= looked
		isEnough := data.isFull() || most <= 0 || len(data.Legs) >= data.lists || time.Now().After(until)
		if rest != "" || isEnough {
			data.Next = nextPlace(l.place, rest)
			return nil
		}
	}
	return nil
}

// maxLegs is in how many lists a request looks.
const maxLegs = 70

// A request that first has to find out which lists there are looks in fewer of them, and at fewer
// jobs: one list less for so many queues, and so many jobs for each.
const (
	fewLegs     = 10
	fewLooked   = 500
	queuesOfLeg = 3
	jobsOfQueue = 50
)

func (d *findData) isFull() bool { return len(d.Items) >= d.most }

// walk looks for jobs in a list, and returns at how many it has looked, and where it goes on.
func (s *site) walk(
	ctx context.Context, data *findData, l *leg, after qless.Cursor, most int, until time.Time,
) (looked int, rest qless.Cursor, err error) {
	for {
		filter := l.filter
		filter.Limit = data.most - len(data.Items)
		if l.matches != nil {
			filter.Limit = 100 // of which some match
		}
		part, err := l.find(ctx, filter, after)
		if err != nil {
			return looked, "", err
		}
		s.redactAll(part.Items)
		for _, item := range part.Items {
			if l.matches == nil || l.matches(&item) {
				data.Items = append(data.Items, item)
			}
		}
		looked += part.Looked
		after = part.Next
		if after == "" || data.isFull() || looked >= most || time.Now().After(until) {
			data.report(l, looked, after == "")
			return looked, after, nil
		}
	}
}

// report adds how far a request has looked in a list.
func (d *findData) report(l *leg, looked int, isDone bool) {
	d.Legs = append(d.Legs, legReport{
		List: l.name, Looked: looked, Total: max(l.total, looked), IsDone: isDone,
	})
}

// A leg is one way through a list.
type leg struct {
	place   place
	name    string // for people
	total   int
	filter  qless.Filter
	find    finder
	matches func(*qless.JobSummary) bool // if not nil, what the server can't tell
}

// The kinds of lists, in the order in which they are gone through.
const (
	kindTag = iota
	kindQueue
	kindFailed
	kindComplete
)

// A place says which leg it is. Legs are gone through in the order of their places, so that a
// search goes on where it was, whatever lists come and go.
type place struct {
	kind       int
	name       string
	list, pass int
}

func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(p.kind, other.kind), cmp.Compare(p.name, other.name),
		cmp.Compare(p.list, other.list), cmp.Compare(p.pass, other.pass))
}

// nextPlace writes where a search goes on: at a cursor, or after a leg if that is empty.
func nextPlace(p place, rest qless.Cursor) string {
	if rest == "" {
		p.pass++
	}
	return url.Values{
		"at":   {fmt.Sprintf("%d %d %d", p.kind, p.list, p.pass)},
		"name": {p.name}, "after": {string(rest)},
	}.Encode()
}

func parsePlace(text string) (*place, qless.Cursor, error) {
	if text == "" {
		return nil, "", nil
	}
	values, err := url.ParseQuery(text)
	if err != nil {
		return nil, "", invalid("a search can't go on at %q", text)
	}
	p := place{name: values.Get("name")}
	numbers := strings.Fields(values.Get("at"))
	if len(numbers) != 3 {
		return nil, "", invalid("a search can't go on at %q", text)
	}
	for i, number := range []*int{&p.kind, &p.list, &p.pass} {
		if *number, err = strconv.Atoi(numbers[i]); err != nil {
			return nil, "", invalid("a search can't go on at %q", text)
		}
	}
	return &p, qless.Cursor(values.Get("after")), nil
}

// legsOf returns the ways to go, in order.
func (s *site) legsOf(data *findData, seen *qless.Overview) []leg {
	var legs []leg
	if data.Query != "" && (data.In == "" || data.In == "tag") {
		legs = append(legs, s.tagLeg(data))
	}
	if data.In != "tag" {
		legs = append(legs, s.queueLegs(data, seen)...)
		legs = append(legs, s.failedLegs(data, seen)...)
		legs = append(legs, s.completeLegs(data)...)
	}
	slices.SortStableFunc(legs, func(a, b leg) int { return a.place.compare(b.place) })
	return legs
}

// A pass looks for one property. A job that an earlier pass finds is not found by a later one.
type pass struct {
	filter qless.Filter
	isNew  func(*qless.JobSummary) bool
}

func (d *findData) passes() []pass {
	query := d.Query
	switch {
	case query == "" || d.In == "failure":
		return []pass{{}}
	case d.In == "klass":
		return []pass{{filter: qless.Filter{Klass: query}}}
	case d.In == "jid":
		return []pass{{filter: qless.Filter{JID: query}}}
	case d.In == "data":
		return []pass{{filter: qless.Filter{Data: query}}}
	}
	hasTag := func(job *qless.JobSummary) bool { return slices.Contains(job.Tags, query) }
	return []pass{
		{qless.Filter{Klass: query}, func(job *qless.JobSummary) bool { return !hasTag(job) }},
		{qless.Filter{JID: query}, func(job *qless.JobSummary) bool {
			return !hasTag(job) && job.Klass != query
		}},
	}
}

// legsIn returns the ways through a list, one for each pass.
func (d *findData) legsIn(
	p place, name string, total int, find finder, matches func(*qless.JobSummary) bool,
) []leg {
	var legs []leg
	for i, one := range d.passes() {
		p.pass = i
		legs = append(legs, leg{p, name, total, one.filter, find, both(one.isNew, matches)})
	}
	return legs
}

// both returns a function that is true where both are. A nil one is always true.
func both(a, b func(*qless.JobSummary) bool) func(*qless.JobSummary) bool {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(job *qless.JobSummary) bool { return a(job) && b(job) }
}

// tagLeg goes through the jobs with the text as a tag.
func (s *site) tagLeg(data *findData) leg {
	return leg{
		place: place{kind: kindTag}, name: "jobs with the tag " + data.Query,
		find: func(
			ctx context.Context, filter qless.Filter, after qless.Cursor,
		) (qless.Finding, error) {
			return s.Client.FindTagged(ctx, data.Query, filter, after)
		},
		matches: func(job *qless.JobSummary) bool {
			return data.isInState(job) && (data.Queue == "" || job.Queue == data.Queue)
		},
	}
}

// isInState reports whether a job is in the state that is looked for.
func (d *findData) isInState(job *qless.JobSummary) bool {
	hasEnded := !job.Expires.IsZero() && job.Expires.Before(time.Now())
	switch d.State {
	case "":
		return true
	case "stalled":
		return job.State == qless.StateTimedOut || job.State == qless.StateRunning && hasEnded
	case "running":
		return job.State == qless.StateRunning && !hasEnded
	}
	return string(job.State) == d.State
}

// queueLegs goes through the lists of queues.
func (s *site) queueLegs(data *findData, seen *qless.Overview) (legs []leg) {
	if data.In == "failure" {
		return nil
	}
	for i := range seen.Queues {
		q := &seen.Queues[i]
		if data.Queue != "" && q.Name != data.Queue {
			continue
		}
		name := q.Name
		for number, list := range []tab{
			{qless.ListWaiting, q.Waiting}, {qless.ListRunning, q.Running},
			{qless.ListStalled, q.Stalled}, {qless.ListScheduled, q.Scheduled},
			{qless.ListDepends, q.Depends},
		} {
			// Scheduled jobs that have fallen due are counted as waiting.
			isEmpty := list.Count == 0 && (list.List != qless.ListScheduled || q.Waiting == 0)
			if isEmpty || data.State != "" && data.State != string(list.List) {
				continue
			}
			find := func(
				ctx context.Context, filter qless.Filter, after qless.Cursor,
			) (qless.Finding, error) {
				return s.Client.Queue(name).Find(ctx, list.List, filter, after)
			}
			p := place{kind: kindQueue, name: name, list: number}
			legs = append(legs, data.legsIn(p, string(list.List)+" in "+name, list.Count, find, nil)...)
		}
	}
	return legs
}

// failedLegs goes through the failure groups.
func (s *site) failedLegs(data *findData, seen *qless.Overview) (legs []leg) {
	if data.State != "" && data.State != string(qless.StateFailed) {
		return nil
	}
	for name, jobs := range seen.FailureGroups {
		find := func(
			ctx context.Context, filter qless.Filter, after qless.Cursor,
		) (qless.Finding, error) {
			return s.Client.FindFailed(ctx, name, filter, after)
		}
		var matches func(*qless.JobSummary) bool
		if data.Queue != "" {
			matches = func(job *qless.JobSummary) bool { return job.Queue == data.Queue }
		}
		if data.In == "failure" && !hasText(name, data.Query) {
			matches = both(matches, func(job *qless.JobSummary) bool {
				return job.Failure != nil && hasText(job.Failure.Message, data.Query)
			})
		}
		p := place{kind: kindFailed, name: name}
		legs = append(legs, data.legsIn(p, "failed in "+name, jobs, find, matches)...)
	}
	return legs
}

// completeLegs goes through the completed jobs, which are in no queue.
func (s *site) completeLegs(data *findData) []leg {
	isOther := data.State != "" && data.State != string(qless.StateComplete)
	if isOther || data.Queue != "" || data.In == "failure" {
		return nil
	}
	find := func(
		ctx context.Context, filter qless.Filter, after qless.Cursor,
	) (qless.Finding, error) {
		return s.Client.FindCompleted(ctx, filter, after)
	}
	return data.legsIn(place{kind: kindComplete}, "completed", 0, find, nil)
}

// hasText reports whether a text has another one in it, in upper or lower case.
func hasText(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// maxNamed is how many other things are shown whose name has the text.
const maxNamed = 20

// namedIn returns the queues, failure groups and workers whose names have a text.
func (s *site) namedIn(
	ctx context.Context, seen *qless.Overview, text string,
) (all []named, err error) {
	if text == "" {
		return nil, nil
	}
	add := func(kind, name string) {
		if hasText(name, text) && len(all) < maxNamed {
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

// FindMore is the URL at which a search goes on.
func (f *frame) FindMore(next string) string { return f.continueAt(url.Values{"next": {next}}) }
