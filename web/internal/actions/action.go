// Package actions performs the actions of forms on jobs, queues and settings, and remembers the
// outcomes.
package actions

import (
	"context"
	"slices"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// An Action is an action that a form can request.
type Action interface {
	// Check refuses the invalid fields of a form. The kinds of fields were checked before.
	Check(f *Form)

	// Do performs the action of a run. For actions on jobs, Do is called for each step with the jobs
	// of the step. For other actions, Do is called once, without jobs.
	Do(ctx context.Context, r *Run, jobs []*qless.Job) (inspect.Repair, error)
}

// An Info describes an action to users.
type Info struct {
	Name   string  `json:"action"`
	Label  string  `json:"label"`          // on the button: "Cancel"
	Done   string  `json:"-"`              // the result for jobs, such as "canceled", or a sentence
	Hint   string  `json:"hint,omitempty"` // advice to the user
	Fields []Field `json:"fields"`

	OnJobs      bool          `json:"-"` // changes existing jobs
	Destructive bool          `json:"-"` // can't be undone
	Confirm     bool          `json:"-"` // needs confirmation, even if no field is missing
	SingleJob   bool          `json:"-"` // offered for single jobs only
	Primary     bool          `json:"-"` // among the first buttons
	Creates     bool          `json:"-"` // not idempotent
	States      []qless.State `json:"-"` // suitable states of jobs; nil means any

	Action `json:"-"`

	// Fill, if set, adds the current values to the form of a question.
	Fill func(ctx context.Context, s *Space, f *Form) error `json:"-"`

	// IsLong, if set, reports whether an action on anything but jobs may take long.
	IsLong func(s *Space, f *Form) bool `json:"-"`
}

// A Space is the namespace that actions change.
type Space struct {
	*inspect.Inspector
	Base      string // the path of the pages
	Client    *qless.Client
	History   *History
	Redact    func([]inspect.Row) // removes the hidden parts of rows
	HidesData bool

	// Examine starts an exam of the namespace, with or without repairing the findings.
	Examine func(repair bool) error

	// Ended is called after each run.
	Ended func(done *Outcome)
}

// Fits reports whether the action makes sense for a job in a state.
func (i *Info) Fits(state qless.State) bool {
	return len(i.States) == 0 || slices.Contains(i.States, state)
}

// Asks reports whether a page may have to ask a question before the action.
func (i *Info) Asks() bool {
	return i.Destructive || i.Confirm || slices.ContainsFunc(i.Fields, isOpen)
}

func isOpen(field Field) bool { return !field.Subject }

// asks reports whether a page has to ask a question before the action of a form.
func (i *Info) asks(f *Form) bool {
	return i.Destructive || i.Confirm || f.Has(allQueues) || len(f.Values["queue"]) > 1 ||
		slices.ContainsFunc(i.Fields, func(field Field) bool {
			return !field.Optional && f.Get(field.Name) == ""
		}) ||
		i.Asks() && !slices.ContainsFunc(i.Fields, func(field Field) bool {
			return isOpen(field) && f.Has(field.Name)
		})
}
