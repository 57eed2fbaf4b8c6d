package cli

import (
	"context"
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
func (c change) run(to *console) do {
	return func(ctx context.Context, client *qless.Client, args []string) error {
		if err := oneStdin(args...); err != nil {
			return err
		}
		jids, err := to.names(args)
		if err != nil {
			return err
		}
		return c.of(ctx, to, client, jids)
	}
}

// of changes jobs and reports the changed ones.
func (c change) of(
	ctx context.Context, to *console, client *qless.Client, jids []string,
) error {
	if len(jids) == 0 {
		return c.report(to, inspect.Repair{})
	}
	if to.dryRun {
		return c.would(ctx, to, client, jids)
	}
	if c.confirmed || c.many && len(jids) > 1 {
		if goOn, err := to.confirm(c.what(len(jids))); !goOn {
			return err
		}
	}
	sum, err := c.repair(ctx, to, inspect.New(client).JIDs(jids...), len(jids))
	if reported := c.report(to, sum); err == nil {
		err = reported
	}
	return err
}

func (c change) what(n int) string {
	return c.verb + " " + text.Count(n, "job") + c.rest
}

// would prints the jobs that would be changed.
func (c change) would(
	ctx context.Context, to *console, client *qless.Client, jids []string,
) error {
	jobs := []*qless.Job{}
	for page := range slices.Chunk(jids, inPage) {
		to.watch.restart()
		found, err := client.Jobs(ctx, page...)
		if err != nil {
			return err
		}
		jobs = append(jobs, found...)
	}
	to.say("would %s", c.what(len(jobs)))
	if gone := len(jids) - len(jobs); gone > 0 {
		to.say("%s not there", text.Count(gone, "job"))
	}
	return to.printFullJobs(jobs)
}

// repair changes the jobs of a selection, and shows its progress.
func (c change) repair(
	ctx context.Context, to *console, jobs inspect.Selection, total int,
) (inspect.Repair, error) {
	bar := to.newProgress("job", total)
	defer bar.end()
	to.watch.restart()
	return c.do(ctx, jobs.OnStep(func(soFar inspect.Repair) error {
		to.watch.restart()
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
func (c change) report(to *console, sum inspect.Repair) error {
	if err := to.printJSON(sum); err != nil {
		return err
	}
	to.say("%s %s%s", c.done, text.Count(sum.Changed, "job"), c.rest)
	for i, jid := range slices.Sorted(maps.Keys(sum.Reasons)) {
		if i == maxReasons {
			to.say("  and %d more", len(sum.Reasons)-maxReasons)
			break
		}
		to.say("  %s: %s", text.Clean(jid), text.Clean(sum.Reasons[jid].Message))
	}
	if sum.Unchanged == 0 {
		return nil
	}
	return leftError{sum, "job"}
}
