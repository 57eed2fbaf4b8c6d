// Package ask asks the server for jobs, on behalf of a worker or of calls that wait for jobs. It
// has no connection and knows no job: an [Asker] writes the requests, reads the answers, and
// knows when to ask again.
package ask

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qless/qless-go/internal/hub"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/wire"
)

// A Config describes who asks, and how.
type Config struct {
	Name  string        // under which it waits for jobs while the server has none
	Order string        // of the queues: strict, round-robin or shuffled
	Lock  []string      // pairs with the owner and the duration of locks, if not the usual ones
	Poll  time.Duration // the maximum time between two requests

	// InStep returns a time to wait that is not longer than the given one, so that several ask at
	// the same moments, an interval apart.
	InStep func(wait, interval time.Duration) time.Duration
}

// Check describes a problem of an order of queues or a maximum time between two requests. Without
// one, it returns the empty string.
func Check(order string, poll time.Duration) string {
	switch order {
	case "", "strict", "round-robin", "shuffled":
	default:
		return fmt.Sprintf("Order %q is unknown", order)
	}
	if poll != 0 && poll < time.Millisecond {
		return fmt.Sprintf("PollInterval %v is less than 1ms", poll)
	}
	return ""
}

// An Asker asks for jobs, by one request at a time:
//
//	Begin, Ask -> the server -> Answered, Settle    or Lost, Unanswered
//
// Woken, WokenFor, JobsReady, IsResting, Queues and Depart are safe for concurrent use.
type Asker struct {
	Due   hub.Signal // there may be something to do
	Polls bool       // the next request is made only because the alarm rang

	config    Config
	name      any       // config.Name, as an argument
	poll      any       // config.Poll, as an argument
	cursor    string    // of the last answer
	left      []string  // the queues asked last, if there are none now
	weights   []int     // of the queues, in order, instead of Config.Order; or nil
	leftOut   []string  // the queues that are not asked for jobs
	room      int       // the number of jobs that the last request asked for
	ahead     int       // the number of further ones
	brief     bool      // the last request did not count relays
	asked     time.Time // when the last request was made
	countedAt time.Time // when the last request that counted relays was made
	idle      bool      // the server counts it among the idle workers, or may do so
	appetite  appetite
	alarm     *time.Timer     // rings when to ask again at the latest
	unheard   int             // consecutive answers that it does not listen
	failures  int             // consecutive exchanges that failed
	kinds     map[string]bool // of these failures
	notBefore time.Time       // after a failure, no exchange before this

	demand atomic.Int32
	counts atomic.Bool // the next request must count relays

	mu     sync.Mutex
	queues []string // to be asked, or left out
	claim  string   // the queue for whose next due job it waits
	woken  []string // the queues for which it was woken since the last request
}

// The demand for jobs:
//
//	         Begin            Settle: there are no more
//	wanting -------> asking ----------------------------> resting
//	   ^               |                                     |
//	   +---------------+-------------------------------------+
//	     a wake-up, the alarm, an answer with more, or none at all
const (
	wanting = iota // there may be jobs
	asking         // a request is made
	resting        // the server has no jobs
)

// New returns an asker that wants jobs. It has no queues yet.
func New(config Config) *Asker {
	return &Asker{
		Due: hub.NewSignal(), config: config, alarm: time.NewTimer(config.Poll),
		name: config.Name, poll: wire.FormatSeconds(config.Poll),
	}
}

// JobsReady makes it ask for jobs, and for the number of relays.
func (a *Asker) JobsReady() {
	a.counts.Store(true)
	a.Woken()
}

// Woken makes it ask for jobs.
func (a *Asker) Woken() {
	a.demand.Store(wanting)
	a.Due.Notify()
}

// WokenFor makes it ask for the jobs of a queue.
func (a *Asker) WokenFor(queue string) {
	a.mu.Lock()
	if !slices.Contains(a.woken, queue) {
		a.woken = append(a.woken, queue)
	}
	a.mu.Unlock()
	a.Woken()
}

// IsWanting reports whether there may be jobs.
func (a *Asker) IsWanting() bool { return a.demand.Load() == wanting }

// IsResting reports whether the server has no jobs.
func (a *Asker) IsResting() bool { return a.demand.Load() == resting }

// IsIdle reports whether the server counts the asker among the idle workers, or may do so.
func (a *Asker) IsIdle() bool { return a.idle }

// Begin begins a request. A wake-up that comes later makes it ask again.
func (a *Asker) Begin() { a.demand.Store(asking) }

// rest records that the server has no jobs, unless something has woken the asker since Begin.
func (a *Asker) rest() { a.demand.CompareAndSwap(asking, resting) }

// SetQueues sets the queues. If they have weights, in their order, these replace the order: the
// cursor then has numbers of the queues before.
func (a *Asker) SetQueues(queues []string, weights []int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if weights != nil && !slices.Equal(queues, a.queues) {
		a.cursor = ""
	}
	if len(queues) == 0 && len(a.queues) > 0 {
		a.left = a.queues
	}
	a.queues, a.weights = slices.Clone(queues), weights
}

// LeaveOut sets the queues that are not asked for jobs. It wants the jobs of one that is asked
// again.
func (a *Asker) LeaveOut(queues []string) {
	slices.Sort(queues)
	if slices.Equal(queues, a.leftOut) {
		return
	}
	for _, queue := range a.leftOut {
		if !slices.Contains(queues, queue) {
			a.Woken()
		}
	}
	a.leftOut = queues
	if a.weights != nil {
		a.cursor = ""
	}
}

// MustLeave reports whether the asker must make a request without room, so that others are woken in
// its place: it was woken for a queue that is left out, or counts as idle with no queue to ask.
func (a *Asker) MustLeave() bool {
	if len(a.leftOut) == 0 {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.idle && !a.HasQueues(1) || slices.ContainsFunc(a.woken, func(queue string) bool {
		return slices.Contains(a.leftOut, queue)
	})
}

// Queues returns the queues.
func (a *Asker) Queues() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.queues)
}

// Pause waits before the next exchange, if the last ones have failed. It returns false if the
// context ends first.
func (a *Asker) Pause(ctx context.Context) bool {
	return redisx.Sleep(ctx, time.Until(a.notBefore))
}

// Failed records a failed exchange, which delays the next one. It reports whether it is the first
// of its kind since one has succeeded.
func (a *Asker) Failed(err error) (news bool) {
	if a.failures++; a.failures == 1 {
		a.kinds = map[string]bool{}
	}
	a.notBefore = time.Now().Add(redisx.WhileAway.After(a.failures))
	kind := redisx.Refusal(err)
	news, a.kinds[kind] = !a.kinds[kind], true
	return news
}

// Succeeded records a successful exchange, and reports whether the one before failed.
func (a *Asker) Succeeded() (back bool) {
	back, a.failures = a.failures > 0, 0
	return back
}

// Wait waits until something is due, the alarm rings or the context ends. It reports whether the
// alarm rang, which makes it ask for jobs.
func (a *Asker) Wait(ctx context.Context) (rang bool) {
	select {
	case <-a.Due:
	case <-a.alarm.C:
		a.JobsReady()
		return true
	case <-ctx.Done():
	}
	return false
}

// RingAfter makes the alarm ring after a time, whatever the last answer was.
func (a *Asker) RingAfter(d time.Duration) { a.alarm.Reset(d) }

// NoQueues is called in place of a request if there are no queues yet.
func (a *Asker) NoQueues() {
	a.alarm.Reset(a.config.Poll)
	a.rest()
}

// Lost records that there was no answer to a request, or that the server refused it. If the next
// one should be smaller, and that is worth a line in the log, it returns the numbers of jobs that
// this one asked for, and that the next one asks for at most.
func (a *Asker) Lost(err error) (asked, next int) {
	return a.appetite.failed(a.room+a.ahead, err)
}

// Unanswered makes it ask again: the last request got no answer that can be read.
func (a *Asker) Unanswered() {
	a.idle = a.idle || a.room > 0 // perhaps: if it must take no more jobs, it says so
	a.mu.Lock()
	a.woken = append(a.woken, a.leftOut...) // perhaps, before that request
	a.mu.Unlock()
	a.counts.Store(true)
	a.demand.Store(wanting)
}

// Answered records the answer to the last request, with a number of jobs.
func (a *Asker) Answered(answer *Answer, jobs int) {
	answer.room, answer.ahead, answer.jobs = a.room, a.ahead, jobs
	if answer.Wants() > 0 {
		a.cursor = answer.cursor
	}
	a.idle = answer.room > 0 && !answer.MayBeMore()
	a.appetite.succeeded(jobs)
	a.mu.Lock()
	a.claim = answer.claim
	a.mu.Unlock()
	if !a.brief && a.idle {
		a.countedAt = a.asked
	} else if !a.brief { // relays are not counted while no worker is idle
		a.counts.Store(true)
	}
}

// unheardFirst is half the first wait of an asker that does not listen.
const unheardFirst = 50 * time.Millisecond

// Settle sets when to ask again, once the jobs of an answer are under way: at once if there may be
// more, and otherwise at the time that the server gave, or when it is woken.
func (a *Asker) Settle(answer Answer) {
	if answer.Wants() == 0 {
		a.alarm.Stop()
		return
	}
	if answer.MayBeMore() {
		a.alarm.Stop()
		a.Woken()
		return
	}
	wait := answer.wait
	if answer.claim == "" {
		wait = a.config.InStep(wait, a.config.Poll)
	}
	if answer.Listens() {
		a.unheard = 0
	} else {
		a.unheard++
		wait = min(wait, unheardFirst<<min(a.unheard, 16))
	}
	a.alarm.Reset(wait)
	a.rest()
}
