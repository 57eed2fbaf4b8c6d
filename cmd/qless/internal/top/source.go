package top

import (
	"context"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
)

// What is read at most.
const (
	maxJobs     = 100
	maxFailures = 1000
)

// A Server is the Source for a client.
type Server struct {
	Client *qless.Client
	Old    time.Duration // from which age of its oldest job on a queue is late
}

// Overview reads all queues, workers and failure groups.
func (s Server) Overview(ctx context.Context) (*doctor.Status, error) {
	return doctor.ReadStatus(ctx, s.Client, s.Old)
}

// Jobs reads the first jobs of a list.
func (s Server) Jobs(
	ctx context.Context, queue string, list qless.List,
) (*JobsOfQueue, error) {
	q := s.Client.Queue(queue)
	counts, err := q.Counts(ctx, qless.IncludeLatency)
	if err != nil {
		return nil, err
	}
	page, err := q.List(ctx, list, qless.Range{Limit: maxJobs})
	if err != nil {
		return nil, err
	}
	return &JobsOfQueue{counts, page}, nil
}

// Why tells what a queue waits for.
func (s Server) Why(ctx context.Context, queue string) (*doctor.Explanation, error) {
	return doctor.Why(ctx, s.Client, queue)
}

// Held reads the jobs that a worker has.
func (s Server) Held(ctx context.Context, worker string) ([]*qless.Job, error) {
	held, err := s.Client.WorkerJobs(ctx, worker)
	if err != nil {
		return nil, err
	}
	jids := append(held.Stalled, held.Jobs...)
	return s.Client.Jobs(ctx, jids[:min(len(jids), maxJobs)]...)
}

// Failures tells of which klasses the jobs of a failure group are.
func (s Server) Failures(ctx context.Context, group string) (qless.FailureSummary, error) {
	return s.Client.SummarizeFailures(ctx, group, maxFailures)
}

// SetPaused pauses or unpauses a queue.
func (s Server) SetPaused(ctx context.Context, queue string, paused bool) error {
	if paused {
		return s.Client.Queue(queue).Pause(ctx)
	}
	return s.Client.Queue(queue).Unpause(ctx)
}
