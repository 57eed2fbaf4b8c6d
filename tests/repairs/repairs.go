// Package repairs has calls that several suites of tests make: commands for which the public API
// has another form, and selections in short.
package repairs

import (
	"context"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// TimeOut takes running jobs from their workers, all or none, as clients of other languages do.
func TimeOut(ctx context.Context, client *qless.Client, jids ...string) error {
	args := make([]any, len(jids))
	for i, jid := range jids {
		args[i] = jid
	}
	_, err := client.Do(ctx, "timeout", args...)
	return err
}

// UnfailInto puts failed jobs of a group into a queue, as clients of other languages do. It returns
// their number.
func UnfailInto(
	ctx context.Context, client *qless.Client, queue, group string, count int,
) (int, error) {
	reply, err := client.Do(ctx, "unfail", queue, group, count)
	n, _ := reply.(int64)
	return int(n), err
}

// Unfail puts failed jobs of a group into their queues and returns their number.
func Unfail(
	ctx context.Context, client *qless.Client, group string, count int, options ...qless.UnfailOption,
) (int, error) {
	done, err := inspect.New(client).Failed(group).AtMost(count).Unfail(ctx, options...)
	return done.Changed, err
}

// HeldBy returns the jids of the jobs that a worker holds, by the end of the lock.
func HeldBy(ctx context.Context, client *qless.Client, worker string) ([]string, error) {
	page, err := inspect.New(client).HeldBy(worker).JIDs(ctx, inspect.Range{Limit: -1})
	return page.Items, err
}
