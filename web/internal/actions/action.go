// Package actions does the actions of forms on jobs, queues and settings, and remembers their
// outcomes.
package actions

import (
	"context"
	"errors"
	"slices"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// An Action is an action that a form can request.
type Action interface {
	// Check refuses the invalid fields of a form. Their kinds were checked before.
	Check(f *Form)

	// Do does the action of a run. For actions on jobs, it is called for each step with the jobs of
	// the step. For others, it is called once, without jobs.
	Do(ctx context.Context, r *Run, jobs []*qless.Job) (inspect.Repair, error)
}

// An Info describes an action to users.
type Info struct {
	Name   string  `json:"action"`
	Label  string  `json:"label"`          // on its button: "Cancel"
	Done   string  `json:"-"`              // the result for jobs, such as "canceled", or a sentence
	Hint   string  `json:"hint,omitempty"` // advice to the user
	Fields []Field `json:"fields"`

	OnJobs      bool          `json:"-"` // it changes existing jobs
	Destructive bool          `json:"-"` // it can't be undone
	Confirm     bool          `json:"-"` // it needs confirmation, even if no field is missing
	SingleJob   bool          `json:"-"` // it is offered for single jobs only
	Primary     bool          `json:"-"` // it is one of the first buttons
	Creates     bool          `json:"-"` // it is not idempotent
	States      []qless.State `json:"-"` // the states of jobs that it is for; nil means any

	Action `json:"-"`

	// Fill, if set, adds the current values to the form of a question.
	Fill func(ctx context.Context, s *Space, f *Form) error `json:"-"`

	// IsLong, if set, reports whether an action on something else than jobs may take long.
	IsLong func(s *Space, f *Form) bool `json:"-"`
}

// A Space is the namespace that actions change.
type Space struct {
	*inspect.Inspector
	Base      string // the path of its pages
	Client    *qless.Client
	History   *History
	Redact    func([]inspect.Row) // removes the parts of rows that are not shown
	HidesData bool

	// Examine starts an exam of the namespace, which may repair its findings.
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

// asks reports whether a page has to ask a question before it does what a form requests.
func (i *Info) asks(f *Form) bool {
	return i.Destructive || i.Confirm ||
		slices.ContainsFunc(i.Fields, func(field Field) bool {
			return !field.Optional && f.Get(field.Name) == ""
		}) ||
		i.Asks() && !slices.ContainsFunc(i.Fields, func(field Field) bool {
			return isOpen(field) && f.Has(field.Name)
		})
}

// JobActions are the actions on jobs, in the order of their buttons.
var JobActions = jobActions()

// All has all actions by name.
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
	return byName
}

// A bulk is a repair of the jobs of a step.
type bulk func(s inspect.Selection, ctx context.Context) (inspect.Repair, error)

func (bulk) Check(*Form) {}

func (do bulk) Do(ctx context.Context, r *Run, jobs []*qless.Job) (inspect.Repair, error) {
	return do(r.selection(jobs), ctx)
}

// A bulkWith is a repair with values of the form.
type bulkWith func(ctx context.Context, s inspect.Selection, f *Form) (inspect.Repair, error)

func (bulkWith) Check(*Form) {}

func (do bulkWith) Do(ctx context.Context, r *Run, jobs []*qless.Job) (inspect.Repair, error) {
	return do(ctx, r.selection(jobs), r.Form)
}

// An each changes one job after another. It skips jobs with errors of their own.
type each func(ctx context.Context, r *Run, job *qless.Job) error

func (each) Check(*Form) {}

func (do each) Do(ctx context.Context, r *Run, jobs []*qless.Job) (inspect.Repair, error) {
	done := inspect.Repair{Reasons: map[string]*qless.Error{}}
	for _, job := range jobs {
		err := do(ctx, r, job)
		var why *qless.Error
		switch {
		case err == nil:
			done.Changed++
		case !errors.As(err, &why) || slices.Contains(general, why.Code):
			return done, err
		default:
			done.Unchanged++
			done.Reasons[job.JID] = why
		}
	}
	return done, nil
}

// general are the codes of errors that concern more than one job.
var general = []qless.Code{qless.ErrUnavailable, qless.ErrServer, qless.ErrInvalid}

// A single is done once, without jobs.
type single func(ctx context.Context, r *Run) error

func (single) Check(*Form) {}

func (do single) Do(ctx context.Context, r *Run, _ []*qless.Job) (inspect.Repair, error) {
	if err := do(ctx, r); err != nil {
		return inspect.Repair{}, err
	}
	return inspect.Repair{Changed: 1}, nil
}

// A checked is done once if its form passes a check of its own.
type checked struct {
	single
	check func(f *Form)
}

func (c checked) Check(f *Form) { c.check(f) }
