package doctor

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/redisx"
)

// The numbers of workers, and of jobs of each, whose locks are checked.
const (
	maxUnlockedWorkers = 10
	maxUnlocked        = 20
)

// readUnlocked finds jobs that run without a lock, which was deleted or evicted, if workers hold
// more jobs than the queues have locks.
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

// lostJobs reports those of some jobs that run without a lock, in a queue unless it is "".
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

// heldJobs returns jobs that workers hold, by their own lists.
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

// unlocked returns those of some jobs that are running in a queue, or in any if it is "", and are
// not among the locks of their queues.
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
