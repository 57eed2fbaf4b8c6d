package doctor

import (
	"context"
	"errors"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// A run needs attention if it takes LongRun and unusual times the mean of its queue. The runs of
// maxLongQueues queues are read.
const (
	unusual       = 3
	maxLongQueues = 10
)

// readLong finds the longest run of each queue that takes much longer than usual, among its first
// 100 running jobs. A damaged key excludes only its own queue.
func (s *Status) readLong(ctx context.Context, r *StatusReader) error {
	in := inspect.New(r.Client)
	for _, q := range s.mostly(maxLongQueues, func(q *QueueStatus) int { return q.Running }) {
		running, err := in.Queue(q.Name, inspect.Running).List(ctx, inspect.Range{Limit: maxLooked})
		if err != nil && !errors.Is(err, qless.ErrServer) {
			return err
		}
		for i := range running.Items {
			if row := &running.Items[i]; q.long == nil || row.Since.Before(q.long.Since) {
				q.long = row
			}
		}
		if q.long == nil {
			continue
		}
		long, err := s.isLong(ctx, r.Client.Queue(q.Name), s.asOf.Sub(q.long.Since))
		if err != nil {
			return err
		}
		if !long {
			q.long = nil
		}
	}
	return nil
}

// isLong reports whether a run is unusual for a queue, by the runs that have ended since yesterday.
func (s *Status) isLong(ctx context.Context, queue *qless.Queue, ran time.Duration) (bool, error) {
	if ran < LongRun {
		return false, nil
	}
	for _, day := range []time.Time{s.asOf, s.asOf.AddDate(0, 0, -1)} {
		stats, err := queue.Stats(ctx, day)
		if err != nil && !errors.Is(err, qless.ErrServer) {
			return false, err
		}
		if stats.Run.Count > 0 && ran < unusual*stats.Run.Mean {
			return false, nil
		}
	}
	return true, nil
}
