package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/ask"
	"github.com/qless/qless-go/internal/calls"
	"github.com/qless/qless-go/internal/inside"
	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/queues"
)

// A Request describes the jobs that [Taker.Take] may take. Queues is required.
type Request struct {
	// Count is the maximum number of jobs to return, up to 1000. The call returns as soon as any job
	// is available. Defaults to 1.
	Count int

	// LockTime is the duration of the call's locks, from 1 ms to 24 h. It takes precedence over the
	// [qless.LockTime] of jobs and the heartbeat time of queues. With -1, the locks expire at once.
	// Defaults to the time of the job or its queue.
	LockTime time.Duration

	// NoWait makes the call return at once without jobs, and without an error.
	NoWait bool

	// Order is the order of the queues for taking jobs. Defaults to OrderStrict.
	Order qless.Order

	// PollInterval is the maximum time between two requests for jobs, as in [qless.WorkerConfig].
	// Defaults to 10 s.
	PollInterval time.Duration

	// Queues are the names of up to 1000 queues. Patterns are not allowed.
	Queues []string
}

// maxTaken is the maximum number of jobs and of queues of a request.
const maxTaken = 1000

// Take locks jobs for the client's worker and returns them, like [qless.Queue.Pop], but waits for
// at least one job. Any number of goroutines may wait.
//
// If ctx ends first, the error is [qless.ErrUnavailable], which wraps ctx's error, and no job is
// taken: jobs under way to this call go to another caller, or are released to the front of their
// queue, which uses up no retry. If the server is unreachable or accepts no writes, the call tries
// again until ctx ends, except with NoWait. A lasting error, such as a missing permission, is
// returned at once.
//
// Calls for a client with the same Queues, Order, LockTime and PollInterval share their requests to
// the server, and jobs go to the call that has waited longest. In a burst, a call waits up to 2 ms
// for others to share its request. An idle call is woken like an idle worker, and also asks again
// after the PollInterval.
//
// The locks are not renewed: call [qless.Job.Heartbeat] until the job is ended. Like a pop, a
// request is never sent twice: if the connection breaks before the reply, the request may have
// locked jobs, which can be popped again after lock expiry.
func (t *Taker) Take(ctx context.Context, request Request) ([]*qless.Job, error) {
	if err := request.check(); err != nil {
		return nil, err
	}
	began := time.Now()
	jobs, err := t.take(ctx, request)
	if observe, _ := inside.Observer(t.client).(func(context.Context, qless.Command)); observe != nil {
		observe(ctx, taken(request.Queues, jobs, time.Since(began), err))
	}
	return jobs, err
}

// taken describes a call of Take for the observer.
func taken(queues []string, jobs []*qless.Job, took time.Duration, err error) qless.Command {
	call := qless.Command{Name: "take", Count: len(jobs), Duration: took, Err: err}
	if len(jobs) == 0 {
		if len(queues) == 1 {
			call.Queue = queues[0]
		}
		return call
	}
	call.Queue, call.Klass = jobs[0].Queue, jobs[0].Klass
	for _, job := range jobs {
		call.Queue, call.Klass = calls.Same(call.Queue, job.Queue), calls.Same(call.Klass, job.Klass)
	}
	if len(jobs) == 1 {
		call.JID = jobs[0].JID
	}
	return call
}

func (t *Taker) take(ctx context.Context, request Request) ([]*qless.Job, error) {
	if err := ctx.Err(); err != nil {
		return nil, notTaken(err)
	}
	if t.receivers == nil {
		return nil, closedError()
	}
	r, call, err := t.receivers.join(t.client, request)
	if err != nil {
		return nil, err
	}
	select {
	case <-call.Done():
	case <-ctx.Done():
		if r.calls.Withdraw(call) {
			return nil, notTaken(ctx.Err())
		}
	}
	defer r.calls.Took(call)
	jobs, err := call.Answer()
	if err := ctx.Err(); err != nil {
		r.release(jobs)
		return nil, notTaken(err)
	}
	for _, job := range jobs {
		inside.DecodeData(job)
	}
	return jobs, err
}

// notTaken returns the error of a call ended by its context or its client.
func notTaken(err error) error {
	return &qless.Error{
		Op: opTake, Code: qless.ErrUnavailable, Message: err.Error(), Err: err,
	}
}

// closedError is the error of calls for a closed client.
func closedError() error { return notTaken(redis.ErrClosed) }

// opTake is the operation of errors.
const opTake = "take"

func (r *Request) check() error {
	if len(r.Queues) == 0 {
		return invalid(opTake, "", "Request.Queues is empty")
	}
	if len(r.Queues) > maxTaken {
		return invalid(opTake, "", "Request.Queues has %d names, more than %d", len(r.Queues), maxTaken)
	}
	for _, queue := range r.Queues {
		if err := inside.CheckName(opTake, "queue name", queue); err != nil {
			return err
		}
		if !queues.IsName(queue) {
			return invalid(opTake, "", "Request.Queues has a pattern: %q", queue)
		}
	}
	if problem := ask.Check(string(r.Order), r.PollInterval); problem != "" {
		return invalid(opTake, "", "Request.%s", problem)
	}
	if r.Count < 0 || r.Count > maxTaken {
		return invalid(opTake, "", "Request.Count %d is not from 1 to %d", r.Count, maxTaken)
	}
	if d := r.LockTime; d != 0 && d != -1 {
		if err := jobopts.CheckLockTime(d); err != nil {
			return invalid(opTake, "", "Request.LockTime %v: %s", d, err)
		}
	}
	return nil
}

// A receiverKey identifies calls with shared requests.
type receiverKey struct {
	worker   string
	queues   string
	order    qless.Order
	lockTime time.Duration
	poll     time.Duration
}

// key returns the key of calls with this request.
func (r *Request) key(worker string) receiverKey {
	return receiverKey{
		worker: worker, queues: fmt.Sprintf("%q", r.Queues), order: r.Order,
		lockTime: r.LockTime, poll: r.PollInterval,
	}
}
