package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/text"
)

// inPage is how many jobs are changed between two looks at the clock.
const inPage = 500

// A change is what a command does with many jobs.
type change struct {
	verb string // "cancel", as in "cancel 3 jobs"
	done string // "canceled"
	rest string // what follows, as in "move 3 jobs to slow"

	confirmed bool // one has to confirm it
	many      bool // one has to confirm it if there are several

	// page changes some of the jobs.
	page func(ctx context.Context, client *qless.Client, jids []string) (qless.BulkResult, error)

	again bool // jobs that others depend on are tried again after those
}

// run returns what changes the jobs that are the arguments.
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

// change changes jobs, and tells which it has changed.
func (a *app) change(ctx context.Context, client *qless.Client, c change, jids []string) error {
	if len(jids) == 0 {
		return a.report(c, qless.BulkResult{})
	}
	if a.dryRun {
		return a.wouldChange(ctx, client, c, jids)
	}
	if c.confirmed || c.many && len(jids) > 1 {
		if goOn, err := a.confirm(c.what(len(jids))); !goOn {
			return err
		}
	}
	sum, err := a.pages(ctx, client, c, jids)
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

func (a *app) pages(
	ctx context.Context, client *qless.Client, c change, jids []string,
) (qless.BulkResult, error) {
	var sum qless.BulkResult
	bar := a.newProgress("job", len(jids))
	defer bar.end()
	for page := range slices.Chunk(jids, inPage) {
		a.watch.restart()
		done, err := c.page(ctx, client, page)
		merge(&sum, done)
		bar.reach(sum.Count + sum.Left)
		if err != nil {
			return sum, err
		}
	}
	for c.again {
		left := depended(sum)
		if len(left) == 0 {
			break
		}
		before := sum.Count
		for page := range slices.Chunk(left, inPage) {
			a.watch.restart()
			for _, jid := range page {
				delete(sum.Errors, jid)
			}
			sum.Left -= len(page)
			done, err := c.page(ctx, client, page)
			merge(&sum, done)
			if err != nil {
				return sum, err
			}
		}
		if sum.Count == before {
			break
		}
	}
	return sum, nil
}

// depended returns the jobs that were left because others depended on them.
func depended(sum qless.BulkResult) []string {
	var jids []string
	for jid, err := range sum.Errors {
		if err.Code == qless.CodeHasDependents {
			jids = append(jids, jid)
		}
	}
	slices.Sort(jids)
	return jids
}

// merge adds what was done with some jobs to what was done with others.
func merge(sum *qless.BulkResult, part qless.BulkResult) {
	sum.Count += part.Count
	sum.Left += part.Left
	if sum.Errors == nil {
		sum.Errors = map[string]*qless.Error{}
	}
	maps.Copy(sum.Errors, part.Errors)
}

// each makes the function of a change out of one that changes a single job.
func each(do func(ctx context.Context, client *qless.Client, jid string) error) func(
	context.Context, *qless.Client, []string,
) (qless.BulkResult, error) {
	return func(
		ctx context.Context, client *qless.Client, jids []string,
	) (qless.BulkResult, error) {
		sum := qless.BulkResult{Errors: map[string]*qless.Error{}}
		for _, jid := range jids {
			err := do(ctx, client, jid)
			var coded *qless.Error
			switch {
			case err == nil:
				sum.Count++
			case errors.As(err, &coded) && isOfJob(coded.Code):
				sum.Left++
				sum.Errors[jid] = coded
			default:
				return sum, err
			}
		}
		return sum, nil
	}
}

// isOfJob reports whether an error is about one job, so that others may be changed.
func isOfJob(code qless.Code) bool {
	status := statusByCode[code]
	return status == statusNotFound || status == statusRefused
}

// ofJobs makes the function of a change out of one that has a job to call.
func ofJobs(do func(ctx context.Context, job *qless.Job) error) func(
	context.Context, *qless.Client, []string,
) (qless.BulkResult, error) {
	return each(func(ctx context.Context, client *qless.Client, jid string) error {
		job, err := client.Job(ctx, jid)
		if err != nil {
			return err
		}
		return do(ctx, job)
	})
}

// ofBulk makes the function of a change out of a method of [qless.Bulk].
func ofBulk(do func(ctx context.Context, bulk *qless.Bulk) (qless.BulkResult, error)) func(
	context.Context, *qless.Client, []string,
) (qless.BulkResult, error) {
	return func(
		ctx context.Context, client *qless.Client, jids []string,
	) (qless.BulkResult, error) {
		return do(ctx, client.Bulk(jids...))
	}
}

// maxReasons is how many jobs are named that were left.
const maxReasons = 20

// report tells how many jobs were changed, and why others were not. If some were not, it returns a
// leftError.
func (a *app) report(c change, sum qless.BulkResult) error {
	if a.json {
		if err := a.print(sum, nil); err != nil {
			return err
		}
	}
	a.say("%s %s%s", c.done, text.Count(sum.Count, "job"), c.rest)
	for i, jid := range slices.Sorted(maps.Keys(sum.Errors)) {
		if i == maxReasons {
			a.say("  and %d more", len(sum.Errors)-maxReasons)
			break
		}
		a.say("  %s: %s", text.Clean(jid), text.Clean(sum.Errors[jid].Message))
	}
	if sum.Left == 0 {
		return nil
	}
	return leftError{sum, "job"}
}

// A leftError says that jobs, or other things, were left as they were.
type leftError struct {
	sum  qless.BulkResult
	noun string
}

func (e leftError) Error() string {
	was := "were"
	if e.sum.Left == 1 {
		was = "was"
	}
	return fmt.Sprintf("%s %s left", text.Count(e.sum.Left, e.noun), was)
}

// status is that of jobs that are not there, if nothing else is wrong.
func (e leftError) status() int {
	for _, err := range e.sum.Errors {
		if err.Code != qless.CodeNotFound {
			return statusRefused
		}
	}
	return statusNotFound
}
