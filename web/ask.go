package web

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/qless/qless-go"
)

// A question is what a page asks before an action.
type question struct {
	Action   Action            `json:"action"`
	Label    string            `json:"label"`
	Hint     string            `json:"hint,omitempty"`
	What     string            `json:"what,omitempty"`
	Jobs     *count            `json:"jobs,omitempty"`
	Typed    string            `json:"type,omitempty"` // what one has to type
	Problems map[string]string `json:"problems,omitempty"`
	Fields   []asked           `json:"fields"`
	IsGrim   bool              `json:"-"`
	Back     string            `json:"-"`
	Hidden   []hidden          `json:"-"`
}

// An asked is a field with what is known of it.
type asked struct {
	field
	Value   string `json:"-"`
	Problem string `json:"-"`
}

// MarshalJSON writes the name and what it means.
func (a asked) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{
		"name": a.Name, "label": a.Label, "hint": a.Hint, "optional": a.IsOpt,
	})
}

// ask shows a page that asks whether to go on, and what else an action needs to know. It has all
// that was typed before.
func (s *site) ask(w http.ResponseWriter, r *http.Request, q *request) {
	if q.target != nil && q.count.Total == 0 {
		if err := s.count(r, q); err != nil {
			s.fail(w, r, err)
			return
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), sampleTimeout)
	defer cancel()
	if q.deed.fill != nil {
		if err := q.deed.fill(ctx, s, q.form); err != nil {
			s.fail(w, r, err)
			return
		}
	}
	asked := s.question(q)
	status := http.StatusOK
	if len(q.in.problems) > 0 {
		status = http.StatusUnprocessableEntity
	}
	if prefersJSON(r) {
		if status == http.StatusOK && r.Method == http.MethodPost {
			status = http.StatusPreconditionRequired
		}
		writeJSON(w, status, asked)
		return
	}
	s.write(w, r, status, &view{template: "ask", title: q.deed.Label, isStill: true, data: asked})
}

func (s *site) question(q *request) *question {
	asks := &question{
		Action: q.action, Label: q.deed.Label, Hint: q.deed.Hint, Problems: q.in.problems,
		IsGrim: q.deed.IsGrim, Back: s.ownPage(q.cameFrom()).RequestURI(),
	}
	shown := map[string]bool{"sure": true, "typed": true, onceName: true}
	for _, field := range q.deed.Fields {
		value := q.form.Get(field.Name)
		if field.IsSubject && value != "" && q.in.problems[field.Name] == "" {
			asks.Fields = append(asks.Fields, asked{field: field, Value: value})
			continue
		}
		field.IsSubject = false
		shown[field.Name] = true
		asks.Fields = append(asks.Fields,
			asked{field: field, Value: value, Problem: q.in.problems[field.Name]})
	}
	if q.target != nil {
		asks.What, asks.Jobs = q.target.String(), &q.count
		if q.mustType() {
			asks.Typed = q.typed()
		}
	}
	asks.Hidden = hiddenOf(q.form, shown)
	return asks
}

// cameFrom returns the page with the button. If an action goes back to another one, that is named
// before it.
func (q *request) cameFrom() string {
	pages := q.form["back"]
	if len(pages) == 0 {
		return ""
	}
	return pages[len(pages)-1]
}

// hiddenOf returns the inputs for what is not asked again.
func hiddenOf(form url.Values, shown map[string]bool) []hidden {
	var inputs []hidden
	for name, values := range form {
		if shown[name] {
			continue
		}
		for _, value := range values {
			inputs = append(inputs, hide(name, value))
		}
	}
	slices.SortStableFunc(inputs, func(a, b hidden) int { return strings.Compare(a.Name, b.Name) })
	return inputs
}

// String is the question.
func (q *question) String() string {
	switch {
	case q.Jobs == nil:
		return q.Label
	case q.Jobs.IsMore:
		return q.Label + ": more than " + plural(q.Jobs.Jobs, "job") + "?"
	}
	return q.Label + ": " + plural(q.Jobs.Jobs, "job") + "?"
}

// Problem is what is wrong with all of it, or with what was typed.
func (q *question) Problem() string      { return q.Problems[""] }
func (q *question) TypedProblem() string { return q.Problems["typed"] }

// An offer is a button for an action.
type offer struct {
	Name   Action
	IsMain bool
	Back   string // where it goes back to, if not to the page with the button
	*deed
}

// JobActions are the actions on jobs that the viewer may do, and that make sense:
// for the rows of a table, those of their states; for a job, those of its state.
func (f *frame) JobActions(of any) []offer {
	var all []offer
	for _, action := range jobActions {
		deed := deeds[action]
		if f.May(action) && offers(deed, of) {
			all = append(all, offer{action, deed.isMain, f.backFrom(action, of), deed})
		}
	}
	return all
}

// backFrom returns where an action goes back to if its page is gone then, or nothing.
func (f *frame) backFrom(action Action, of any) string {
	job, isJob := of.(*qless.Job)
	if !isJob || action != ActionJobCancel {
		return ""
	}
	return f.Site.link("queues", queueOf(job))
}

// jobActions are the actions on jobs, in the order of their buttons.
var jobActions = []Action{
	ActionJobRetry, ActionJobPromote, ActionJobTimeout, ActionJobMove, ActionJobCancel,
	ActionJobReschedule, ActionJobPriority, ActionJobTag, ActionJobUntag, ActionJobTrack,
	ActionJobUntrack, ActionJobDepend, ActionJobUndepend, ActionJobLog, ActionJobEdit, ActionJobCopy,
}

// offers reports whether an action makes sense for jobs.
func offers(d *deed, of any) bool {
	switch of := of.(type) {
	case []qless.JobSummary:
		return !d.isSingle && slices.ContainsFunc(of, func(job qless.JobSummary) bool {
			return job.State != "" && d.fits(job.State)
		})
	case scopeForm:
		return !d.isSingle && of.kind != "" && !(of.kind == "tracked" && d.Action == ActionJobTrack) &&
			(of.states == nil || slices.ContainsFunc(of.states, d.fits))
	case *qless.Job:
		isAsIs := d.Action == ActionJobTrack && of.Tracked ||
			d.Action == ActionJobUntrack && !of.Tracked
		return !isAsIs && d.fits(of.State)
	case qless.State:
		return !d.isSingle && d.fits(of)
	}
	return !d.isSingle
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
	Label  string
	URL    string
	Back   string
	IsGrim bool
	Inputs []hidden
}

// Button returns a button for an action, for the template "button", or nil if whoever looks at the
// page may not do it. The pairs are what its form says, such as "queue", "mail".
func (f *frame) Button(action Action, pairs ...string) *button {
	deed := deeds[action]
	if deed == nil || !f.May(action) {
		return nil
	}
	b := &button{
		Label: deed.Label, URL: f.Site.base + "/actions/" + string(action), Back: f.Here(),
		IsGrim: deed.IsGrim,
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		b.Inputs = append(b.Inputs, hide(pairs[i], pairs[i+1]))
	}
	return b
}

// ShowsData reports whether data of jobs is shown.
func (f *frame) ShowsData() bool { return f.Site.handler.options.Redact == nil }
