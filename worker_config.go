package qless

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/qless/qless-go/internal/queues"
	"github.com/qless/qless-go/internal/redisx"
)

// A WorkerConfig configures a worker. Only Queues is required.
//
// A number or duration of 0 means the default. Where a field can be disabled, -1 does so; other
// negative values are invalid.
type WorkerConfig struct {
	// Backoff returns how long a job waits before it is retried after an error.
	//
	// Defaults to [DefaultBackoff].
	Backoff Backoff

	// Concurrency is how many jobs run at once.
	//
	// Defaults to 10.
	Concurrency int

	// FailGroup returns the failure group of a job that fails because it has no retries left.
	//
	// Defaults to [DefaultFailGroup].
	FailGroup func(job *Job, err error) string

	// Logger is what the worker logs to.
	//
	// Defaults to the client's logger.
	Logger *slog.Logger

	// MaxRunTime ends a handler's context after a time, with the cause [ErrMaxRunTime]. The
	// worker keeps the job's lock: the job is complete if the handler still returns
	// nil, and is retried if it returns an error. The option [MaxRunTime] sets it
	// for one klass. A job with [MaxRunTime] may have less time.
	//
	// Defaults to 0, which means never, as -1 does.
	MaxRunTime time.Duration

	// Name is the worker's name, under which it holds its locks. It must be unique among the live
	// workers of the namespace. Start refuses a name that another worker of this process has; it
	// can't know those of other processes, and workers with one name share their locks.
	//
	// Defaults to host-pid-random.
	Name string

	// Observer is called when a job starts, when it ends, and when something goes wrong in between,
	// for metrics and traces. It is called concurrently, but in order for each job. The worker
	// waits for it, so it should be fast, and must not stop the worker.
	//
	// Defaults to nil, which means that events are not reported.
	Observer func(event JobEvent)

	// Order is the order in which the queues are asked for jobs.
	//
	// Defaults to [OrderStrict].
	Order Order

	// PollInterval is how long an idle worker waits at most before it asks for jobs again, if
	// nothing wakes it. It should be the same for all workers of a queue, and less than an hour,
	// because a job with a longer delay wakes no worker.
	//
	// Defaults to 10 s. It must be at least 1 ms; there is no none.
	PollInterval time.Duration

	// Prefetch is how many jobs a worker with short handlers takes at most ahead of its free slots,
	// to ask the server less often. It takes no more than it works off in about 10 ms, none while
	// another idle worker waits for one of its queues, and none of a queue with a max-concurrency.
	// It releases jobs that have waited for 20 ms, and all when it is paused or stopped.
	//
	// Defaults to 0, which means by need: up to 16. The value -1 means none.
	Prefetch int

	// Queues are the queues to take jobs from, at most 1000. A name may be a pattern: in "mail-*"
	// the * matches any text, and "!mail-slow" excludes a queue that other patterns match. New
	// queues are matched as they appear. If the patterns match more than 1000 queues, queues that
	// are new or had jobs at the last poll are asked first, and the others in turns.
	Queues []string

	// Schedules put jobs at certain times while the worker runs. No two may have the same ID.
	Schedules []Schedule

	// ShutdownTimeout is how long running jobs may take to finish when the worker is stopped. After
	// that their contexts end, and they are released for other workers.
	//
	// Defaults to 20 s. The value -1 means no time.
	ShutdownTimeout time.Duration

	// UnknownKlassDelay is the delay of a job whose klass has no handler in this worker. It is
	// released, without using up a retry, for a worker that has one.
	//
	// Defaults to 15 s. The value -1 means at once.
	UnknownKlassDelay time.Duration
}

func (c WorkerConfig) withDefaults(client *Client) WorkerConfig {
	if c.Backoff == nil {
		c.Backoff = DefaultBackoff
	}
	if c.FailGroup == nil {
		c.FailGroup = DefaultFailGroup
	}
	c.Concurrency = cmp.Or(c.Concurrency, 10)
	c.Logger = redisx.SafeLogger(cmp.Or(c.Logger, client.logger))
	c.Order = cmp.Or(c.Order, OrderStrict)
	c.PollInterval = cmp.Or(c.PollInterval, 10*time.Second)
	c.Prefetch = max(0, cmp.Or(c.Prefetch, prefetchByNeed))
	c.ShutdownTimeout = max(0, cmp.Or(c.ShutdownTimeout, 20*time.Second))
	c.UnknownKlassDelay = max(0, cmp.Or(c.UnknownKlassDelay, 15*time.Second))
	return c
}

func (c WorkerConfig) check() error {
	if c.Concurrency < 0 {
		return badConfig("Concurrency %d is negative", c.Concurrency)
	}
	if c.PollInterval < 0 {
		return badConfig("PollInterval %v is negative", c.PollInterval)
	}
	if c.PollInterval > 0 && c.PollInterval < time.Millisecond {
		return badConfig("PollInterval %v is less than 1ms", c.PollInterval)
	}
	if c.Prefetch < -1 {
		return badConfig("Prefetch %d is negative, and not -1", c.Prefetch)
	}
	for name, d := range map[string]time.Duration{
		"MaxRunTime":        c.MaxRunTime,
		"ShutdownTimeout":   c.ShutdownTimeout,
		"UnknownKlassDelay": c.UnknownKlassDelay,
	} {
		if d < 0 && d != none {
			return badConfig("%s %v is negative, and not -1", name, d)
		}
	}
	if !utf8.ValidString(c.Name) {
		return badConfig("Name %q is not UTF-8", c.Name)
	}
	if !slices.Contains([]Order{"", OrderStrict, OrderRoundRobin, OrderShuffled}, c.Order) {
		return badConfig("Order %q is unknown", c.Order)
	}
	return c.checkQueues()
}

func (c WorkerConfig) checkQueues() error {
	if len(c.Queues) == 0 {
		return badConfig("Queues is empty")
	}
	asks := false
	for i, name := range c.Queues {
		if name == "" {
			return badConfig("Queues[%d] is empty", i)
		}
		if !utf8.ValidString(name) {
			return badConfig("Queues[%d] %q is not UTF-8", i, name)
		}
		asks = asks || !strings.HasPrefix(name, "!")
	}
	if !asks {
		return badConfig("Queues has only exclusions, as %q", c.Queues[0])
	}
	if names := len(queues.NewPatterns(c.Queues).Names()); names > maxReserve {
		return badConfig("Queues names %d queues; a worker asks at most %d", names, maxReserve)
	}
	return nil
}

// badConfig returns the error for an invalid field of a WorkerConfig.
func badConfig(format string, args ...any) *Error {
	return invalid("work", "", "WorkerConfig."+format, args...)
}
