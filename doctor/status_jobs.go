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
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/internal/wire"
)

// maxSearched is the number of queues in which a status reads single jobs.
const maxSearched = 10

// A search looks for problems of single jobs in a queue with a figure above 0.
type search struct {
	figure func(*QueueStatus) int
	find   func(*look, context.Context) ([]Reason, error)
}

// searches are the searches of a status and of an explanation.
var searches = []search{
	{func(q *QueueStatus) int { return q.Scheduled }, (*look).distantJob},
	{func(q *QueueStatus) int { return q.Running }, (*look).longRun},
	{overdueRecurring, (*look).backlog},
}

// readJobs looks for problems of single jobs and schedules.
func (s *Status) readJobs(ctx context.Context, r *StatusReader) error {
	unfollowed, err := schedules(ctx, r.Client)
	if err != nil && !(errors.Is(err, qless.ErrServer) &&
		s.isDamaged(ctx, r.Client, "x:schedule-ids", "zset")) {
		return err
	}
	var groups []string
	for _, g := range s.Failures {
		if g.Jobs > 0 && strings.HasPrefix(g.Name, lostOf) && len(groups) < maxDeadlyGroups {
			groups = append(groups, g.Name)
		}
	}
	killers, err := deadly(ctx, r.Client, groups...)
	if err != nil {
		return err
	}
	held, err := heldKeys(ctx, r.Client, s.asOf)
	if err != nil {
		s.isDamaged(ctx, r.Client, refused, "zset")
	}
	if err := unlessDamaged(err); err != nil {
		return err
	}
	s.found = slices.Concat(s.found, unfollowed, killers, held)
	for _, one := range searches {
		if err := s.search(ctx, r, maxSearched, one); err != nil {
			return err
		}
	}
	return nil
}

// isDamaged reports whether a key has a value of a wrong type. If so, it adds the key to s.Damaged.
func (s *Status) isDamaged(ctx context.Context, client *qless.Client, name, want string) bool {
	key := s.Namespace + name
	kind, err := client.Redis().Type(ctx, key).Result()
	if err != nil || kind == want || kind == "none" {
		return false
	}
	s.Damaged = append(s.Damaged, inspect.DamagedKey{Key: key, Kind: kind})
	return true
}

// distant is the delay from which a job is distant. A longer delay is more likely a wrong unit of
// time than a plan.
const distant = 365 * 24 * time.Hour

// distantJob reports the last scheduled job if it is distant.
func (l *look) distantJob(ctx context.Context) (found []Reason, err error) {
	last, err := l.in.Queue(l.Name, inspect.Scheduled).List(ctx,
		inspect.Range{Offset: l.Scheduled - 1, Limit: 1})
	for _, job := range last.Items {
		if job.Due.Sub(l.now) >= distant {
			found = []Reason{{Code: ReasonDistant, JID: job.JID, Until: job.Due}}
		}
	}
	return found, err
}

// A run needs attention if it takes longRunning and unusual times as long as others.
const (
	longRunning = time.Hour
	unusual     = 3
)

// longRun reports the longest run, among the first 100 running jobs, if it takes much longer than
// usual.
func (l *look) longRun(ctx context.Context) ([]Reason, error) {
	if err := l.readLists(ctx, inspect.Running); err != nil || len(l.running) == 0 {
		return nil, err
	}
	job := slices.MinFunc(l.running, func(a, b inspect.Row) int { return a.Since.Compare(b.Since) })
	ran := l.now.Sub(job.Since)
	if ran < longRunning {
		return nil, nil
	}
	_, long, err := UsualRun(ctx, l.client, l.Name, job.Klass, l.now)
	if err != nil || ran < long {
		return nil, err
	}
	return []Reason{{
		Code: ReasonLongRun, JID: job.JID, Klass: job.Klass, Workers: []string{job.Worker},
		details: units.Age(ran),
	}}, nil
}

// UsualRun returns the time within which nine in ten runs of a klass in a queue end, by the runs of
// the last hour. Without such runs, it returns the queue's mean today or yesterday, whichever is
// longer. A run needs attention if it takes long.
func UsualRun(
	ctx context.Context, client *qless.Client, queue, klass string, now time.Time,
) (usual, long time.Duration, err error) {
	hours, err := inspect.New(client).Rates(ctx, inspect.RateQuery{
		From: now.Add(-time.Hour), To: now, Step: time.Hour, Queue: queue, Klass: klass,
	})
	for _, hour := range hours {
		usual = max(usual, hour.Run.P90)
	}
	if err = unlessDamaged(err); err == nil && usual == 0 {
		for _, day := range []time.Time{now, now.AddDate(0, 0, -1)} {
			stats, failed := client.Queue(queue).Stats(ctx, day)
			if err = unlessDamaged(failed); err != nil {
				break
			}
			usual = max(usual, stats.Run.Mean)
		}
	}
	return usual, max(longRunning, unusual*usual), err
}

// A recurring job has a backlog after manyMissed missed runs, each of which puts a job, if it has
// been due for longDue.
const (
	manyMissed = 100
	longDue    = time.Minute
)

// overdueRecurring returns how many seconds jobs of a queue with recurring jobs have been due.
func overdueRecurring(q *QueueStatus) int {
	if q.Recurring <= 0 || q.Oldest < longDue {
		return 0
	}
	return int(q.Oldest / time.Second)
}

// backlog reports the recurring job with the most missed runs, among the first due jobs.
func (l *look) backlog(ctx context.Context) (found []Reason, err error) {
	due, err := l.in.Queue(l.Name, inspect.Recurring).List(ctx, inspect.Range{Limit: maxFollowed})
	most := manyMissed - 1
	for _, row := range due.Items {
		missed := int(l.now.Sub(row.Due) / max(row.Interval, 1))
		if missed <= most {
			continue
		}
		job, err := l.client.RecurringJob(ctx, row.JID)
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
}

// schedules reports overdue schedules, and schedules without followers.
func schedules(ctx context.Context, client *qless.Client) (found []Reason, err error) {
	all, err := inspect.New(client).Schedules(ctx, inspect.Range{Limit: 100})
	for i := range all.Items {
		if one := &all.Items[i]; one.Overdue > 0 || len(one.Followers) == 0 {
			found = append(found, ofSchedule(one))
		}
	}
	return found, err
}

// The number of failure groups to search, and of jobs in each.
const (
	maxDeadlyGroups = 5
	maxDeadly       = 5
)

// lostOf begins the failure groups of jobs without retries left after a lost lock.
const lostOf = "failed-retries-"

// deadly reports a job of each group that failed because every worker died or lost its lock.
func deadly(
	ctx context.Context, client *qless.Client, groups ...string,
) (found []Reason, err error) {
	for _, group := range groups {
		last, err := inspect.New(client).Failed(group).JIDs(ctx, inspect.Range{Limit: maxDeadly})
		if err := unlessDamaged(err); err != nil {
			return nil, err
		}
		jobs, err := client.Jobs(ctx, last.Items...)
		if err := unlessDamaged(err); err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(jobs, isDeadly); i >= 0 {
			job := jobs[i]
			found = append(found, Reason{
				Code: ReasonDeadly, Queue: job.Queue, JID: job.JID, Klass: job.Klass,
				Group: job.Failure.Group, details: fmt.Sprint(len(job.Attempts)),
			})
		}
	}
	return found, nil
}

// isDeadly reports whether a failed job was lost in each of several runs.
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

// refused is the key of the jobs with unique keys that have refused puts.
const refused = "x:refused"

// heldKeys reports the scheduled jobs with unique keys that have refused puts.
func heldKeys(ctx context.Context, client *qless.Client, asOf time.Time) ([]Reason, error) {
	jids, err := client.Redis().ZRangeByScore(ctx, client.Namespace()+refused, &redis.ZRangeBy{
		Min: wire.FormatTime(asOf.Add(-refusedWithin)), Max: "+inf",
	}).Result()
	if err != nil {
		return nil, coded(err)
	}
	jobs, err := client.Jobs(ctx, jids...)
	jobs = slices.DeleteFunc(jobs, func(job *qless.Job) bool {
		unique := job.Options.Unique
		holds := job.State == qless.StateScheduled && unique != nil && unique.For == 0
		return !holds || job.Due.Sub(asOf) < heldFor
	})
	if len(jobs) == 0 {
		return nil, unlessDamaged(err)
	}
	last := slices.MaxFunc(jobs, func(a, b *qless.Job) int { return a.Due.Compare(b.Due) })
	held := Reason{Code: ReasonUniqueHeld, Queue: last.Queue, JID: last.JID, Until: last.Due}
	if n := len(jobs); n > 1 {
		held.details = fmt.Sprint(n)
	}
	return []Reason{held}, unlessDamaged(err)
}

// The number of workers to check for locks, and of jobs of each.
const (
	maxUnlockedWorkers = 10
	maxUnlocked        = 20
)

// readUnlocked looks for jobs running without a lock, because it was deleted or evicted, if workers
// hold more jobs than the queues have locks.
func (s *Status) readUnlocked(ctx context.Context, r *StatusReader) error {
	locks := 0
	for i := range s.Queues {
		locks += s.Queues[i].Running + s.Queues[i].Stalled
	}
	isPartial := s.Total > len(s.Queues) || len(s.Damaged) > 0
	if isPartial || s.Workers.Held+s.Workers.Stalled <= locks {
		return nil
	}
	jids, err := heldJobs(ctx, r.Client, s.Listed)
	if err != nil {
		return err
	}
	found, err := lostJobs(ctx, r.Client, jids, "")
	s.found = append(s.found, found...)
	return err
}

// lostJobs reports which of the jobs run without a lock, in a queue or, if it is "", in any.
func lostJobs(
	ctx context.Context, client *qless.Client, jids []string, queue string,
) ([]Reason, error) {
	var err error
	for range 2 { // a job may end between the two calls, but not twice
		if jids, err = unlocked(ctx, client, jids, queue); err != nil || len(jids) == 0 {
			return nil, err
		}
	}
	return []Reason{{
		Code: ReasonLost, Gravity: Urgent, Queue: queue, Jobs: len(jids), JID: jids[0],
		Command: "qless doctor --fix",
	}}, nil
}

// heldJobs returns jobs held by workers, by the workers' own lists.
func heldJobs(
	ctx context.Context, client *qless.Client, workers []inspect.WorkerStatus,
) (jids []string, err error) {
	pipe := client.Redis().Pipeline()
	var lists []*redis.StringSliceCmd
	for i := range workers {
		if w := &workers[i]; w.Jobs+w.Stalled > 0 && len(lists) < maxUnlockedWorkers {
			key := client.Namespace() + "w:" + w.Name + ":jobs"
			lists = append(lists, pipe.ZRange(ctx, key, 0, maxUnlocked-1))
		}
	}
	if _, err := pipe.Exec(ctx); redisx.IsUnanswered(err) {
		return nil, err
	}
	for _, list := range lists {
		jids = append(jids, list.Val()...)
	}
	return jids, nil
}

// unlocked returns which of the jobs are running in a queue or, if it is "", in any, but are not
// among the queue's locks.
func unlocked(
	ctx context.Context, client *qless.Client, jids []string, queue string,
) ([]string, error) {
	jobs, err := client.Jobs(ctx, jids...)
	if err != nil && !errors.Is(err, qless.ErrServer) {
		return nil, err
	}
	jobs = slices.DeleteFunc(jobs, func(j *qless.Job) bool {
		return j.State != qless.StateRunning || queue != "" && j.Queue != queue
	})
	pipe := client.Redis().Pipeline()
	locks := make([]*redis.FloatCmd, len(jobs))
	for i, job := range jobs {
		locks[i] = pipe.ZScore(ctx, client.Namespace()+"q:"+job.Queue+"-locks", job.JID)
	}
	if _, err := pipe.Exec(ctx); redisx.IsUnanswered(err) {
		return nil, err
	}
	var found []string
	for i, job := range jobs {
		if errors.Is(locks[i].Err(), redis.Nil) {
			found = append(found, job.JID)
		}
	}
	return found, nil
}
