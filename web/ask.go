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

// A question is what a page asks before an action.
type question struct {
	*actions.Info
	What     string            `json:"what,omitempty"`
	Jobs     *actions.Count    `json:"jobs,omitempty"`
	Typed    string            `json:"type,omitempty"` // what one has to type
	Problems map[string]string `json:"problems,omitempty"`
	Fields   []asked           `json:"fields"`
	Back     string            `json:"-"`
	Hidden   []actions.Hidden  `json:"-"`
}

// An asked is a field with what is known of it.
type asked struct {
	actions.Field
	Value   string `json:"-"`
	Problem string `json:"-"`
	IsKnown bool   `json:"-"` // it is what the action is about
}

// ask shows a page that asks for confirmation, and for the fields of an action. It has all that was
// typed before.
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
		Info: q.Info, Problems: q.Form.Problems, Jobs: q.Count,
		Back: s.ownPage(cameFrom(q.Form)).RequestURI(),
	}
	isShown := map[string]bool{"sure": true, "typed": true, actions.OnceName: true}
	for _, field := range q.Info.Fields {
		one := asked{Field: field, Value: q.Form.Get(field.Name), Problem: q.Form.Problems[field.Name]}
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

// cameFrom returns the page with the button. If an action goes back to another one, that is named
// before it.
func cameFrom(form *actions.Form) string {
	pages := form.Values["back"]
	if len(pages) == 0 {
		return ""
	}
	return pages[len(pages)-1]
}

// Usual are the fields that are shown at first, and Rare are the others.
func (q *question) Usual() []asked { return q.fields(false) }
func (q *question) Rare() []asked  { return q.fields(true) }

func (q *question) fields(isRare bool) []asked {
	return slices.DeleteFunc(slices.Clone(q.Fields), func(f asked) bool { return f.IsRare != isRare })
}

// HasRare reports whether one of the fields that are not shown at first is filled in, or wrong.
func (q *question) HasRare() bool {
	return slices.ContainsFunc(q.Rare(), func(f asked) bool { return f.Value+f.Problem != "" })
}

// Question is the question in words.
func (q *question) Question() string {
	deed := q.Deed()
	if q.Jobs == nil && !q.Destructive {
		return deed
	}
	return deed + "?"
}

// Deed is what the button does: "Cancel 1,500 jobs".
func (q *question) Deed() string {
	switch {
	case q.Jobs != nil && q.Jobs.IsMore:
		return q.Label + deedEnds[q.Name] + " more than " + words.Plural(q.Jobs.Jobs, "job")
	case q.Jobs != nil:
		return q.Label + deedEnds[q.Name] + " " + words.Plural(q.Jobs.Jobs, "job")
	case q.Destructive && len(q.Fields) > 0 && q.Fields[0].IsKnown:
		return q.Label + " " + q.Fields[0].Value
	}
	return q.Label
}

// deedEnds join the labels of some actions to the jobs that they change.
var deedEnds = map[string]string{
	"job.promote": ":", "job.timeout": ":", "job.priority": " of", "job.depend": " of",
	"job.undepend": " of", "job.log": " to", "job.edit": " of",
}

// Once is a word that no other page has, for forms. Updates of a page have the same one.
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
	Back string // where it goes back to, if not to the page with the button
	*actions.Info
}

// JobActions are the actions on jobs that the viewer may do, and that make sense:
// for the rows of a table, those of their states; for a job, those of its state.
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
			one.Back = f.Site.Link("queues", actions.QueueOf(job)) // the page of the job is gone then
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

// MoreID is the id of the part of the buttons that is opened, by which an update of the page
// leaves it open.
func (f *frame) MoreID(of any) string {
	switch of.(type) {
	case scopeForm:
		return "more-all"
	case *qless.Job:
		return "more-job"
	}
	return "more-selected"
}

// A button is an action on one thing, with a form of its own.
type button struct {
	*actions.Info
	URL    string
	Back   string
	Inputs []actions.Hidden
}

// Button returns a button for an action, for the template "button", or nil if whoever looks at the
// page may not do it. The pairs are what its form says, such as "queue", "mail".
func (f *frame) Button(action string, pairs ...string) *button {
	if !f.May(action) {
		return nil
	}
	info := actions.All[action]
	b := &button{Info: info, URL: f.Site.Base + "/actions/" + info.Name, Back: f.Here()}
	for i := 0; i+1 < len(pairs); i += 2 {
		b.Inputs = append(b.Inputs, actions.Hide(pairs[i], pairs[i+1]))
	}
	return b
}

// A scopeForm is the hidden inputs that select the jobs: all matches.
type scopeForm struct {
	Inputs []actions.Hidden
	Count  int // of the jobs, or 0 if that is not known
	states []qless.State
	kind   string
}

// Of sets the number of jobs.
func (c scopeForm) Of(count int) scopeForm {
	c.Count = count
	return c
}

// Scope returns all jobs that match something, for the template "all-actions". The kind and the
// pairs are those of its form, such as "queue", "queue", "mail", "list", "waiting", "klass",
// "Send".
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

// QueueScope returns the jobs that the page of a queue lists, or finds.
func (f *frame) QueueScope() scopeForm {
	q := f.Data.(*queueData)
	return f.listed(q.jobList, "queue", "queue", q.Name, "list", string(q.List))
}

// ListScope returns the jobs that a list has, or finds.
func (f *frame) ListScope() scopeForm {
	list := f.Data.(*listData)
	switch {
	case list.Tag != "" && list.Filter.Tag != "": // a scope has one tag
		return scopeForm{}
	case list.Tag != "":
		return f.listed(list.jobList, "tagged", "tag", list.Tag)
	}
	return f.listed(list.jobList, f.Section)
}

// listed returns the jobs of a list that match its filter.
func (f *frame) listed(list *jobList, kind string, pairs ...string) scopeForm {
	filter := list.Filter
	if kind != "tagged" {
		pairs = append(pairs, "tag", filter.Tag)
	}
	pairs = append(pairs, "klass", filter.Klass, "jid", filter.JID, "data", filter.Data)
	form := f.Scope(kind, pairs...)
	if list.Search == nil {
		form.Count = list.Total
	}
	return form
}

// FindScope returns the jobs that match a search.
func (f *frame) FindScope() scopeForm {
	data := f.Data.(*findData)
	form := f.Scope("found", "q", data.Text, "in", data.In, "state", data.State, "queue", data.Queue)
	if data.State != "" {
		form.states = find.StatesOf(data.State)
	}
	return form
}
