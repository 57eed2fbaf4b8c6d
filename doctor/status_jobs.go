package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/internal/wire"
)

// The numbers of queues of which single jobs are read.
const (
	maxDistantQueues = 10
	maxLongQueues    = 10
	maxBacklogQueues = 10
	maxKeyQueues     = 10
)

// readJobs finds the problems of single jobs and schedules.
func (s *Status) readJobs(ctx context.Context, r *StatusReader) error {
	return s.read(ctx, r, s.readSchedules, s.readDeadly, s.readDistant, s.readLong, s.readBacklogs,
		s.readHeld)
}

// distant is the delay from which a job is distant. A longer delay is more likely a wrong unit of
// time than a plan.
const distant = 365 * 24 * time.Hour

// readDistant finds the queues whose last scheduled job is distant.
func (s *Status) readDistant(ctx context.Context, r *StatusReader) error {
	scheduled := func(q *QueueStatus) int { return q.Scheduled }
	return s.eachOf(maxDistantQueues, scheduled, func(q *QueueStatus) (found []Reason, err error) {
		last, err := inspect.New(r.Client).Queue(q.Name, inspect.Scheduled).List(ctx,
			inspect.Range{Offset: q.Scheduled - 1, Limit: 1})
		for _, job := range last.Items {
			if job.Due.Sub(s.asOf) >= distant {
				found = []Reason{{Code: ReasonDistant, JID: job.JID, Until: job.Due}}
			}
		}
		return found, err
	})
}

// maxKeyJobs is the number of scheduled jobs of a queue that are asked for the keys of limits that
// they wait for. There is no list of these keys.
const maxKeyJobs = 10

// readKeys adds keys of limits that keep jobs waiting.
func (s *Status) readKeys(ctx context.Context, r *StatusReader) error {
	seen := map[string]bool{"": true}
	for _, limit := range s.FullLimits {
		seen[limit.Name] = true
	}
	scheduled := func(q *QueueStatus) int { return q.Scheduled }
	return s.eachOf(maxKeyQueues, scheduled, func(q *QueueStatus) ([]Reason, error) {
		first, err := inspect.New(r.Client).Queue(q.Name, inspect.Scheduled).List(ctx,
			inspect.Range{Limit: maxKeyJobs})
		for _, job := range first.Items {
			if !seen[job.Parked] && err == nil {
				seen[job.Parked] = true
				err = s.addLimit(ctx, r.Client, job.Parked)
			}
		}
		return nil, err
	})
}

// A run needs attention if it takes longRun and unusual times the mean of its queue.
const (
	longRun = time.Hour
	unusual = 3
)

// readLong finds the longest run of each queue that takes much longer than usual, among its first
// 100 running jobs.
func (s *Status) readLong(ctx context.Context, r *StatusReader) error {
	running := func(q *QueueStatus) int { return q.Running }
	return s.eachOf(maxLongQueues, running, func(q *QueueStatus) ([]Reason, error) {
		jobs, err := inspect.New(r.Client).Queue(q.Name, inspect.Running).List(ctx,
			inspect.Range{Limit: maxLooked})
		if err != nil || len(jobs.Items) == 0 {
			return nil, err
		}
		job := slices.MinFunc(jobs.Items, func(a, b inspect.Row) int { return a.Since.Compare(b.Since) })
		ran := s.asOf.Sub(job.Since)
		if long, err := s.isLong(ctx, r.Client.Queue(q.Name), ran); err != nil || !long {
			return nil, err
		}
		return []Reason{{
			Code: ReasonLongRun, JID: job.JID, Klass: job.Klass, Workers: []string{job.Worker},
			details: units.Age(ran),
		}}, nil
	})
}

// isLong reports whether a run is unusual for a queue, by the runs that have ended since yesterday.
func (s *Status) isLong(ctx context.Context, queue *qless.Queue, ran time.Duration) (bool, error) {
	if ran < longRun {
		return false, nil
	}
	for _, day := range []time.Time{s.asOf, s.asOf.AddDate(0, 0, -1)} {
		stats, err := queue.Stats(ctx, day)
		if err := unlessDamaged(err); err != nil {
			return false, err
		}
		if stats.Run.Count > 0 && ran < unusual*stats.Run.Mean {
			return false, nil
		}
	}
	return true, nil
}

// A recurring job has a backlog if it has missed manyMissed runs, each of which puts a job, and has
// been due for longDue.
const (
	manyMissed = 100
	longDue    = time.Minute
)

// readBacklogs finds the recurring job of each queue, among the first ones due, that has missed the
// most runs.
func (s *Status) readBacklogs(ctx context.Context, r *StatusReader) error {
	recurring := func(q *QueueStatus) int {
		if q.Recurring <= 0 || q.Oldest < longDue {
			return 0
		}
		return int(q.Oldest / time.Second)
	}
	return s.eachOf(maxBacklogQueues, recurring, func(q *QueueStatus) (found []Reason, err error) {
		due, err := inspect.New(r.Client).Queue(q.Name, inspect.Recurring).List(ctx,
			inspect.Range{Limit: maxFollowed})
		most := manyMissed - 1
		for _, row := range due.Items {
			missed := int(s.asOf.Sub(row.Due) / max(row.Interval, 1))
			if missed <= most {
				continue
			}
			job, err := r.Client.RecurringJob(ctx, row.JID)
			if err != nil {
				return found, err
			}
			if job.Backlog > 0 {
				missed = min(missed, job.Backlog)
			}
			if missed > most {
				most, found = missed, []Reason{{Code: ReasonBacklog, JID: row.JID, Jobs: missed}}
			}
		}
		return found, err
	})
}

// The numbers of failure groups, and of jobs in each, that are searched.
const (
	maxDeadlyGroups = 5
	maxDeadly       = 5
)

// lostOf begins the failure groups of jobs that have no retries left after their locks were lost.
const lostOf = "failed-retries-"

// readDeadly finds jobs that failed because each of their workers died, or lost its lock.
func (s *Status) readDeadly(ctx context.Context, r *StatusReader) error {
	groups := slices.DeleteFunc(slices.Clone(s.Failures), func(g Group) bool {
		return g.Jobs <= 0 || !strings.HasPrefix(g.Name, lostOf)
	})
	in := inspect.New(r.Client)
	for _, group := range groups[:min(len(groups), maxDeadlyGroups)] {
		last, err := in.Failed(group.Name).JIDs(ctx, inspect.Range{Limit: maxDeadly})
		if err := unlessDamaged(err); err != nil {
			return err
		}
		jobs, err := r.Client.Jobs(ctx, last.Items...)
		if err := unlessDamaged(err); err != nil {
			return err
		}
		if i := slices.IndexFunc(jobs, isDeadly); i >= 0 {
			job := jobs[i]
			s.found = append(s.found, Reason{
				Code: ReasonDeadly, Queue: job.Queue, JID: job.JID, Klass: job.Klass,
				Group: job.Failure.Group, details: fmt.Sprint(len(job.Attempts)),
			})
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

// readHeld finds the scheduled jobs whose unique keys have refused puts.
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
	jobs = slices.DeleteFunc(jobs, func(job *qless.Job) bool {
		unique := job.Options.Unique
		holds := job.State == qless.StateScheduled && unique != nil && unique.For == 0
		return !holds || job.Due.Sub(s.asOf) < heldFor
	})
	if len(jobs) == 0 {
		return unlessDamaged(err)
	}
	last := slices.MaxFunc(jobs, func(a, b *qless.Job) int { return a.Due.Compare(b.Due) })
	held := Reason{Code: ReasonUniqueHeld, Queue: last.Queue, JID: last.JID, Until: last.Due}
	if n := len(jobs); n > 1 {
		held.details = fmt.Sprint(n)
	}
	s.found = append(s.found, held)
	return unlessDamaged(err)
}
