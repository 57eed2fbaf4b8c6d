package doctor

import (
	"context"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// An Explanation lists the causes that keep the jobs of a queue waiting.
type Explanation struct {
	Queue  string            `json:"queue"`
	Counts qless.QueueCounts `json:"counts"`

	// Latency has the waiting times of the jobs that could be popped.
	Latency inspect.Latency `json:"latency"`

	// Causes has at least one cause, the likeliest first.
	Causes []Reason `json:"causes"`
}

// Limits of what Explain reads.
const (
	maxLooked   = 100 // jobs of each list
	maxFollowed = 20  // jobs whose dependencies, or lives, are read
	maxBlockers = 200 // dependencies
	maxLimits   = 5   // limits
	maxRated    = 10  // klasses whose rates are read one by one
)

// Explain explains why the jobs of a queue wait. The causes are in order of likelihood: a paused
// queue, limits, workers, then the dependencies and the delays of the jobs themselves. If there is
// no job to take yet, dependencies and delays come before workers. The problems of single jobs and
// schedules of the queue that [ReadStatus] finds are among them.
//
// It makes about twenty to sixty calls, one after another; a queue in use changes between them.
// It reads up to 100 jobs of each list of the queue, the dependencies of 20 jobs, the lives of 40,
// and 5 limits, with about 2000 commands on the server, and lists the workers (3 commands per
// worker). For a queue without jobs, it counts the jobs of all known queues (9 commands per queue).
// Like [qless.Queue.Counts], it moves jobs that are due; otherwise it changes nothing.
func Explain(ctx context.Context, client *qless.Client, queue string) (*Explanation, error) {
	if client == nil {
		return nil, invalid("Explain needs a client")
	}
	l := &look{client: client, in: inspect.New(client)}
	l.Name = queue
	if err := l.read(ctx); err != nil {
		return nil, err
	}
	return &Explanation{
		Queue: queue, Counts: l.QueueCounts, Latency: l.latency, Causes: l.causes(),
	}, nil
}
