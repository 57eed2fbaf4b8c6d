package qless

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

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
	if !c.Order.isKnown() {
		return invalid("receive", "", "ReceiveConfig.Order %q is unknown", string(c.Order))
	}
	if c.Count < 0 || c.Count > maxReserve {
		return invalid("receive", "", "ReceiveConfig.Count %d is not from 1 to %d", c.Count, maxReserve)
	}
	if d := c.LockTime; d != 0 && d != -1 {
		if err := jobopts.CheckLockTime(d); err != nil {
			return invalid("receive", "", "ReceiveConfig.LockTime %v: %s", d, err)
		}
	}
	if c.PollInterval != 0 && c.PollInterval < time.Millisecond {
		return invalid("receive", "", "ReceiveConfig.PollInterval %v is less than 1ms", c.PollInterval)
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
	r.ask()
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
	all     *receiverSet
	client  *Client
	key     receiveKey
	name    string // under which it is idle
	channel string // where it is woken
	poll    time.Duration
	due     hub.Signal // there is something to exchange
	calls   *line.Line[*Job]
	outbox  *outbox
	log     *workerLog

	// Used only by the goroutine of run.
	relay       *hub.Relay
	reservation reservation
	appetite    appetite
	alarm       *time.Timer // fires when it must ask again, or end
	idle        bool        // the server counts it among the idle workers, or may do so
	failures    int         // consecutive exchanges that failed
	notBefore   time.Time   // after a failure, no exchange before this
	unheard     int         // consecutive requests during which it was not listening
	usedAt      time.Time   // when there last was something to do

	mu     sync.Mutex
	closed bool
	ready  bool // there may be jobs: ask
}

func newReceiver(all *receiverSet, c *Client, config ReceiveConfig) *receiver {
	name := newWorkerName()
	r := &receiver{
		all: all, client: c, key: config.key(c.worker),
		name: name, channel: c.prefix + channelWake + name,
		poll: config.PollInterval,
		due:  hub.NewSignal(),
		log:  &workerLog{logger: c.logger.With("worker", c.worker)},

		reservation: reservation{
			queues: config.Queues, order: config.Order, lock: lockPairs(c.worker, config.LockTime),
		},
	}
	r.calls = line.New[*Job](r.due.Notify)
	r.outbox = newOutbox(r.log, r.due, nil)
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
func (r *receiver) Notify(redisx.Notice) { r.ask() }

// ask makes the receiver ask for jobs.
func (r *receiver) ask() {
	r.mu.Lock()
	r.ready = true
	r.mu.Unlock()
	r.due.Notify()
}

// close ends all calls.
func (r *receiver) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.calls.Fail(closedError(), false)
	r.due.Notify()
}

// release gives jobs to other calls, and releases the remaining ones.
func (r *receiver) release(jobs []*Job) {
	for _, job := range r.calls.Deliver(jobs) {
		r.outbox.add(&report{
			Outcome: Outcome{Action: ActionRelease}, jid: job.JID, queue: job.Queue, since: job.since,
			until: job.Expires, quiet: true, unstarted: true,
		})
		r.due.Notify()
	}
}

// run makes exchanges until there has been no call for some time, the client is closed, or the
// context ends.
func (r *receiver) run(ctx context.Context) {
	r.relay = r.client.hub.Join(r.client.hubConfig(), r, r.channel)
	r.alarm = time.NewTimer(r.poll)
	defer r.alarm.Stop()
	for redisx.Sleep(ctx, time.Until(r.notBefore)) {
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
		r.alarm.Reset(hub.IdleAfter)
	}
	select {
	case <-r.due:
	case <-r.alarm.C:
		r.ask()
	case <-ctx.Done():
	}
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
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !r.calls.IsWanted():
		e.leave = r.idle
	case r.ready:
		e.room = min(r.calls.Ask(), maxReserve)
		r.appetite.limit(&e)
		r.ready = false
	}
	return e
}

// exchange releases jobs and asks for others, in one round trip.
func (r *receiver) exchange(ctx context.Context, e exchange) {
	defer r.outbox.done()
	c := r.client
	p := c.runner.Pipeline()
	setPlaces(e.reports)
	batches := inBatches(e.reports)
	for _, batch := range batches {
		p.Add("finish", finishArgs(c.worker, batch)...)
	}
	asks := e.room > 0 || e.leave
	if asks {
		p.Add("reserve", r.reservation.args(r.name, e.room, 0, r.poll)...)
	}
	sent := time.Now()
	replies, failures := c.exec(ctx, p)
	others := slices.Contains(failures, nil)
	var failed error
	for i, batch := range batches {
		if err := r.outbox.answered(batch, replies[i], failures[i], others); err != nil {
			failed = err
		}
	}
	if asks {
		last := len(replies) - 1
		if err := r.reserved(replies[last], failures[last], sent, e); err != nil {
			failed = err
		}
	}
	r.after(failed)
}

// reserved gives the jobs of a reply to the calls.
func (r *receiver) reserved(reply any, err error, sent time.Time, e exchange) error {
	var got reserved
	if err == nil {
		got, err = r.client.decodeReserved(reply)
	} else {
		r.appetite.failed(e.room, err, r.log)
	}
	if err != nil {
		r.idle = r.idle || e.room > 0 // perhaps
		return r.refused(wrap("receive", "", err))
	}
	r.reservation.cursor, r.reservation.claim = got.cursor, got.claim
	r.idle = got.leavesIdle(e)
	r.appetite.succeeded(len(got.jobs))
	jobs := make([]*Job, len(got.jobs))
	for i, reserved := range got.jobs {
		jobs[i] = reserved.job
	}
	r.release(jobs)
	if e.room > 0 {
		r.setAlarm(got, sent)
	}
	return nil
}

// refused fails the calls that an error answers, and asks again if that may help the others.
func (r *receiver) refused(err error) error {
	passing := mayHeal(err)
	r.calls.Fail(err, passing)
	if passing {
		r.ask()
	}
	return err
}

// mayHeal reports whether the same request may succeed later.
func mayHeal(err error) bool {
	switch redisx.Refusal(err) {
	case "NOPERM", "NOAUTH", "WRONGPASS":
		return false
	}
	return isPassing(err) && !errors.Is(err, redis.ErrClosed)
}

// setAlarm sets when to ask again: at once if there may be more jobs, and otherwise at the time
// that the server gave, or when the receiver is woken.
func (r *receiver) setAlarm(got reserved, sent time.Time) {
	if got.listeners >= 0 {
		r.relay.Adjust(got.listeners)
	}
	if got.mayBeMore() {
		r.alarm.Stop()
		r.ask()
		return
	}
	r.calls.NoMore()
	wait := got.wait
	if got.claim == "" {
		wait = time.Duration(float64(wait) * (0.9 + rand.Float64()/10))
	}
	if got.listeners < 0 {
		r.unheard++
		r.client.hub.Restart(r.channel, sent)
		wait = min(wait, 50*time.Millisecond<<min(r.unheard, 16))
	} else {
		r.unheard = 0
	}
	r.alarm.Reset(wait)
}

// after records the result of an exchange, and delays the next one if it failed.
func (r *receiver) after(failed error) {
	switch {
	case failed == nil:
		if r.failures > 0 {
			r.log.serverBack()
		}
		r.failures = 0
		return
	case r.failures > 0:
	case redisx.IsAnswer(failed):
		r.log.serverRefuses(failed)
	default:
		r.log.serverAway(failed)
	}
	r.failures++
	r.notBefore = time.Now().Add(redisx.WhileAway.After(r.failures))
}

// retire ends the receiver, unless there are calls again. Others then take over the jobs that it
// may have been woken for, and perhaps its relaying.
func (r *receiver) retire(ctx context.Context) bool {
	if !r.all.remove(r) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	relayed, asked := r.client.hub.Leave(ctx, r, r.relay, r.channel), &r.reservation
	if err := r.client.depart(ctx, r.name, asked.claim, relayed, asked.queues); err != nil {
		r.log.cantDeregister(err)
	}
	r.outbox.close()
	return true
}
