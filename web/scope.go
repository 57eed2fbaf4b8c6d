package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qless/qless-go"
)

// A target is the jobs that an action is about.
type target interface {
	fmt.Stringer

	// isOne reports whether it is a single job.
	isOne() bool

	// typed is the name that one has to type if there are many jobs, or empty.
	typed() string

	// find returns some of the jobs, how many it has looked at, and where it goes on, or nothing at
	// the end.
	find(ctx context.Context, after qless.Cursor) (
		jids []string, looked int, next qless.Cursor, err error)

	// total is how many jobs find looks at, and whether it finds them all.
	total(ctx context.Context) (n int, isAll bool, err error)

	// holds reports whether a job is still what the page has shown.
	holds(job *qless.Job) bool
}

// targetOf returns the jobs that a form selects.
func (s *site) targetOf(q *request) (target, error) {
	kind := q.form.Get("scope")
	if kind == "found" {
		return s.foundOf(q)
	}
	if kind != "" {
		c := &scope{client: s.Client, kind: kind}
		return c, c.read(q)
	}
	p := &selection{states: map[string]qless.State{}}
	for _, value := range q.form["job"] {
		state, jid, err := picked(value)
		if err != nil {
			return nil, err
		}
		if _, isThere := p.states[jid]; !isThere {
			p.jids = append(p.jids, jid)
		}
		p.states[jid] = state
	}
	if len(p.jids) == 0 {
		return nil, invalid("no job is selected")
	}
	return p, nil
}

// A selection is jobs that were picked on a page.
type selection struct {
	jids   []string
	states map[string]qless.State
}

func (p *selection) String() string { return "" }
func (p *selection) isOne() bool    { return len(p.jids) == 1 }
func (p *selection) typed() string  { return "" }

func (p *selection) find(
	context.Context, qless.Cursor,
) ([]string, int, qless.Cursor, error) {
	return p.jids, len(p.jids), "", nil
}

func (p *selection) total(context.Context) (int, bool, error) { return len(p.jids), true, nil }

func (p *selection) holds(job *qless.Job) bool { return p.states[job.JID] == job.State }

// scopeFields are the inputs of a scope besides its kind.
var scopeFields = []string{
	"queue", "list", "group", "worker", "klass", "tag", "jid", "data", "q", "in", "state",
}

// A scope is all jobs that match something: of a list of a queue, of a failure group, with a tag,
// all that are completed or tracked, or that a worker runs.
type scope struct {
	client *qless.Client
	kind   string
	name   string // of the queue, group, tag or worker
	list   qless.List
	filter qless.Filter
}

// ofScopes are the fields with the names of what scopes are of.
var ofScopes = map[string]string{
	"queue": "queue", "failed": "group", "tagged": "tag", "completed": "", "tracked": "",
	"worker": "worker",
}

// read reads what a form says about a scope.
func (c *scope) read(q *request) error {
	named, isKnown := ofScopes[c.kind]
	if !isKnown {
		return invalid("there is no scope %q", c.kind)
	}
	c.filter = qless.Filter{
		Klass: q.form.Get("klass"), Tag: q.form.Get("tag"), JID: q.form.Get("jid"),
		Data: q.form.Get("data"),
	}
	if c.filter.Data != "" && q.in.hides {
		return invalid("data is not searched here")
	}
	if named != "" {
		c.name = q.form.Get(named)
	}
	if named == "tag" {
		c.filter.Tag = ""
	}
	if named != "" && c.name == "" {
		return invalid("the scope %s needs a %s", c.kind, named)
	}
	return c.checkList(q.form.Get("list"))
}

func (c *scope) checkList(list string) error {
	isFiltered := c.filter != qless.Filter{}
	switch {
	case (c.kind == "tracked" || c.kind == "worker") && isFiltered:
		return invalid("the scope %s has no filter", c.kind)
	case c.kind != "queue":
		return nil
	}
	c.list = qless.List(list)
	if c.statesOfList() == nil {
		return invalid("the jobs of the list %q can't be changed all at once", list)
	}
	return nil
}

// statesOfList returns the states that jobs of the list have.
func (c *scope) statesOfList() []qless.State {
	switch c.list {
	case qless.ListWaiting:
		return []qless.State{qless.StateWaiting, qless.StateTimedOut}
	case qless.ListRunning, qless.ListStalled:
		return []qless.State{qless.StateRunning}
	case qless.ListScheduled:
		return []qless.State{qless.StateScheduled}
	case qless.ListDepends:
		return []qless.State{qless.StateDepends}
	}
	return nil
}

func (c *scope) isOne() bool   { return false }
func (c *scope) typed() string { return c.name }

// String says which jobs it has.
func (c *scope) String() string {
	var b strings.Builder
	switch c.kind {
	case "queue":
		fmt.Fprintf(&b, "%s jobs of the queue %s", c.list, c.name)
	case "failed":
		fmt.Fprintf(&b, "jobs that failed in the group %s", c.name)
	case "tagged":
		fmt.Fprintf(&b, "jobs with the tag %s", c.name)
	case "worker":
		fmt.Fprintf(&b, "jobs that the worker %s runs", c.name)
	default:
		fmt.Fprintf(&b, "%s jobs", c.kind)
	}
	for _, one := range []struct{ what, value string }{
		{"klass", c.filter.Klass}, {"tag", c.filter.Tag}, {"jid with", c.filter.JID},
		{"data with", c.filter.Data},
	} {
		if one.value != "" {
			fmt.Fprintf(&b, ", %s %s", one.what, one.value)
		}
	}
	return b.String()
}

// scopePage is how many jobs are read at once.
const scopePage = 1000

func (c *scope) find(
	ctx context.Context, after qless.Cursor,
) (jids []string, looked int, next qless.Cursor, err error) {
	switch c.kind {
	case "tracked":
		return c.findTracked(ctx, after)
	case "worker":
		jobs, err := c.client.WorkerJobs(ctx, c.name)
		jids = slices.Concat(jobs.Jobs, jobs.Stalled)
		return jids, len(jids), "", err
	}
	found, err := c.search(ctx, after)
	for i := range found.Items {
		jids = append(jids, found.Items[i].JID)
	}
	return jids, found.Looked, found.Next, err
}

func (c *scope) search(ctx context.Context, after qless.Cursor) (qless.Finding, error) {
	switch c.kind {
	case "queue":
		return c.client.Queue(c.name).Find(ctx, c.list, c.filter, after)
	case "failed":
		return c.client.FindFailed(ctx, c.name, c.filter, after)
	case "tagged":
		return c.client.FindTagged(ctx, c.name, c.filter, after)
	}
	return c.client.FindCompleted(ctx, c.filter, after)
}

func (c *scope) findTracked(
	ctx context.Context, after qless.Cursor,
) ([]string, int, qless.Cursor, error) {
	from, _ := strconv.Atoi(string(after))
	page, err := c.client.Tracked(ctx, qless.Range{Offset: from, Limit: scopePage})
	next := qless.Cursor("")
	if from += len(page.Items); len(page.Items) == scopePage {
		next = qless.Cursor(strconv.Itoa(from))
	}
	return page.Items, len(page.Items), next, err
}

func (c *scope) total(ctx context.Context) (n int, isAll bool, err error) {
	one := qless.Range{Limit: 1}
	isAll = c.filter == qless.Filter{}
	var page qless.Page[qless.JobSummary]
	switch c.kind {
	case "queue":
		page, err = c.client.Queue(c.name).List(ctx, c.list, one)
	case "failed":
		page, err = c.client.ListFailed(ctx, c.name, one)
	case "tagged":
		page, err = c.client.ListTagged(ctx, c.name, one)
	case "completed":
		page, err = c.client.ListCompleted(ctx, one)
	case "tracked":
		page, err = c.client.ListTracked(ctx, one)
	case "worker":
		var jobs qless.WorkerJobs
		jobs, err = c.client.WorkerJobs(ctx, c.name)
		page.Total = len(jobs.Jobs) + len(jobs.Stalled)
	}
	return page.Total, isAll, err
}

// holds reports whether a job is what the list means.
func (c *scope) holds(job *qless.Job) bool {
	if c.filter.Klass != "" && job.Klass != c.filter.Klass {
		return false
	}
	if c.filter.Tag != "" && !slices.Contains(job.Tags, c.filter.Tag) {
		return false
	}
	switch c.kind {
	case "queue":
		return job.Queue == c.name && slices.Contains(c.statesOfList(), job.State) &&
			(c.list != qless.ListStalled || job.Expires.Before(time.Now()))
	case "failed":
		return job.State == qless.StateFailed && job.Failure != nil && job.Failure.Group == c.name
	case "tagged":
		return slices.Contains(job.Tags, c.name)
	case "completed":
		return job.State == qless.StateComplete
	case "tracked":
		return job.Tracked
	}
	return job.State == qless.StateRunning && job.Worker == c.name
}

// A count is how many jobs an action is about.
type count struct {
	Jobs   int      `json:"jobs"`
	IsMore bool     `json:"is_more,omitempty"` // there may be more of them
	Looked int      `json:"looked"`            // how many jobs were looked at
	Total  int      `json:"total"`             // of how many
	Sample []string `json:"sample,omitempty"`  // some of the jids
}

// How long it is counted.
const (
	countedAtMost = 20_000
	countTime     = 2 * time.Second
	sampleSize    = 10
)

// count counts the jobs of a request: of a long list only in the beginning.
func (s *site) count(r *http.Request, q *request) error {
	ctx := r.Context()
	n, isAll, err := q.target.total(ctx)
	if err != nil {
		return err
	}
	q.count = count{Jobs: n, Looked: n, Total: n}
	if isAll {
		jids, _, _, err := q.target.find(ctx, "")
		q.count.Sample = jids[:min(len(jids), sampleSize)]
		return err
	}
	q.count.Jobs, q.count.Looked = 0, 0
	until := time.Now().Add(countTime)
	for after, more := qless.Cursor(""), true; more; more = after != "" {
		if q.count.Looked >= countedAtMost || time.Now().After(until) {
			q.count.IsMore = true
			return nil
		}
		jids, looked, next, err := q.target.find(ctx, after)
		if err != nil {
			return err
		}
		q.count.Jobs, q.count.Looked = q.count.Jobs+len(jids), q.count.Looked+looked
		room := min(len(jids), sampleSize-len(q.count.Sample))
		q.count.Sample = append(q.count.Sample, jids[:room]...)
		after = next
	}
	return nil
}

// typedFrom is the number of jobs above which one has to type a name.
const typedFrom = 1000

func (q *request) mustType() bool { return q.count.IsMore || q.count.Jobs > typedFrom }

// typed is the name that one has to type: of the queue, group, tag or worker, or else of the
// action.
func (q *request) typed() string {
	name := strings.TrimSpace(printable(q.target.typed()))
	if name == "" {
		return string(q.action)
	}
	return name
}

func (q *request) isTyped() bool {
	return strings.TrimSpace(printable(q.form.Get("typed"))) == q.typed()
}

// printable returns a text as a browser shows it.
func printable(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	return strings.NewReplacer("\x00", "\ufffd", "\r", " ", "\n", " ").Replace(text)
}

// A scopeForm is the hidden inputs that say which jobs are meant: all that match.
type scopeForm struct {
	Inputs []hidden
	Count  int // how many there are, or 0 if that is not known
	states []qless.State
	kind   string
}

// Of says how many jobs there are.
func (c scopeForm) Of(count int) scopeForm {
	c.Count = count
	return c
}

// Scope returns all jobs that match something, for the template "all-actions". The kind and the
// pairs are those of its form, such as "queue", "queue", "mail", "list", "waiting", "klass",
// "Send".
func (f *frame) Scope(kind string, pairs ...string) scopeForm {
	form := scopeForm{Inputs: []hidden{{"scope", kind}}, kind: kind}
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			form.Inputs = append(form.Inputs, hide(pairs[i], pairs[i+1]))
			values.Set(pairs[i], pairs[i+1])
		}
	}
	switch kind {
	case "queue":
		form.states = (&scope{list: qless.List(values.Get("list"))}).statesOfList()
	case "failed":
		form.states = []qless.State{qless.StateFailed}
	case "completed":
		form.states = []qless.State{qless.StateComplete}
	case "worker":
		form.states = []qless.State{qless.StateRunning}
	}
	return form
}

// QueueScope returns the jobs that the page of a queue lists, or finds.
func (f *frame) QueueScope() scopeForm {
	q := f.data.(*queueData)
	form := f.Scope("queue", q.Filter.pairs("queue", q.Name, "list", string(q.List))...)
	if q.Search == nil {
		form.Count = q.Rows.Total
	}
	return form
}

// ListScope returns the jobs that a list has, or finds.
func (f *frame) ListScope() scopeForm {
	list := f.data.(*listData)
	kind, filter := "completed", list.Filter
	switch {
	case list.Tag != "" && filter.Tag != "": // a scope has one tag
		return scopeForm{}
	case list.Tag != "":
		kind, filter.Tag = "tagged", list.Tag
	case f.section == "tracked":
		kind = "tracked"
	}
	form := f.Scope(kind, filter.pairs()...)
	if list.Search == nil {
		form.Count = list.Total
	}
	return form
}

// pairs returns what a form says about the filter, after what else it says.
func (f jobFilter) pairs(pairs ...string) []string {
	return append(pairs, "klass", f.Klass, "tag", f.Tag, "jid", f.JID, "data", f.Data)
}
