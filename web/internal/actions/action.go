// Package actions changes jobs, queues and settings as a form asks for it, and remembers what was
// done.
package actions

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// An Action is something that a user can do with a form.
type Action interface {
	// Check refuses the fields of a form that can't be used. Their kinds were checked before.
	Check(f *Form)

	// Do does what the form of a run asks for. An action on jobs is done step by step, with the jobs
	// of each step; others are done once, without jobs.
	Do(ctx context.Context, r *Run, jobs []*qless.Job) (inspect.Result, error)
}

// An Info describes an action to users.
type Info struct {
	Name   string  `json:"action"`
	Label  string  `json:"label"`          // on its button: "Cancel"
	Done   string  `json:"-"`              // what was done to jobs: "canceled", or a sentence
	Hint   string  `json:"hint,omitempty"` // what a user should know before
	Fields []Field `json:"fields"`

	OnJobs      bool          `json:"-"` // it changes jobs that exist
	Destructive bool          `json:"-"` // it can't be undone
	Confirm     bool          `json:"-"` // a page asks first, even if no field is missing
	SingleJob   bool          `json:"-"` // it is offered for one job only
	Primary     bool          `json:"-"` // it is one of the first buttons
	Creates     bool          `json:"-"` // done twice, it has its effect twice
	States      []qless.State `json:"-"` // in which jobs can be, if not in any

	Action `json:"-"`

	// Fill, if set, adds to the form of a page that asks what is set now.
	Fill func(ctx context.Context, s *Space, f *Form) error `json:"-"`

	// IsLong, if set, reports whether an action that is not on jobs may take long.
	IsLong func(s *Space, f *Form) bool `json:"-"`
}

// A Space is the namespace that actions change.
type Space struct {
	*inspect.Inspector
	Base      string // the path of its pages
	Client    *qless.Client
	History   *History
	Redact    func([]inspect.Row) // removes from rows what is not shown
	HidesData bool

	// Examine begins an exam of the namespace, perhaps with the repair of what it finds.
	Examine func(repair bool) error

	// Ended is called after each run.
	Ended func(done *Outcome)
}

// Fits reports whether the action makes sense for a job in a state.
func (i *Info) Fits(state qless.State) bool {
	return len(i.States) == 0 || slices.Contains(i.States, state)
}

// asks reports whether a page has to ask something first.
func (i *Info) asks(f *Form) bool {
	if i.Destructive || i.Confirm {
		return true
	}
	isOpen, isSaid := false, false
	for _, field := range i.Fields {
		if !field.Optional && f.Get(field.Name) == "" {
			return true
		}
		if !field.Subject {
			isOpen, isSaid = true, isSaid || f.Has(field.Name)
		}
	}
	return isOpen && !isSaid
}

// JobActions are the actions on jobs, in the order of their buttons.
var JobActions = jobActions()

// All are all actions, by name.
var All = all()

func all() map[string]*Info {
	byName := map[string]*Info{}
	for _, info := range JobActions {
		info.OnJobs = true
		byName[info.Name] = info
	}
	for _, info := range slices.Concat(
		newJobActions(), queueActions(), recurringActions(), otherActions(),
	) {
		byName[info.Name] = info
	}
	for _, info := range byName {
		for i := range info.Fields {
			field := &info.Fields[i]
			field.Hint = strings.TrimSpace(kindHints[field.Kind] + " " + field.Hint)
		}
	}
	return byName
}

// A bulk is a repair of the jobs of a step.
type bulk func(s inspect.Selection, ctx context.Context) (inspect.Result, error)

func (bulk) Check(*Form) {}

func (do bulk) Do(ctx context.Context, r *Run, jobs []*qless.Job) (inspect.Result, error) {
	return do(r.selection(jobs), ctx)
}

// A bulkWith is a repair with values of the form.
type bulkWith func(ctx context.Context, s inspect.Selection, f *Form) (inspect.Result, error)

func (bulkWith) Check(*Form) {}

func (do bulkWith) Do(ctx context.Context, r *Run, jobs []*qless.Job) (inspect.Result, error) {
	return do(ctx, r.selection(jobs), r.Form)
}

// An each changes one job after the other. An error about one of them leaves that one.
type each func(ctx context.Context, r *Run, job *qless.Job) error

func (each) Check(*Form) {}

func (do each) Do(ctx context.Context, r *Run, jobs []*qless.Job) (inspect.Result, error) {
	done := inspect.Result{Why: map[string]*qless.Error{}}
	for _, job := range jobs {
		err := do(ctx, r, job)
		var why *qless.Error
		switch {
		case err == nil:
			done.Changed++
		case !errors.As(err, &why) || slices.Contains(general, why.Code):
			return done, err
		default:
			done.Left++
			done.Why[job.JID] = why
		}
	}
	return done, nil
}

// general are the codes of errors that are not about one job only.
var general = []qless.Code{qless.ErrUnavailable, qless.ErrServer, qless.ErrInvalid}

// A single is done once, and not with jobs.
type single func(ctx context.Context, r *Run) error

func (single) Check(*Form) {}

func (do single) Do(ctx context.Context, r *Run, _ []*qless.Job) (inspect.Result, error) {
	if err := do(ctx, r); err != nil {
		return inspect.Result{}, err
	}
	return inspect.Result{Changed: 1}, nil
}

// A checked is done once if its form passes a check of its own.
type checked struct {
	single
	check func(f *Form)
}

func (c checked) Check(f *Form) { c.check(f) }
