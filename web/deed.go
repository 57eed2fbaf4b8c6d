package web

import (
	"context"
	"net/url"
	"slices"

	"github.com/qless/qless-go"
)

// What an action does with jobs, and with anything else.
type (
	doJobs func(ctx context.Context, run *run, jobs []*qless.Job) (qless.BulkResult, error)
	doOne  func(ctx context.Context, run *run) error
)

// A deed is what an action is called, what it needs to know, and what it does.
type deed struct {
	Action Action
	Label  string // on its button: "Cancel"
	Done   string // what was done: "canceled", or of anything but jobs, "The queue is paused."
	Hint   string // what one should know before
	Fields []field
	IsGrim bool // it can't be undone

	isNew    bool          // what is done twice is there twice
	isAsked  bool          // a page asks first, though nothing has to be said
	isSingle bool          // it is offered for one job only
	isMain   bool          // it is one of the first buttons
	states   []qless.State // in which jobs can be, if not in any

	// Both check what the form says before they return what is to be done.
	jobs func(in *input) doJobs
	one  func(in *input) doOne

	// fill sets what is not said, when a page asks.
	fill func(ctx context.Context, s *site, form url.Values) error

	// long reports whether it may take long.
	long func(s *site, in *input) bool
}

func (d *deed) isLong(s *site, in *input) bool { return d.long != nil && d.long(s, in) }

// isAsking reports whether a page has to ask something first.
func (d *deed) isAsking(form url.Values) bool {
	if d.IsGrim || d.isAsked {
		return true
	}
	asks, said := false, false
	for _, field := range d.Fields {
		if !field.IsOpt && form.Get(field.Name) == "" {
			return true
		}
		if !field.IsSubject {
			asks, said = true, said || form.Has(field.Name)
		}
	}
	return asks && !said
}

// fits reports whether it makes sense for a job in a state.
func (d *deed) fits(state qless.State) bool {
	return len(d.states) == 0 || slices.Contains(d.states, state)
}

// A field is something that an action needs to know.
type field struct {
	Name      string
	Label     string
	Kind      string // the type of its input: text, number, area or check
	Hint      string
	IsOpt     bool // it may be empty
	IsSubject bool // it is what the action is about, so that it is not asked if it is known
	IsSecret  bool // it is not logged
}

// subject returns the field that says what an action is about.
func subject(name, label string) field {
	return field{Name: name, Label: label, Kind: "text", IsSubject: true}
}

const (
	hintTime = "Seconds, or a time such as 90s, 15m, 12h or 7d."
	hintTags = "Separated by commas."
	hintJIDs = "Separated by spaces or commas."
)
