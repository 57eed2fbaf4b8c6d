package doctor

import (
	"context"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// A Code is the kind of a [Cause]. Programs may rely on it: it does not change.
type Code string

// The codes of causes, in the order in which [Why] looks for them.
const (
	// CodeUnknown means that no client has put a job into a queue of this name, or that the queue
	// was forgotten, and that it has no jobs.
	CodeUnknown Code = "unknown"

	// CodeEmpty means that the queue has no jobs.
	CodeEmpty Code = "empty"

	// CodePaused means that the queue is paused.
	CodePaused Code = "paused"

	// CodeMaxConcurrency means that as many jobs of the queue run as may run at once.
	CodeMaxConcurrency Code = "max_concurrency"

	// CodeMaxRate means that as many jobs of the queue were started as may be started in a time.
	CodeMaxRate Code = "max_rate"

	// CodeLimit means that a limit ([qless.Limits]) has no room for jobs of the queue.
	CodeLimit Code = "limit"

	// CodeWorkersPaused means that all workers that take jobs from the queue are paused or stopping.
	CodeWorkersPaused Code = "workers_paused"

	// CodeNoWorkers means that no worker is known that takes jobs from the queue.
	CodeNoWorkers Code = "no_workers"

	// CodeWorkersBusy means that all workers that take jobs from the queue have no free slot.
	CodeWorkersBusy Code = "workers_busy"

	// CodeNoHandler means that no worker that takes jobs from the queue has a handler for a klass.
	CodeNoHandler Code = "no_handler"

	// CodeScheduled means that jobs wait for their time.
	CodeScheduled Code = "scheduled"

	// CodeRecurring means that the next job of the queue comes from a recurring one.
	CodeRecurring Code = "recurring"

	// CodeDepends means that jobs wait for others to complete.
	CodeDepends Code = "depends"

	// CodeFailedDependency means that jobs wait for others that have failed, and keep waiting until
	// an operator acts.
	CodeFailedDependency Code = "failed_dependency"

	// CodeUntold means that jobs with a [qless.OnFailure] wait for others that were failed by a
	// script that does not notify them.
	CodeUntold Code = "untold"

	// CodeOpenBatch means that callbacks wait for their batches to be committed.
	CodeOpenBatch Code = "open_batch"

	// CodeGrace means that workers have lost their locks on jobs, and have a last time to report.
	CodeGrace Code = "grace"

	// CodeStalled means that locks have ended, and no worker has asked the queue for jobs since.
	CodeStalled Code = "stalled"

	// CodeUnhandled means that jobs have failed because a worker of another language could not find
	// the code for their klass.
	CodeUnhandled Code = "unhandled"

	// CodeNoCompletions means that jobs of a klass have waited for long, and that no Go worker has
	// completed any of them lately.
	CodeNoCompletions Code = "no_completions"

	// CodeRunning means that the queue waits for nothing: all of its jobs run.
	CodeRunning Code = "running"

	// CodeFlowing means that nothing was found that keeps the jobs waiting: workers with free slots
	// take jobs from the queue.
	CodeFlowing Code = "flowing"
)

// An Explanation lists the causes that a queue waits for.
type Explanation struct {
	Queue  string            `json:"queue"`
	Counts qless.QueueCounts `json:"counts"`

	// Latency has the waiting times of the jobs that could be popped.
	Latency inspect.Latency `json:"latency"`

	// Causes are what keeps jobs waiting, the likeliest first. There is at least one.
	Causes []Cause `json:"causes"`
}

// A Cause is one thing that a queue waits for. Which of the figures are set depends on its code.
type Cause struct {
	Code Code `json:"code"`

	// Sentence says it in words, for a person to read.
	Sentence string `json:"sentence"`

	// Certain is true if it surely keeps jobs waiting. Otherwise it may: not all is known, for
	// instance about workers of other languages.
	Certain bool `json:"certain"`

	// Jobs is how many jobs it concerns. With Sampled, that is how many of the first ones.
	Jobs    int  `json:"jobs,omitempty"`
	Sampled bool `json:"sampled,omitempty"`

	// JIDs are some of these jobs: the ones that can't run, or that hold up others.
	JIDs []string `json:"jids,omitempty"`

	// Until is when the cause ends if nothing else happens.
	Until time.Time `json:"until,omitzero"`

	// Max is how many may run or be started, and Per in which time.
	Max int           `json:"max,omitempty"`
	Per time.Duration `json:"per,omitempty"` // in nanoseconds

	// Limit is the limit that is full, with the jobs that have its slots.
	Limit *inspect.LimitInfo `json:"limit,omitempty"`

	// Workers are the names of the workers that the sentence is about, at most 20.
	Workers []string `json:"workers,omitempty"`

	// Slots is how many jobs these workers run at once, and Busy how many they have.
	Slots int `json:"slots,omitempty"`
	Busy  int `json:"busy,omitempty"`

	// Silent is the number of listed workers that have not registered, so that their queues are
	// unknown.
	Silent int `json:"silent,omitempty"`

	// Klass is the klass of the jobs.
	Klass string `json:"klass,omitempty"`

	// Groups are failure groups.
	Groups []string `json:"groups,omitempty"`

	// Blockers are jobs that others wait for, at most 20.
	Blockers []Blocker `json:"blockers,omitempty"`

	// Completed, Failed and Retried count the runs by Go workers in the last hour, of jobs with the
	// klasses of the waiting ones.
	Completed int `json:"completed,omitempty"`
	Failed    int `json:"failed,omitempty"`
	Retried   int `json:"retried,omitempty"`
}

// A Blocker is a job that others wait for.
type Blocker struct {
	JID   string      `json:"jid"`
	Klass string      `json:"klass"`
	Queue string      `json:"queue,omitempty"`
	State qless.State `json:"state"`
	Group string      `json:"group,omitempty"` // of its failure, if it has failed
	Jobs  int         `json:"jobs"`            // of the queue that wait for it
}

// How much Why reads at most.
const (
	maxLooked   = 100 // jobs of each list
	maxFollowed = 20  // jobs whose dependencies are read
	maxBlockers = 200 // dependencies
	maxLimits   = 5   // limits
	maxNamed    = 20  // names in a cause
	maxRated    = 10  // klasses whose rates are read one by one
)

// Why explains what a queue waits for. The causes are in order of likelihood: a paused queue,
// limits, workers, then what jobs wait for by themselves: others first, then their time. If there
// is nothing to take yet, what they wait for comes before the causes about workers.
//
// Why uses the public methods of the client only, in about fifteen to fifty calls, which run one
// after another: a queue that is in use changes in between. It looks at no more than 100 jobs in
// each list of the queue, the dependencies of 20 jobs, and 5 limits, about 2000 commands on the
// server, and it lists the workers (3 commands for each). Only for a queue without jobs it counts
// those of all known queues (9 commands for each). As [qless.Queue.Counts] does, it moves jobs that
// are due; otherwise it changes nothing.
func Why(ctx context.Context, client *qless.Client, queue string) (*Explanation, error) {
	if client == nil {
		return nil, invalid("Why needs a client")
	}
	l := newLook(ctx, client, queue)
	if err := l.read(); err != nil {
		return nil, err
	}
	return &Explanation{Queue: queue, Counts: l.counts, Latency: l.latency, Causes: l.causes()}, nil
}
