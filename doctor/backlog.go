package doctor

import (
	"context"
	"errors"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// A recurring job has a backlog if it has missed manyMissed runs, of which each puts a job. The
// first recurring jobs of maxBacklogQueues queues are read.
const (
	manyMissed       = 100
	maxBacklogQueues = 10
)

// readBacklogs finds the queues with recurring jobs that have missed many runs. A damaged key
// excludes only its own queue.
func (s *Status) readBacklogs(ctx context.Context, r *StatusReader) error {
	for _, q := range s.mostly(maxBacklogQueues, func(q *QueueStatus) int { return q.Recurring }) {
		var err error
		q.backlog, err = readBacklog(ctx, r.Client, q.Name, s.asOf)
		if err != nil && !errors.Is(err, qless.ErrServer) {
			return err
		}
	}
	return nil
}

// readBacklog reads the recurring job of a queue, among the first ones due, that has missed the
// most runs, if these are many and its Backlog does not limit them.
func readBacklog(
	ctx context.Context, client *qless.Client, queue string, now time.Time,
) ([]Reason, error) {
	due, err := inspect.New(client).Queue(queue, inspect.Recurring).List(ctx,
		inspect.Range{Limit: maxFollowed})
	if err != nil {
		return nil, err
	}
	worst := Reason{Code: ReasonBacklog, Certain: true}
	for _, row := range due.Items {
		missed := 0
		if row.Interval > 0 {
			missed = int(now.Sub(row.Due) / row.Interval)
		}
		if missed < max(manyMissed, worst.Jobs+1) {
			continue
		}
		job, err := client.RecurringJob(ctx, row.JID)
		switch {
		case errors.Is(err, qless.ErrNotFound):
		case err != nil:
			return nil, err
		case job.Backlog == 0 || job.Backlog >= manyMissed:
			worst.JID, worst.Jobs = row.JID, missed
			if job.Backlog > 0 {
				worst.Jobs = min(missed, job.Backlog)
			}
		}
	}
	if worst.JID == "" {
		return nil, nil
	}
	return []Reason{worst}, nil
}
