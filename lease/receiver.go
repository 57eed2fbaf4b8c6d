package lease

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/ask"
	"github.com/qless/qless-go/internal/batch"
	"github.com/qless/qless-go/internal/hub"
	"github.com/qless/qless-go/internal/inside"
	"github.com/qless/qless-go/internal/line"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/wire"
)

// receivers ask for jobs on behalf of the calls of Take for a client and its copies. There is one
// receiver for each key.
type receivers struct {
	started sync.WaitGroup

	mu     sync.Mutex
	closed bool
	byKey  map[receiverKey]*receiver
}

// join adds a call to a receiver, which then asks for jobs, and returns both.
func (s *receivers) join(
	client *qless.Client, request Request,
) (*receiver, *line.Call[*qless.Job], error) {
	request.Queues = wire.Distinct(request.Queues)
	request.Order = cmp.Or(request.Order, qless.OrderStrict)
	request.PollInterval = cmp.Or(request.PollInterval, 10*time.Second)
	key := request.key(client.WorkerName())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, closedError()
	}
	r := s.byKey[key]
	if r == nil {
		r = newReceiver(s, client, key, request)
		s.byKey[key] = r
		ctx, cut := context.WithCancel(context.Background())
		r.cut = cut
		s.started.Go(func() { defer cut(); r.run(ctx) })
	}
	call := r.calls.Join(max(1, request.Count), request.NoWait)
	r.asker.JobsReady()
	return r, call, nil
}

// remove removes a receiver, unless it has calls again, and reports whether it was removed.
func (s *receivers) remove(r *receiver) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.calls.Wanted() > 0 {
		return false
	}
	delete(s.byKey, r.key)
	return true
}

// all returns the receivers.
func (s *receivers) all() []*receiver {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.byKey))
}

// Close ends all calls. The receivers then release jobs still under way to them.
func (s *receivers) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, r := range s.all() {
		r.close()
	}
}

// How long a closed client waits for the receivers, and again after cutting them off.
const (
	closeTimeout = time.Second
	cutTimeout   = 100 * time.Millisecond
)

// Wait waits until all receivers have ended, but not long if the server is unreachable.
func (s *receivers) Wait() {
	ended := make(chan struct{})
	go func() {
		s.started.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return
	case <-time.After(closeTimeout):
	}
	for _, r := range s.all() {
		r.cut()
	}
	select {
	case <-ended:
	case <-time.After(cutTimeout):
	}
}

// An exchanger makes exchanges with the server: it asks for jobs, and releases some. Package qless
// implements it.
type exchanger interface {
	// Asker returns the asker for jobs.
	Asker() *ask.Asker

	// Listen subscribes to the channel where the server wakes the exchanger.
	Listen(s hub.Subscriber)

	// Release releases a job with the next exchange.
	Release(job *qless.Job)

	// Take begins an exchange, and returns the number of jobs to release.
	Take() int

	// IsEmpty reports whether all jobs are released.
	IsEmpty() bool

	// Exchange ends the exchange, in one round trip. If it asks for jobs, answered is called with
	// the jobs, or the error, of the answer.
	Exchange(ctx context.Context, room int, leave bool,
		answered func(jobs []*qless.Job, answer *ask.Answer, err error))

	// Leave deregisters the exchanger, which no longer listens.
	Leave(ctx context.Context)
}

// A receiver asks for jobs on behalf of calls of one kind. To the server, a receiver is an idle
// worker with its own name; the jobs are locked for the client's worker. It makes one exchange at a
// time, for all calls.
type receiver struct {
	exchanger
	asker *ask.Asker
	all   *receivers
	key   receiverKey
	calls *line.Line[*qless.Job]
	cut   func() // ends run

	// Used only by the goroutine of run.
	burst  batch.Burst
	usedAt time.Time // when there was last something to do

	mu     sync.Mutex
	closed bool
}

func newReceiver(
	all *receivers, client *qless.Client, key receiverKey, request Request,
) *receiver {
	opened := inside.OpenExchanger(client, opTake, ask.Config{
		Order: string(request.Order), Poll: request.PollInterval,
		Lock: lockPairs(key.worker, request.LockTime),
	})
	r := &receiver{exchanger: opened.(exchanger), all: all, key: key}
	r.asker = r.Asker()
	r.asker.SetQueues(request.Queues, nil)
	r.calls = line.New[*qless.Job](r.asker.Due.Notify)
	return r
}

// lockPairs returns the arguments of the script reserve for locks: the owner and the duration.
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

// Notify makes the receiver ask for jobs, after a wake-up or a possible wake-up by a script.
func (r *receiver) Notify(redisx.Notice) { r.asker.JobsReady() }

// close ends all calls.
func (r *receiver) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.calls.Fail(closedError(), false)
	r.asker.Due.Notify()
}

// release gives jobs to other calls, and releases the remaining jobs.
func (r *receiver) release(jobs []*qless.Job) {
	for _, job := range r.calls.Deliver(jobs) {
		r.Release(job)
		r.asker.Due.Notify()
	}
}

// run makes exchanges until no call was made for some time, the client is closed, or the context
// ends.
func (r *receiver) run(ctx context.Context) {
	r.Listen(r)
	for r.asker.Pause(ctx) {
		if r.asker.IsWanting() {
			r.burst.Wait(r.asker.Due, r.calls.Wanted)
		}
		e := r.next()
		switch {
		case r.isOver(e) && r.retire(ctx):
			return
		case e.hasWork():
			r.Exchange(ctx, e.room, e.leave, r.answered)
		default:
			r.wait(ctx)
		}
	}
	r.close()
	r.retire(ctx)
}

// wait waits for something to do.
func (r *receiver) wait(ctx context.Context) {
	if r.calls.Wanted() == 0 {
		r.asker.RingAfter(hub.IdleAfter)
	}
	r.asker.Wait(ctx)
}

// An exchange describes the next exchange with the server.
type exchange struct {
	releases int  // the number of jobs to release
	room     int  // the number of jobs to ask for
	leave    bool // no more jobs are wanted: the receiver is no longer idle
}

func (e exchange) hasWork() bool { return e.releases > 0 || e.room > 0 || e.leave }

// next begins the next exchange.
func (r *receiver) next() exchange {
	e := exchange{releases: r.Take()}
	switch {
	case r.calls.Wanted() == 0:
		e.leave = r.asker.IsIdle()
	case r.asker.IsWanting():
		r.asker.Begin() // first: a call may join, and make the asker ask again
		e.room = min(r.calls.Ask(), maxTaken)
	}
	return e
}

// isOver reports whether the receiver must end: all jobs are released, and the client is closed or
// no call was made for some time.
func (r *receiver) isOver(e exchange) bool {
	if e.room > 0 || e.releases > 0 {
		r.usedAt = time.Now()
	}
	if r.calls.IsNeeded() || !r.IsEmpty() {
		return false
	}
	return r.isClosed() && !e.leave || time.Since(r.usedAt) >= hub.IdleAfter
}

func (r *receiver) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// answered gives the jobs of an answer to the calls, or ends calls if there is none.
func (r *receiver) answered(jobs []*qless.Job, answer *ask.Answer, err error) {
	if err != nil {
		r.calls.Fail(err, mayHeal(err))
		return
	}
	r.burst.Sent(len(jobs))
	r.release(jobs)
	if answer.Wants() > 0 && !answer.MayBeMore() {
		r.calls.NoMore()
	}
}

// mayHeal reports whether the same request may succeed later. If not, all calls end with the error,
// and otherwise only the calls with NoWait.
func mayHeal(err error) bool {
	switch redisx.Refusal(err) {
	case "NOPERM", "NOAUTH", "WRONGPASS":
		return false
	}
	passing := errors.Is(err, qless.ErrUnavailable) || redisx.IsServerWide(err)
	return passing && !errors.Is(err, redis.ErrClosed)
}

// retire ends the receiver, unless it has calls again. Other receivers then take over the jobs of
// possible wake-ups, and perhaps the relaying.
func (r *receiver) retire(ctx context.Context) bool {
	if !r.all.remove(r) {
		return false
	}
	r.Leave(ctx)
	return true
}
