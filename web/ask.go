package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/web/internal/actions"
	"github.com/qless/qless-go/web/internal/find"
	"github.com/qless/qless-go/web/internal/words"
)

// A question is shown by a page before an action.
type question struct {
	*actions.Info
	What     string            `json:"what,omitempty"`
	Jobs     *actions.Count    `json:"jobs,omitempty"`
	Typed    string            `json:"type,omitempty"` // the text for the user to type
	Problems map[string]string `json:"problems,omitempty"`
	Fields   []asked           `json:"fields"`
	Queues   string            `json:"queues,omitempty"` // describes the queues, if several
	Back     string            `json:"-"`
	Hidden   []actions.Hidden  `json:"-"`
}

// An asked is a field of a question with its value.
type asked struct {
	actions.Field
	Value   string `json:"-"`
	Problem string `json:"-"`
	IsKnown bool   `json:"-"` // the subject of the action
}

// ask shows a page that asks for confirmation and for the fields of an action. Earlier input is
// kept.
func (s *site) ask(w http.ResponseWriter, r *http.Request, q *actions.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), sampleTimeout)
	defer cancel()
	err := q.CountJobs(ctx)
	if err == nil {
		err = q.Fill(ctx)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	asked := s.question(q)
	status := http.StatusOK
	if len(asked.Problems) > 0 {
		status = http.StatusUnprocessableEntity
	}
	if prefersJSON(r) {
		if status == http.StatusOK && r.Method == http.MethodPost {
			status = http.StatusPreconditionRequired
		}
		writeJSON(w, status, asked)
		return
	}
	s.write(w, r, status, &view{template: "ask", Title: q.Info.Label, isStill: true, Data: asked})
}

func (s *site) question(q *actions.Request) *question {
	asks := &question{
		Info: q.Info, Problems: q.Form.Problems, Jobs: q.Count, Queues: q.Form.Queues(),
		Back: s.ownPage(cameFrom(q.Form)).RequestURI(),
	}
	isShown := map[string]bool{"sure": true, "typed": true, actions.OnceName: true}
	for _, field := range q.Info.Fields {
		one := asked{Field: field, Value: q.Form.Get(field.Name), Problem: q.Form.Problems[field.Name]}
		if asks.Queues != "" && field.Subject {
			one.Value = strings.Join(q.Form.Values[field.Name], ", ")
		}
		one.IsKnown = field.Subject && one.Value != "" && one.Problem == ""
		isShown[field.Name] = !one.IsKnown
		asks.Fields = append(asks.Fields, one)
	}
	if q.Target != nil {
		asks.What = q.Target.What
	}
	if q.MustType() {
		asks.Typed = q.Typed()
	}
	for name, values := range q.Form.Values {
		for _, value := range values {
			if !isShown[name] {
				asks.Hidden = append(asks.Hidden, actions.Hide(name, value))
			}
		}
	}
	slices.SortStableFunc(asks.Hidden, func(a, b actions.Hidden) int {
		return strings.Compare(a.Name, b.Name)
	})
	return asks
}

// cameFrom returns the page with the button: the last of the form's pages, after the page to go
// back to, if any.
func cameFrom(form *actions.Form) string {
	pages := form.Values["back"]
	if len(pages) == 0 {
		return ""
	}
	return pages[len(pages)-1]
}

// A fieldset is a group of fields.
type fieldset struct {
	Title  string
	Fields []asked
}

// Groups returns the fields in groups. The first group has no title, and is always shown.
func (q *question) Groups() (all []fieldset) {
	for _, field := range q.Fields {
		i := slices.IndexFunc(all, func(g fieldset) bool { return g.Title == field.Group })
		if i < 0 {
			i = len(all)
			all = append(all, fieldset{Title: field.Group})
		}
		all[i].Fields = append(all[i].Fields, field)
	}
	return all
}

// HasRare reports whether one of the rare fields is filled in or wrong.
func (q *question) HasRare() bool {
	return slices.ContainsFunc(q.Fields, func(f asked) bool {
		return f.Group != "" && f.Value+f.Problem != ""
	})
}

// Question returns the question in words.
func (q *question) Question() string {
	if q.SingleJob || q.Jobs == nil && !q.Destructive && q.Queues == "" {
		return q.Label
	}
	return q.Deed() + "?"
}

// Deed returns the label of the button: "Cancel 1,500 jobs".
func (q *question) Deed() string {
	switch {
	case q.SingleJob:
		return q.Label
	case q.Queues != "":
		return q.Label + " " + q.Queues
	case q.Jobs != nil && q.Jobs.IsMore:
		return q.Label + deedEnds[q.Name] + " more than " + words.Plural(q.Jobs.Jobs, "job")
	case q.Jobs != nil:
		return q.Label + deedEnds[q.Name] + " " + words.Plural(q.Jobs.Jobs, "job")
	case q.Destructive && len(q.Fields) > 0 && q.Fields[0].IsKnown:
		return q.Label + " " + q.Fields[0].Value
	}
	return strings.Replace(q.Label, "New ", "Put ", 1)
}

// deedEnds connect the labels of some actions with the changed jobs.
var deedEnds = map[string]string{
	"job.promote": ":", "job.timeout": ":", "job.priority": " of", "job.depend": " of",
	"job.undepend": " of",
}

// Once returns a word unique to the forms of a page. Updates of a page keep the word.
func (f *frame) Once() string {
	if f.once == "" {
		f.once, _ = f.Request.Context().Value(isFragment{}).(string)
	}
	if f.once == "" {
		f.once = actions.NewID()
	}
	return f.once
}

// An offer is a button for an action on jobs.
type offer struct {
	Back string // the page to go back to, if not the page with the button
	*actions.Info
}

// JobActions returns the actions on jobs that the viewer may do, for the state of the job, or the
// states of the jobs in a table.
func (f *frame) JobActions(of any) []offer {
	job, isJob := of.(*qless.Job)
	var all []offer
	for _, info := range actions.JobActions {
		name, one := Action(info.Name), offer{Info: info}
		isAsIs := isJob &&
			(name == ActionJobTrack && job.Tracked || name == ActionJobUntrack && !job.Tracked)
		if isAsIs || !isJob && info.SingleJob || !fits(info, of) || !f.May(info.Name) {
			continue
		}
		if isJob && name == ActionJobCancel {
			one.Back = f.Site.Link("queues", actions.QueueOf(job)) // the job has no page afterwards
		}
		all = append(all, one)
	}
	return all
}

// fits reports whether an action makes sense for jobs in their states.
func fits(info *actions.Info, of any) bool {
	switch of := of.(type) {
	case []inspect.Row:
		return slices.ContainsFunc(of, func(job inspect.Row) bool {
			return job.State != "" && info.Fits(job.State)
		})
	case scopeForm:
		isAsIs := of.kind == "tracked" && Action(info.Name) == ActionJobTrack
		return of.kind != "" && !isAsIs && (of.states == nil || slices.ContainsFunc(of.states, info.Fits))
	case *qless.Job:
		return info.Fits(of.State)
	}
	return true
}

// MoreID returns the id of the expandable part of the buttons. Updates of the page leave an open
// part open.
func (f *frame) MoreID(of any) string {
	switch of.(type) {
	case scopeForm:
		return "more-all"
	case *qless.Job:
		return "more-job"
	}
	return "more-selected"
}

// A button is a form for an action on one thing.
type button struct {
	*actions.Info
	URL    string
	Back   string
	Inputs []actions.Hidden
}

// Button returns a button for an action, for the template "button", or nil if the viewer may not do
// it. The pairs are the form's values, such as "queue", "mail". The action leads back to the page
// itself, or to the path "back".
func (f *frame) Button(action string, pairs ...string) *button {
	if !f.May(action) {
		return nil
	}
	info := actions.All[action]
	b := &button{Info: info, URL: f.Site.Base + "/actions/" + info.Name, Back: f.Here()}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i] == "back" {
			b.Back = pairs[i+1]
			continue
		}
		b.Inputs = append(b.Inputs, actions.Hide(pairs[i], pairs[i+1]))
	}
	return b
}

// A scopeForm holds the hidden inputs that select all matching jobs.
type scopeForm struct {
	Inputs []actions.Hidden
	Count  int // the number of jobs, or 0 if unknown
	states []qless.State
	kind   string
}

// Of sets the number of jobs.
func (c scopeForm) Of(count int) scopeForm {
	c.Count = count
	return c
}

// Scope selects all matching jobs, for the template "all-actions". The kind and the pairs are the
// form's, such as "queue", "queue", "mail", "list", "waiting", "klass", "Send".
func (f *frame) Scope(kind string, pairs ...string) scopeForm {
	form := scopeForm{Inputs: []actions.Hidden{{Name: "scope", Value: kind}}, kind: kind}
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			form.Inputs = append(form.Inputs, actions.Hide(pairs[i], pairs[i+1]))
			values.Set(pairs[i], pairs[i+1])
		}
	}
	form.states = actions.StatesOf(kind, values.Get("list"))
	return form
}

// QueueScope selects the jobs listed or found on the page of a queue.
func (f *frame) QueueScope() scopeForm {
	q := f.Data.(*queueData)
	return f.listed(q.jobList, "queue", "queue", q.Name, "list", string(q.List))
}

// ListScope selects the jobs contained or found in a list.
func (f *frame) ListScope() scopeForm {
	list := f.Data.(*listData)
	switch {
	case list.Tag != "" && list.Query.Tag != "": // a scope has one tag
		return scopeForm{}
	case list.Tag != "":
		return f.listed(list.jobList, "tagged", "tag", list.Tag)
	}
	return f.listed(list.jobList, f.Section)
}

// GroupScope selects the jobs listed or found on the page of a failure group.
func (f *frame) GroupScope() scopeForm {
	data := f.Data.(*failureData)
	return f.listed(data.jobList, "failed", "group", data.Group)
}

// listed selects the jobs of a list under its filter.
func (f *frame) listed(list *jobList, kind string, pairs ...string) scopeForm {
	asked := f.Request.URL.Query()
	for _, name := range []string{"q", "klass", "tag", "jid", "data", "large"} {
		if kind != "tagged" || name != "tag" {
			pairs = append(pairs, name, asked.Get(name))
		}
	}
	form := f.Scope(kind, append(pairs,
		"since", exactly(list.Query.Since), "until", exactly(list.Query.Until))...)
	if list.Search == nil {
		form.Count = list.Total
	}
	return form
}

// FindScope selects the jobs found by a search.
func (f *frame) FindScope() scopeForm {
	data := f.Data.(*findData)
	form := f.Scope("found", "q", data.Words, "state", data.State, "queue", data.Queue,
		"since", exactly(data.Since), "until", exactly(data.Until),
		"large", f.Request.FormValue("large"))
	if data.State != "" {
		form.states = find.StatesOf(data.State)
	}
	return form
}
