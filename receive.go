package qless

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/ask"
	"github.com/qless/qless-go/internal/calls"
	"github.com/qless/qless-go/internal/hub"
	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/line"
	"github.com/qless/qless-go/internal/queues"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/wire"
)

// A ReceiveConfig configures a call of [Client.Receive]. Queues is required.
type ReceiveConfig struct {
	// Count is the maximum number of jobs to return, up to 1000. The call returns as soon as there is
	// one. Defaults to 1.
	Count int

	// LockTime is the duration of the locks that the call takes, from 1 ms to 24 h. It takes
	// precedence over the [LockTime] of jobs and the heartbeat time of queues. With -1, the locks end
	// at once. Defaults to the time of the job or its queue.
	LockTime time.Duration

	// NoWait makes the call return at once if there are no jobs, without an error.
	NoWait bool

	// Order is the order in which jobs are taken from the queues. Defaults to OrderStrict.
	Order Order

	// PollInterval is the maximum time between two requests for jobs, as in [WorkerConfig]. Defaults
	// to 10 s.
	PollInterval time.Duration

	// Queues are the names of up to 1000 queues. Unlike in a [WorkerConfig], they can't be patterns.
	Queues []string
}

// Receive locks jobs for the client's worker and returns them, like [Queue.Pop], but waits until
// there is at least one. It is meant for programs that act as workers themselves, such as gateways
// to other protocols. Any number of goroutines may wait.
//
// If ctx ends first, the error is [ErrUnavailable], which wraps that of ctx, and no job is taken:
// jobs that were on their way to this call go to another caller, or are released to the front of
// their queue, which uses up no retry. If the server is unreachable or accepts no writes, the call
// tries again until ctx ends, except with NoWait. A lasting error, such as a missing permission, is
// returned at once. [Client.Close] ends the call with [ErrUnavailable].
//
// Calls of a client with the same Queues, Order, LockTime and PollInterval share their requests to
// the server, and jobs go to the call that has waited longest. All calls share one subscription, as
// calls of [Client.Wait] do. An idle call is woken like an idle worker: by anything that makes a
// job ready, when a delay or a lock ends, and by puts of clients in other languages. It also asks
// again after the PollInterval.
//
// The locks are not renewed: call [Job.Heartbeat] until the job is ended. Like a pop, a request is
// never sent twice: if the connection breaks before the reply, it may have locked jobs, which can
// be popped again when their locks end.
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
func received(queues []string, jobs []*Job, took time.Duration, err error) Command {
	call := Command{Name: "receive", Count: len(jobs), Duration: took, Err: err}
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

func (c *Client) receive(ctx context.Context, config ReceiveConfig) ([]*Job, error) {
	if err := ctx.Err(); err != nil {
		return nil, notReceived(err)
	}
	all := c.startReceiving()
	if all == nil {
		return nil, closedError()
	}
	r, call, err := all.join(c, config)
	if err != nil {
		return nil, err
	}
	select {
	case <-call.Done():
	case <-ctx.Done():
		if r.calls.Withdraw(call) {
			return nil, notReceived(ctx.Err())
		}
	}
	defer r.calls.Took(call)
	jobs, err := call.Answer()
	if err := ctx.Err(); err != nil {
		r.release(jobs)
		return nil, notReceived(err)
	}
	for _, job := range jobs {
		job.decodeData()
	}
	return jobs, err
}

// notReceived returns the error of a call that ended with its context or its client.
func notReceived(err error) error {
	return &Error{Op: "receive", Code: ErrUnavailable, Message: err.Error(), Err: err}
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
		if !queues.IsName(queue) {
			return invalid("receive", "", "ReceiveConfig.Queues has a pattern: %q", queue)
		}
	}
	if problem := checkAsking(c.Order, c.PollInterval); problem != "" {
		return invalid("receive", "", "ReceiveConfig.%s", problem)
	}
	if c.Count < 0 || c.Count > maxReserve {
		return invalid("receive", "", "ReceiveConfig.Count %d is not from 1 to %d", c.Count, maxReserve)
	}
	if d := c.LockTime; d != 0 && d != -1 {
		if err := jobopts.CheckLockTime(d); err != nil {
			return invalid("receive", "", "ReceiveConfig.LockTime %v: %s", d, err)
		}
	}
	return nil
}

// A receiveKey identifies calls that share their requests.
type receiveKey struct {
	worker   string
	queues   string
	order    Order
	lockTime time.Duration
	poll     time.Duration
}

// closedError is the error of calls of a client that was closed.
func closedError() error { return notReceived(redis.ErrClosed) }

// key returns the key of calls with this configuration.
func (c *ReceiveConfig) key(worker string) receiveKey {
	return receiveKey{
		worker: worker, queues: fmt.Sprintf("%q", c.Queues), order: c.Order,
		lockTime: c.LockTime, poll: c.PollInterval,
	}
}

// A receiverSet asks for jobs on behalf of the calls of Receive of a client and its copies. There
// is one receiver for each key.
type receiverSet struct {
	started sync.WaitGroup
	base    context.Context // of the receivers
	cancel  context.CancelFunc

	mu     sync.Mutex
	closed bool
	byKey  map[receiveKey]*receiver
}

// startReceiving returns the receivers of a client, or nil if it was closed before it had any.
func (c *Client) startReceiving() *receiverSet {
	c.receiving.Do(func() {
		ctx, cancel := context.WithCancel(context.Background())
		c.receivers = &receiverSet{byKey: map[receiveKey]*receiver{}, base: ctx, cancel: cancel}
	})
	all, _ := c.receivers.(*receiverSet)
	return all
}

// join adds a call to a receiver, which then asks for jobs, and returns both.
func (s *receiverSet) join(
	c *Client, config ReceiveConfig,
) (*receiver, *line.Call[*Job], error) {
	config.Queues = wire.Distinct(config.Queues)
	config.Order = cmp.Or(config.Order, OrderStrict)
	config.PollInterval = cmp.Or(config.PollInterval, 10*time.Second)
	key := config.key(c.worker)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, closedError()
	}
	r := s.byKey[key]
	if r == nil {
		r = newReceiver(s, c, config)
		s.byKey[key] = r
		s.started.Go(func() { r.run(s.base) })
	}
	call := r.calls.Join(max(1, config.Count), config.NoWait)
	r.asker.JobsReady()
	return r, call, nil
}

// remove removes a receiver, unless there are calls again, and reports whether it did so.
func (s *receiverSet) remove(r *receiver) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.calls.IsWanted() {
		return false
	}
	delete(s.byKey, r.key)
	return true
}

// close ends all calls. The receivers then release jobs that are on their way to them.
func (s *receiverSet) close() {
	s.mu.Lock()
	s.closed = true
	all := make([]*receiver, 0, len(s.byKey))
	for _, r := range s.byKey {
		all = append(all, r)
	}
	s.mu.Unlock()
	for _, r := range all {
		r.close()
	}
}

// wait waits until all receivers have ended, but not long if the server is unreachable.
func (s *receiverSet) wait() {
	ended := closedAfter(s.started.Wait)
	if !within(leaveTimeout, ended) {
		s.cancel()
		within(cutTimeout, ended)
	}
	s.cancel()
}

// A receiver asks for jobs on behalf of calls of one kind. To the server, it is an idle worker with
// a name of its own; the jobs are locked for the client's worker. It makes one exchange at a time,
// for all its calls.
type receiver struct {
	*exchanger
	all    *receiverSet
	key    receiveKey
	name   string // under which it is idle
	calls  *line.Line[*Job]
	usedAt time.Time // when there last was something to do; used only by the goroutine of run

	mu     sync.Mutex
	closed bool
}

func newReceiver(all *receiverSet, c *Client, config ReceiveConfig) *receiver {
	log := &workerLog{logger: c.logger.With("worker", c.worker)}
	r := &receiver{all: all, key: config.key(c.worker), name: newWorkerName()}
	r.exchanger = newExchanger("receive", c, log, ask.Config{
		Name: r.name, Order: string(config.Order), Poll: config.PollInterval,
		Lock: lockPairs(c.worker, config.LockTime),
	}, nil)
	r.asker.SetQueues(config.Queues, nil)
	r.calls = line.New[*Job](r.asker.Due.Notify)
	return r
}

// lockPairs returns the arguments of the script reserve about locks: their owner and duration.
func lockPairs(owner string, d time.Duration) []string {
	pairs := []string{"owner", owner}
	switch d {
	case 0:
		return pairs
	case -1:
		d = 0
	}
	return append(pairs, "lock", wire.FormatSeconds(d))
}

// Notify makes the receiver ask for jobs, as a script wakes it or may have done so.
func (r *receiver) Notify(redisx.Notice) { r.asker.JobsReady() }

// close ends all calls.
func (r *receiver) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.calls.Fail(closedError(), false)
	r.asker.Due.Notify()
}

// release gives jobs to other calls, and releases the remaining ones.
func (r *receiver) release(jobs []*Job) {
	for _, job := range r.calls.Deliver(jobs) {
		r.outbox.add(&report{
			Outcome: Outcome{Action: ActionRelease}, jid: job.JID, queue: job.Queue, since: job.since,
			until: job.Expires, quiet: true, unstarted: true,
		})
		r.asker.Due.Notify()
	}
}

// run makes exchanges until there has been no call for some time, the client is closed, or the
// context ends.
func (r *receiver) run(ctx context.Context) {
	r.listen(r, r.client.prefix+channelWake+r.name)
	for r.asker.Pause(ctx) {
		runtime.Gosched() // include calls that are about to arrive
		e := r.next()
		switch {
		case r.isOver(e) && r.retire(ctx):
			return
		case e.hasWork():
			r.exchange(ctx, e)
		default:
			r.wait(ctx)
		}
	}
	r.close()
	r.retire(ctx)
}

// wait waits for something to do.
func (r *receiver) wait(ctx context.Context) {
	if !r.calls.IsWanted() {
		r.asker.RingAfter(hub.IdleAfter)
	}
	r.asker.Wait(ctx)
}

// isOver reports whether the receiver must end: all outcomes are delivered, and the client is
// closed or there has been no call for some time.
func (r *receiver) isOver(e exchange) bool {
	if e.room > 0 || len(e.reports) > 0 {
		r.usedAt = time.Now()
	}
	if r.calls.IsNeeded() || !r.outbox.isEmpty() {
		return false
	}
	return r.isClosed() && !e.leave || time.Since(r.usedAt) >= hub.IdleAfter
}

func (r *receiver) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// next returns the next exchange. Its reports belong to the caller until it calls the outbox's
// done.
func (r *receiver) next() exchange {
	e := exchange{reports: r.outbox.take()}
	switch {
	case !r.calls.IsWanted():
		e.leave = r.asker.IsIdle()
	case r.asker.IsWanting():
		r.asker.Begin() // first: a call may join, and makes it ask again
		e.room = min(r.calls.Ask(), maxReserve)
	}
	return e
}

// exchange releases jobs and asks for others, in one round trip.
func (r *receiver) exchange(ctx context.Context, e exchange) {
	defer r.outbox.done()
	got, failed := r.send(ctx, e)
	if got != nil {
		r.deliver(got)
	} else if r.asks(e) {
		r.calls.Fail(failed, mayHeal(failed))
	}
	if failed != nil {
		r.failed(ctx, failed)
	} else if r.asker.Succeeded() {
		r.log.serverBack()
	}
}

// deliver gives the jobs of an answer to the calls.
func (r *receiver) deliver(got *reserved) {
	r.release(got.jobs)
	if got.Wants() > 0 && !got.MayBeMore() {
		r.calls.NoMore()
	}
	r.settle(got)
}

// mayHeal reports whether the same request may succeed later. If not, all calls end with its error,
// and otherwise only the calls with NoWait.
func mayHeal(err error) bool {
	switch redisx.Refusal(err) {
	case "NOPERM", "NOAUTH", "WRONGPASS":
		return false
	}
	return isPassing(err) && !errors.Is(err, redis.ErrClosed)
}

// retire ends the receiver, unless there are calls again. Others then take over the jobs that it
// may have been woken for, and perhaps its relaying.
func (r *receiver) retire(ctx context.Context) bool {
	if !r.all.remove(r) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	r.depart(ctx, r.unlisten(ctx))
	r.outbox.close()
	return true
}
