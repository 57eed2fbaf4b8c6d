package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/inspect"
)

// A change is an action of a command on many jobs.
type change struct {
	verb string // such as "cancel", as in "cancel 3 jobs"
	done string // "canceled"
	rest string // such as "to slow", as in "move 3 jobs to slow"

	confirmed bool // it needs confirmation
	many      bool // it needs confirmation for several jobs

	do func(ctx context.Context, jobs inspect.Selection) (inspect.Repair, error)
}

// inPage is the number of jobs that a dry run reads in a step.
const inPage = 500

// run returns the function that changes the jobs given as arguments.
func (c change) run(a *app) do {
	return func(ctx context.Context, client *qless.Client, args []string) error {
		if err := oneStdin(args...); err != nil {
			return err
		}
		jids, err := a.names(args)
		if err != nil {
			return err
		}
		return a.change(ctx, client, c, jids)
	}
}

// change changes jobs and reports the changed ones.
func (a *app) change(ctx context.Context, client *qless.Client, c change, jids []string) error {
	if len(jids) == 0 {
		return a.report(c, inspect.Repair{})
	}
	if a.dryRun {
		return a.wouldChange(ctx, client, c, jids)
	}
	if c.confirmed || c.many && len(jids) > 1 {
		if goOn, err := a.confirm(c.what(len(jids))); !goOn {
			return err
		}
	}
	sum, err := a.repair(ctx, c, inspect.New(client).JIDs(jids...), len(jids))
	if reported := a.report(c, sum); err == nil {
		err = reported
	}
	return err
}

func (c change) what(n int) string {
	return c.verb + " " + text.Count(n, "job") + c.rest
}

// wouldChange prints the jobs that would be changed.
func (a *app) wouldChange(
	ctx context.Context, client *qless.Client, c change, jids []string,
) error {
	jobs := []*qless.Job{}
	for page := range slices.Chunk(jids, inPage) {
		a.watch.restart()
		found, err := client.Jobs(ctx, page...)
		if err != nil {
			return err
		}
		jobs = append(jobs, found...)
	}
	a.say("would %s", c.what(len(jobs)))
	if gone := len(jids) - len(jobs); gone > 0 {
		a.say("%s not there", text.Count(gone, "job"))
	}
	return a.printFullJobs(jobs)
}

// repair changes the jobs of a selection, and shows its progress.
func (a *app) repair(
	ctx context.Context, c change, jobs inspect.Selection, total int,
) (inspect.Repair, error) {
	bar := a.newProgress("job", total)
	defer bar.end()
	a.watch.restart()
	return c.do(ctx, jobs.OnStep(func(soFar inspect.Repair) error {
		a.watch.restart()
		bar.reach(soFar.Changed + soFar.Unchanged)
		return nil
	}))
}

// ofEach returns the function of a change, given one that changes a single job.
func ofEach(
	do func(ctx context.Context, job *qless.Job) error,
) func(context.Context, inspect.Selection) (inspect.Repair, error) {
	return func(ctx context.Context, jobs inspect.Selection) (inspect.Repair, error) {
		return jobs.Apply(ctx, do)
	}
}

// maxReasons is the maximum number of unchanged jobs that are named.
const maxReasons = 20

// report prints the number of changed jobs, and the reasons why others were not changed. If there
// are any, it returns a leftError.
func (a *app) report(c change, sum inspect.Repair) error {
	if err := a.printJSON(sum); err != nil {
		return err
	}
	a.say("%s %s%s", c.done, text.Count(sum.Changed, "job"), c.rest)
	for i, jid := range slices.Sorted(maps.Keys(sum.Reasons)) {
		if i == maxReasons {
			a.say("  and %d more", len(sum.Reasons)-maxReasons)
			break
		}
		a.say("  %s: %s", text.Clean(jid), text.Clean(sum.Reasons[jid].Message))
	}
	if sum.Unchanged == 0 {
		return nil
	}
	return leftError{sum, "job"}
}

// A leftError reports that some jobs, or other things, were not changed.
type leftError struct {
	sum  inspect.Repair
	noun string
}

func (e leftError) Error() string {
	was := "were"
	if e.sum.Unchanged == 1 {
		was = "was"
	}
	return fmt.Sprintf("%s %s left", text.Count(e.sum.Unchanged, e.noun), was)
}

// status returns the exit status, that of missing jobs if nothing else is wrong.
func (e leftError) status() int {
	for _, err := range e.sum.Reasons {
		if err.Code != qless.ErrNotFound {
			return statusRefused
		}
	}
	return statusNotFound
}
