package top

import (
	"context"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
)

// A Server is the [Source] of a client.
type Server struct {
	Client *qless.Client
	Old    time.Duration // the age of the oldest job from which a queue is late
}

// The limits of reads.
const (
	maxJobs     = 100
	maxFailures = 1000
)

// Overview reads all queues, workers and failure groups.
func (s Server) Overview(ctx context.Context) (*doctor.Status, error) {
	return doctor.ReadStatus(ctx, s.Client, s.Old)
}

// Jobs reads the first jobs of a list.
func (s Server) Jobs(
	ctx context.Context, queue string, list inspect.List,
) (*JobsOfQueue, error) {
	in := inspect.New(s.Client)
	counts, err := s.Client.Queue(queue).Counts(ctx)
	if err != nil {
		return nil, err
	}
	latency, err := in.Latency(ctx, queue)
	if err != nil {
		return nil, err
	}
	page, err := in.Queue(queue, list).List(ctx, inspect.Range{Limit: maxJobs})
	if err != nil {
		return nil, err
	}
	return &JobsOfQueue{counts, latency, page}, nil
}

// Why explains why the jobs of a queue wait.
func (s Server) Why(ctx context.Context, queue string) (*doctor.Explanation, error) {
	return doctor.Explain(ctx, s.Client, queue)
}

// Held reads the jobs held by a worker.
func (s Server) Held(ctx context.Context, worker string) ([]*qless.Job, error) {
	var jobs []*qless.Job
	for job, err := range inspect.New(s.Client).HeldBy(worker).AtMost(maxJobs).Jobs(ctx) {
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, job)
	}
	return jobs, nil
}

// Failures returns the klasses of the jobs of a failure group.
func (s Server) Failures(ctx context.Context, group string) (inspect.FailureSummary, error) {
	return inspect.New(s.Client).Failures(ctx, group, maxFailures)
}

// SetPaused pauses or resumes a queue.
func (s Server) SetPaused(ctx context.Context, queue string, paused bool) error {
	if paused {
		return s.Client.Queue(queue).Pause(ctx)
	}
	return s.Client.Queue(queue).Resume(ctx)
}

// Unfail puts the jobs of a failure group back into their queues.
func (s Server) Unfail(ctx context.Context, group string) (inspect.Repair, error) {
	return inspect.New(s.Client).Failed(group).Unfail(ctx)
}

// Cancel deletes a job.
func (s Server) Cancel(ctx context.Context, jid string) (inspect.Repair, error) {
	return inspect.New(s.Client).JIDs(jid).Cancel(ctx)
}

// Promote makes a scheduled job due.
func (s Server) Promote(ctx context.Context, jid string) (inspect.Repair, error) {
	return inspect.New(s.Client).JIDs(jid).Promote(ctx)
}
