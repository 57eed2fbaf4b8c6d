package actions

import (
	"context"
	"errors"
	"slices"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

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

// general are the codes of errors about more than one job.
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
