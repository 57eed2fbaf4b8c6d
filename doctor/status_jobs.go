package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/wire"
)

// The number of queues whose last scheduled job is read, and the delays at which it is distant. A
// longer delay is more likely a wrong unit of time than a plan.
const (
	maxDistantQueues = 10
	distant          = 365 * 24 * time.Hour
)

// A distantJob is the last scheduled job of a queue, due in the distant future.
type distantJob struct {
	jid string
	due time.Time
}

// readDistant finds the queues whose last scheduled job is distant. A damaged key excludes only its
// own queue.
func (s *Status) readDistant(ctx context.Context, r *StatusReader) error {
	in := inspect.New(r.Client)
	for _, q := range s.mostly(maxDistantQueues, func(q *QueueStatus) int { return q.Scheduled }) {
		last, err := in.Queue(q.Name, inspect.Scheduled).List(ctx,
			inspect.Range{Offset: q.Scheduled - 1, Limit: 1})
		if err != nil && !errors.Is(err, qless.ErrServer) {
			return err
		}
		if len(last.Items) > 0 && last.Items[0].Due.Sub(s.asOf) >= distant {
			q.distant = &distantJob{last.Items[0].JID, last.Items[0].Due}
		}
	}
	return nil
}

// A run needs attention if it takes longRun and unusual times the mean of its queue. The runs of
// maxLongQueues queues are read.
const (
	longRun       = time.Hour
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
	if ran < longRun {
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

// The numbers of failure groups, and of jobs in each, that are searched.
const (
	maxDeadlyGroups = 5
	maxDeadly       = 5
)

// readDeadly finds jobs that failed because each of their workers died, or lost its lock, in the
// groups of jobs without retries.
func (s *Status) readDeadly(ctx context.Context, r *StatusReader) error {
	groups := slices.DeleteFunc(slices.Clone(s.Failures), func(g Group) bool {
		return g.Jobs <= 0 || !strings.HasPrefix(g.Name, "failed-retries-")
	})
	in := inspect.New(r.Client)
	for _, group := range groups[:min(len(groups), maxDeadlyGroups)] {
		last, err := in.Failed(group.Name).JIDs(ctx, inspect.Range{Limit: maxDeadly})
		if err != nil && !errors.Is(err, qless.ErrServer) {
			return err
		}
		jobs, err := r.Client.Jobs(ctx, last.Items...)
		if err != nil && !errors.Is(err, qless.ErrServer) {
			return err
		}
		if i := slices.IndexFunc(jobs, isDeadly); i >= 0 {
			s.deadly = append(s.deadly, jobs[i])
		}
	}
	return nil
}

// isDeadly reports whether a failed job was lost at each of several runs.
func isDeadly(job *qless.Job) bool {
	return job.Failure != nil && len(job.Attempts) > 1 &&
		!slices.ContainsFunc(job.Attempts, func(a qless.Attempt) bool { return a.What != "lost" })
}

// A unique key needs attention if its job is not due for heldFor, and the key has refused a put
// within refusedWithin.
const (
	heldFor       = 10 * time.Minute
	refusedWithin = 24 * time.Hour
)

// readHeld reads the scheduled jobs whose unique keys have refused puts, the last one due first.
func (s *Status) readHeld(ctx context.Context, r *StatusReader) error {
	const name = "x:refused"
	jids, err := r.Client.Redis().ZRangeByScore(ctx, s.Namespace+name, &redis.ZRangeBy{
		Min: wire.FormatTime(s.asOf.Add(-refusedWithin)), Max: "+inf",
	}).Result()
	if err != nil {
		s.isDamaged(ctx, r.Client, name, "zset")
		return ctx.Err()
	}
	jobs, err := r.Client.Jobs(ctx, jids...)
	if err != nil && !errors.Is(err, qless.ErrServer) {
		return err
	}
	for _, job := range jobs {
		unique := job.Options.Unique
		holds := job.State == qless.StateScheduled && unique != nil && unique.For == 0
		if holds && job.Due.Sub(s.asOf) >= heldFor {
			s.held = append(s.held, job)
		}
	}
	slices.SortStableFunc(s.held, func(a, b *qless.Job) int { return b.Due.Compare(a.Due) })
	return nil
}

// heldKeys returns the problem of unique keys that are held for long and refuse puts.
func (s *Status) heldKeys() []Reason {
	if len(s.held) == 0 {
		return nil
	}
	last := s.held[0]
	r := Reason{Code: ReasonUniqueHeld, Queue: last.Queue, JID: last.JID, Until: last.Due}
	if n := len(s.held); n > 1 {
		r.details = fmt.Sprint(n)
	}
	return []Reason{r}
}
