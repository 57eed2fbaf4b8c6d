package qless

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// A ReceiveConfig says which jobs a [Client.Receive] takes. Queues is required.
type ReceiveConfig struct {
	// Queues are the names of at most 1000 queues. Unlike those of a [Worker], they are no patterns.
	Queues []string

	// Order is the order in which jobs are taken from the queues. Defaults to OrderStrict.
	Order Order

	// Count is how many jobs the call returns at most, up to 1000. Defaults to 1. It returns as soon
	// as there is one.
	Count int

	// LockTime is how long the locks last that the call takes, from 1 ms to 24 h, whatever the jobs
	// and the queues say: see [LockTime]. With -1, they end at once. Defaults to what the job or
	// its queue says.
	LockTime time.Duration

	// NoWait has the call return no jobs, and no error, if there are none.
	NoWait bool

	// PollInterval is the longest time between two questions for jobs, as in [WorkerConfig].
	// Defaults to 10 s.
	PollInterval time.Duration
}

// Receive locks jobs for the client's worker and returns them, like [Queue.Pop], but waits until
// there is at least one. It is meant for programs that are workers themselves, such as gateways to
// other protocols: any number of goroutines may wait.
//
// When ctx ends first, the error is [ErrUnavailable], which wraps that of ctx, and nothing is
// taken: jobs that were on their way to this call go to another caller, or are released, which
// uses up no retry and puts them back in front of their queue. If the server is away, or accepts no
// writes, the call tries again until ctx ends, except with NoWait. What trying again can't cure,
// such as a missing permission, is returned at once; and [Client.Close] ends the call with
// [ErrUnavailable].
//
// Calls of a client with the same Queues, Order, LockTime and PollInterval ask the server together,
// for as many jobs as they want in all, and jobs go to the call that waits longest. All calls share
// one subscription, as those of [Client.Wait] do. An idle call is woken as an idle worker is: by
// whatever makes a job ready, when a delay or a lock ends, and for jobs that clients of other
// languages put. It asks again after the PollInterval.
//
// Nobody renews the locks: call [Job.Heartbeat] until the job is ended. Like a pop, the question is
// never sent twice: if the connection breaks before the answer, it may have locked jobs, which are
// given out again when their locks have ended.
func (c *Client) Receive(ctx context.Context, config ReceiveConfig) ([]*Job, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	if c.observe == nil {
		return c.receive(ctx, config)
	}
	began := time.Now()
	jobs, err := c.receive(ctx, config)
	c.observe(ctx, received(config.Queues, jobs, time.Since(began), err))
	return jobs, err
}

// received describes a call of Receive for the observer.
func received(queues []string, jobs []*Job, took time.Duration, err error) Call {
	call := Call{Command: "receive", Count: len(jobs), Duration: took, Err: err}
	if len(jobs) == 0 {
		if len(queues) == 1 {
			call.Queue = queues[0]
		}
		return call
	}
	call.Queue, call.Klass = jobs[0].Queue, jobs[0].Klass
	for _, job := range jobs {
		call.Queue, call.Klass = same(call.Queue, job.Queue), same(call.Klass, job.Klass)
	}
	if len(jobs) == 1 {
		call.JID = jobs[0].JID
	}
	return call
}

func (c *Client) receive(ctx context.Context, config ReceiveConfig) ([]*Job, error) {
	if err := ctx.Err(); err != nil {
		return nil, notReceived(err)
	}
	call := &receiveCall{want: max(1, config.Count), once: config.NoWait, done: make(chan struct{})}
	r, err := c.receivers.join(c, config, call)
	if err != nil {
		return nil, err
	}
	select {
	case <-call.done:
	case <-ctx.Done():
		if r.withdraw(call) {
			return nil, notReceived(ctx.Err())
		}
	}
	defer r.took(call)
	if err := ctx.Err(); err != nil {
		r.giveBack(call.jobs)
		return nil, notReceived(err)
	}
	return call.jobs, call.err
}

// notReceived returns the error of a call that a context, or the end of the client, has ended.
func notReceived(err error) error {
	return &Error{Op: "receive", Code: CodeUnavailable, Message: err.Error(), Err: err}
}

func (c *ReceiveConfig) check() error {
	if len(c.Queues) == 0 {
		return invalid("receive", "", "ReceiveConfig.Queues is empty")
	}
	if len(c.Queues) > maxReserve {
		return invalid("receive", "", "ReceiveConfig.Queues has %d names, more than %d",
			len(c.Queues), maxReserve)
	}
	for _, queue := range c.Queues {
		if err := checkName("receive", "queue name", queue); err != nil {
			return err
		}
		if pattern := newQueuePattern(queue); pattern.excludes || !pattern.isName() {
			return invalid("receive", "", "ReceiveConfig.Queues has a pattern: %q", queue)
		}
	}
	switch c.Order {
	case "", OrderStrict, OrderRoundRobin, OrderShuffled:
	default:
		return invalid("receive", "", "ReceiveConfig.Order %q is unknown", string(c.Order))
	}
	if c.Count < 0 || c.Count > maxReserve {
		return invalid("receive", "", "ReceiveConfig.Count %d is not from 1 to %d", c.Count, maxReserve)
	}
	if d := c.LockTime; d != 0 && d != -1 && (d < minLockTime || d > maxLockTime) {
		return invalid("receive", "", "ReceiveConfig.LockTime %v is not from %v to %v",
			d, minLockTime, maxLockTime)
	}
	if c.PollInterval < 0 || c.PollInterval > 0 && c.PollInterval < time.Millisecond {
		return invalid("receive", "", "ReceiveConfig.PollInterval %v is less than 1ms", c.PollInterval)
	}
	return nil
}

// A receiveKey says which calls ask the server together.
type receiveKey struct {
	worker   string
	queues   string
	order    Order
	lockTime time.Duration
	poll     time.Duration
}

// A receiveCall is a call of Receive that waits for jobs.
type receiveCall struct {
	want  int
	once  bool // it takes what there is
	asked bool // the server was asked for it
	done  chan struct{}

	// Set before done is closed.
	jobs []*Job
	err  error
}

// answer ends the call.
func (c *receiveCall) answer(jobs []*Job, err error) {
	c.jobs, c.err = jobs, err
	close(c.done)
}

// closedError is the error of calls of a client that was closed.
func closedError() error { return notReceived(redis.ErrClosed) }

// key returns which calls the one with this configuration asks together with.
func (c *ReceiveConfig) key(worker string) receiveKey {
	return receiveKey{
		worker: worker, queues: fmt.Sprintf("%q", c.Queues), order: c.Order,
		lockTime: c.LockTime, poll: c.PollInterval,
	}
}
