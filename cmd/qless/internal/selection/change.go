// Package selection selects jobs and other things by name or by a search, and changes them.
package selection

import (
	"context"
	"maps"
	"slices"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/place"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/inspect"
)

// A Change is an action of a command on many jobs.
type Change struct {
	Verb string // such as "cancel", as in "cancel 3 jobs"
	Done string // "canceled"
	Rest string // such as "to slow", as in "move 3 jobs to slow"

	Confirmed bool // needs confirmation
	Many      bool // needs confirmation for several jobs

	Do func(jobs inspect.Selection, ctx context.Context) (inspect.Repair, error)
}

// Jobs reads jobs, as many at a time as fit into a script.
func Jobs(
	ctx context.Context, to *out.Console, client *qless.Client, jids []string,
) ([]*qless.Job, error) {
	const atOnce = 500
	jobs := []*qless.Job{}
	for page := range slices.Chunk(jids, atOnce) {
		to.Watch.Restart()
		found, err := client.Jobs(ctx, page...)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, found...)
	}
	return jobs, nil
}

// Run returns the function that changes the jobs given as arguments.
func (c Change) Run(to *out.Console) place.Do {
	return func(ctx context.Context, client *qless.Client, args []string) error {
		if err := out.OneStdin(args...); err != nil {
			return err
		}
		jids, err := to.Names(args)
		if err != nil {
			return err
		}
		return c.Of(ctx, to, client, jids)
	}
}

// Of changes jobs and reports the changed ones.
func (c Change) Of(
	ctx context.Context, to *out.Console, client *qless.Client, jids []string,
) error {
	if len(jids) == 0 {
		return c.Report(to, inspect.Repair{})
	}
	if to.DryRun {
		return c.would(ctx, to, client, jids)
	}
	if c.Confirmed || c.Many && len(jids) > 1 {
		if goOn, err := to.Confirm(c.Sentence(len(jids))); !goOn {
			return err
		}
	}
	sum, err := c.Repair(ctx, to, inspect.New(client).JIDs(jids...), len(jids))
	if reported := c.Report(to, sum); err == nil {
		err = reported
	}
	return err
}

// Sentence returns the change of n jobs in words, such as "cancel 3 jobs".
func (c Change) Sentence(n int) string {
	return c.Verb + " " + text.Count(n, "job") + c.Rest
}

// would prints the jobs selected for a change.
func (c Change) would(
	ctx context.Context, to *out.Console, client *qless.Client, jids []string,
) error {
	jobs, err := Jobs(ctx, to, client, jids)
	if err != nil {
		return err
	}
	to.Say("would %s", c.Sentence(len(jobs)))
	if gone := len(jids) - len(jobs); gone > 0 {
		to.Say("%s not there", text.Count(gone, "job"))
	}
	return to.PrintFullJobs(jobs)
}

// Repair changes the jobs of a selection, and shows its progress.
func (c Change) Repair(
	ctx context.Context, to *out.Console, jobs inspect.Selection, total int,
) (inspect.Repair, error) {
	bar := to.NewProgress("job", total)
	defer bar.End()
	to.Watch.Restart()
	return c.Do(jobs.OnStep(func(soFar inspect.Repair) error {
		to.Watch.Restart()
		bar.Reach(soFar.Changed + soFar.Unchanged)
		return nil
	}), ctx)
}

// OfEach returns the function of a change from a function that changes a single job.
func OfEach(
	do func(ctx context.Context, job *qless.Job) error,
) func(inspect.Selection, context.Context) (inspect.Repair, error) {
	return func(jobs inspect.Selection, ctx context.Context) (inspect.Repair, error) {
		return jobs.Apply(ctx, do)
	}
}

// maxReasons is the maximum number of unchanged jobs named.
const maxReasons = 20

// Report prints the number of changed jobs, and why other jobs were not changed. If any job was not
// changed, it returns an out.Left.
func (c Change) Report(to *out.Console, sum inspect.Repair) error {
	if err := to.PrintJSON(sum); err != nil {
		return err
	}
	to.Say("%s %s%s", c.Done, text.Count(sum.Changed, "job"), c.Rest)
	for i, jid := range slices.Sorted(maps.Keys(sum.Reasons)) {
		if i == maxReasons {
			to.Say("  and %d more", len(sum.Reasons)-maxReasons)
			break
		}
		to.Say("  %s: %s", text.Clean(jid), text.Clean(sum.Reasons[jid].Message))
	}
	if sum.Unchanged == 0 {
		return nil
	}
	return out.Left{Sum: sum, Noun: "job"}
}
