// Package repairs has helpers for several test suites: commands with another form in the public
// API, and short forms of selections.
package repairs

import (
	"context"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// TimeOut takes running jobs from their workers, all or none, like classic clients.
func TimeOut(ctx context.Context, client *qless.Client, jids ...string) error {
	args := make([]any, len(jids))
	for i, jid := range jids {
		args[i] = jid
	}
	_, err := client.Do(ctx, "timeout", args...)
	return err
}

// UnfailInto puts failed jobs of a group into a queue, like classic clients. It returns the number
// of jobs.
func UnfailInto(
	ctx context.Context, client *qless.Client, queue, group string, count int,
) (int, error) {
	reply, err := client.Do(ctx, "unfail", queue, group, count)
	n, _ := reply.(int64)
	return int(n), err
}

// Unfail puts failed jobs of a group into their queues, and returns the number of jobs.
func Unfail(
	ctx context.Context, client *qless.Client, group string, count int, options ...qless.UnfailOption,
) (int, error) {
	done, err := inspect.New(client).Failed(group).AtMost(count).Unfail(ctx, options...)
	return done.Changed, err
}

// HeldBy returns the jids of the jobs held by a worker, ordered by lock expiry.
func HeldBy(ctx context.Context, client *qless.Client, worker string) ([]string, error) {
	page, err := inspect.New(client).HeldBy(worker).JIDs(ctx, inspect.Range{Limit: -1})
	return page.Items, err
}

// Forget deletes the record of an ended job.
func Forget(ctx context.Context, client *qless.Client, jid string) error {
	done, err := inspect.New(client).JIDs(jid).Forget(ctx)
	for _, reason := range done.Reasons {
		return reason
	}
	return err
}
