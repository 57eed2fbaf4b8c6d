package qless

import (
	"context"
	"strconv"
)

// Retry puts failed jobs of a group back, each into the queue in which it failed, with fresh retries:
// at most count of them, the oldest failures first. A count of -1 means all. Jobs that fail again
// meanwhile are not retried again: no more are retried than the group had at the start.
//
// It works in steps of 250 jobs, each of which is atomic. If the connection breaks or ctx ends, the
// steps before are done; the one that was on its way may be. The options [Retries] and [TTL] give the
// jobs something else than what they had. What is in the group by mistake leaves it, and is reported
// as [ErrNotFailed] or [ErrNotFound].
func (c *Client) Retry(
	ctx context.Context, group string, count int, options ...UnfailOption,
) (BulkResult, error) {
	const op = "unfail.group"
	pairs, err := unfailArgs(op, options)
	if err != nil {
		return BulkResult{}, err
	}
	return c.eachFailed(op, group, count, func(sum *BulkResult, _, n int) (bulkReply, error) {
		args := anys([]any{group, strconv.Itoa(n), "report", "1"}, pairs...)
		return c.runBulk(ctx, sum, op, args...)
	})
}

// CancelFailed deletes failed jobs of a group: at most count of them, the oldest failures first. A
// count of -1 means all that the group had at the start. Jobs that others depend on are left, and
// reported as [ErrHasDependents]. It works in steps, as [Client.Retry] does.
func (c *Client) CancelFailed(ctx context.Context, group string, count int) (BulkResult, error) {
	const op = "cancel.failed"
	return c.eachFailed(op, group, count, func(sum *BulkResult, skip, n int) (bulkReply, error) {
		return c.runBulk(ctx, sum, op, group, strconv.Itoa(skip), strconv.Itoa(n))
	})
}

// eachFailed runs a script for jobs of a failure group, in steps: it says how many of the oldest to
// pass over, and how many to look at.
func (c *Client) eachFailed(
	op, group string, count int, step func(sum *BulkResult, skip, n int) (bulkReply, error),
) (BulkResult, error) {
	var sum BulkResult
	if count < -1 || count == 0 {
		return sum, invalid(op, "", "the count %d is neither positive nor -1", count)
	}
	if err := checkName(op, "group", group); err != nil {
		return sum, err
	}
	skip, looked, total := 0, 0, changedAtOnce
	for looked < total {
		n := min(changedAtOnce, total-looked)
		if count > 0 {
			n = min(n, count-sum.Count)
		}
		part, err := step(&sum, skip, n)
		if err != nil {
			return sum, err
		}
		if looked == 0 {
			total = part.Total.Int()
		}
		skip, looked = part.Skip.Int(), looked+part.Looked.Int()
		if part.Looked.Int() < n || sum.Count == count {
			break
		}
	}
	return sum, nil
}

// Cancel deletes jobs of one of the queue's lists, which is not [ListRecurring]: those that a filter
// means. A filter that leaves out nothing has to say All. Running jobs are only deleted if the list is
// [ListRunning] or [ListStalled]; their workers are notified.
//
// It goes through the list once, in steps of 250 jobs, or 100 with Filter.Data. Each step is atomic. If
// the connection breaks or ctx ends, the steps before are done, and the one that was on its way may be;
// the next call goes on. Jobs on which others depend that are not deleted in the same step are left,
// and reported as [ErrHasDependents].
func (q *Queue) Cancel(ctx context.Context, list List, filter Filter) (BulkResult, error) {
	const op = "cancel.found"
	var sum BulkResult
	l := q.listOf(list)
	if list == ListRecurring {
		return sum, invalid(op, "", "recurring jobs are not canceled together")
	}
	if err := l.check(op); err != nil {
		return sum, err
	}
	if err := filter.check(op); err != nil {
		return sum, err
	}
	if filter.isEmpty() && !filter.All {
		return sum, invalid(op, "", "the filter means all jobs, but Filter.All is not set")
	}
	looked := changedAtOnce
	if filter.Data != "" {
		looked = lookedWithDataAtOnce
	}
	for cursor := ""; ; {
		limit := 0
		if filter.Limit > 0 {
			limit = filter.Limit - sum.Count
		}
		args := append([]any{string(l.kind), l.name, cursor, strconv.Itoa(looked), strconv.Itoa(limit)},
			filter.args()...)
		part, err := q.client.runBulk(ctx, &sum, op, args...)
		if err != nil {
			return sum, err
		}
		cursor = string(part.Cursor)
		if cursor == "" || filter.Limit > 0 && sum.Count >= filter.Limit {
			return sum, nil
		}
	}
}
