package doctor

import (
	"context"
	"encoding/json"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/units"
)

// A Code is the kind of a [Cause]. Programs may rely on it: it does not change.
type Code string

// The codes of causes, in the order in which [Why] looks for them.
const (
	// CodeUnknown means that no queue of this name is known: it never had a job, or it was forgotten.
	CodeUnknown Code = "unknown"

	// CodeEmpty means that the queue has no jobs.
	CodeEmpty Code = "empty"

	// CodePaused means that the queue is paused.
	CodePaused Code = "paused"

	// CodeMaxConcurrency means that the queue runs as many jobs as its max-concurrency allows.
	CodeMaxConcurrency Code = "max_concurrency"

	// CodeMaxRate means that the queue has started as many jobs as its max-rate allows.
	CodeMaxRate Code = "max_rate"

	// CodeLimit means that jobs of the queue wait for a limit ([qless.Limits]).
	CodeLimit Code = "limit"

	// CodeWorkersPaused means that all workers that take jobs from the queue are paused or stopping.
	CodeWorkersPaused Code = "workers_paused"

	// CodeNoWorkers means that no known worker takes jobs from the queue.
	CodeNoWorkers Code = "no_workers"

	// CodeWorkersBusy means that none of the workers that take jobs from the queue has a free slot.
	CodeWorkersBusy Code = "workers_busy"

	// CodeNoHandler means that no worker that takes jobs from the queue has a handler for a klass.
	CodeNoHandler Code = "no_handler"

	// CodeScheduled means that jobs are scheduled for later.
	CodeScheduled Code = "scheduled"

	// CodeRecurring means that the queue has only recurring jobs.
	CodeRecurring Code = "recurring"

	// CodeDepends means that jobs wait for others to complete.
	CodeDepends Code = "depends"

	// CodeFailedDependency means that jobs wait for others that have failed, until an operator acts.
	CodeFailedDependency Code = "failed_dependency"

	// CodeUntold means that jobs with a [qless.OnFailure] wait for others that a script has failed
	// without notifying them.
	CodeUntold Code = "untold"

	// CodeUnswept means that jobs have outlived their lifetimes, or wait for others that have or that
	// are complete, and that nothing has noticed that yet.
	CodeUnswept Code = "unswept"

	// CodeOpenBatch means that callbacks wait for their batches to be committed.
	CodeOpenBatch Code = "open_batch"

	// CodeGrace means that workers have lost their locks on jobs, but may still end them in the grace
	// period.
	CodeGrace Code = "grace"

	// CodeStalled means that locks have expired, and no worker has asked the queue for jobs since.
	CodeStalled Code = "stalled"

	// CodeUnhandled means that jobs have failed because a worker in another language could not find
	// the code for their klass.
	CodeUnhandled Code = "unhandled"

	// CodeNoCompletions means that jobs of a klass have waited for long or were retried often, and
	// that no Go worker has completed one of that klass recently.
	CodeNoCompletions Code = "no_completions"

	// CodeRunning means that no job waits: all jobs of the queue are running.
	CodeRunning Code = "running"

	// CodeFlowing means that nothing seems to keep the jobs waiting: workers with free slots take
	// jobs from the queue.
	CodeFlowing Code = "flowing"
)

// An Explanation lists the causes that keep the jobs of a queue waiting.
type Explanation struct {
	Queue  string            `json:"queue"`
	Counts qless.QueueCounts `json:"counts"`

	// Latency has the waiting times of the jobs that could be popped.
	Latency inspect.Latency `json:"latency"`

	// Causes has at least one cause, the likeliest first.
	Causes []Cause `json:"causes"`
}

// A Cause is a reason for the jobs of a queue to wait. The fields that are set depend on its code.
type Cause struct {
	Code Code `json:"code"`

	// Sentence describes the cause in words.
	Sentence string `json:"sentence"`

	// Certain is true if the cause is known to keep jobs waiting. Otherwise it may, because not
	// everything is known, for instance about workers in other languages.
	Certain bool `json:"certain"`

	// Jobs is the number of jobs affected. If Sampled is true, it counts the first ones only.
	Jobs    int  `json:"jobs,omitempty"`
	Sampled bool `json:"sampled,omitempty"`

	// JIDs are some of these jobs: jobs that can't run, or that hold up others.
	JIDs []string `json:"jids,omitempty"`

	// Until is the time at which the cause ends by itself.
	Until time.Time `json:"until,omitzero"`

	// Max is the maximum number of jobs that may run, or that may start in the time Per.
	Max int           `json:"max,omitempty"`
	Per time.Duration `json:"per,omitempty"` // in JSON, text such as "1m30s"

	// Limit is the full limit, with the jobs that hold its slots.
	Limit *inspect.LimitInfo `json:"limit,omitempty"`

	// Workers are the names of the workers concerned, at most 20.
	Workers []string `json:"workers,omitempty"`

	// Slots is the number of slots of these workers, and Busy the number of jobs that they hold.
	Slots int `json:"slots,omitempty"`
	Busy  int `json:"busy,omitempty"`

	// Silent is the number of listed workers that are not registered, so that their queues are
	// unknown.
	Silent int `json:"silent,omitempty"`

	// Klass is the klass of the jobs.
	Klass string `json:"klass,omitempty"`

	// Groups are failure groups.
	Groups []string `json:"groups,omitempty"`

	// Blockers are jobs that others wait for, at most 20.
	Blockers []Blocker `json:"blockers,omitempty"`

	// Completed, Failed and Retried count the runs by Go workers in the last hour, of jobs with the
	// klasses of the waiting and the retried jobs.
	Completed int `json:"completed,omitempty"`
	Failed    int `json:"failed,omitempty"`
	Retried   int `json:"retried,omitempty"`
}

// MarshalJSON writes Per as text.
func (c Cause) MarshalJSON() ([]byte, error) {
	type fields Cause
	return json.Marshal(struct {
		fields
		Per units.Text `json:"per,omitempty"`
	}{fields(c), units.Text(c.Per)})
}

// UnmarshalJSON reads the output of MarshalJSON.
func (c *Cause) UnmarshalJSON(text []byte) error {
	type fields Cause
	return json.Unmarshal(text, &struct {
		*fields
		Per *units.Text `json:"per"`
	}{(*fields)(c), (*units.Text)(&c.Per)})
}

// A Blocker is a job that others wait for.
type Blocker struct {
	JID   string      `json:"jid"`
	Klass string      `json:"klass"`
	Queue string      `json:"queue,omitempty"`
	State qless.State `json:"state"`
	Group string      `json:"group,omitempty"` // of its failure, if it has failed
	Jobs  int         `json:"jobs"`            // jobs of the queue that wait for it
}

// Limits of what Why reads.
const (
	maxLooked   = 100 // jobs of each list
	maxFollowed = 20  // jobs whose dependencies, or lives, are read
	maxBlockers = 200 // dependencies
	maxLimits   = 5   // limits
	maxNamed    = 20  // names in a cause
	maxRated    = 10  // klasses whose rates are read one by one
)

// Why explains why the jobs of a queue wait. The causes are in order of likelihood: a paused queue,
// limits, workers, then the dependencies and the delays of the jobs themselves. If there is no job
// to take yet, dependencies and delays come before workers.
//
// Why makes about fifteen to fifty calls, one after another; a queue in use changes between them.
// It reads up to 100 jobs of each list of the queue, the dependencies of 20 jobs, the lives of 40,
// and 5 limits, with about 2000 commands on the server, and lists the workers (3 commands per
// worker). For a queue without jobs, it counts the jobs of all known queues (9 commands per queue).
// Like [qless.Queue.Counts], it moves jobs that are due; otherwise it changes nothing.
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
