// Package ask asks the server for jobs, on behalf of a worker or of waiting calls. It has no
// connection and knows no jobs: an [Asker] writes the requests, reads the answers, and knows when
// to ask again.
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
	Name  string        // the name under which to wait while the server has no jobs
	Order string        // of the queues: strict, round-robin or shuffled
	Lock  []string      // pairs with the owner and the duration of locks, if unusual
	Poll  time.Duration // the maximum time between two requests

	// InStep returns a time to wait, at most the given one. It lets several askers ask at the same
	// moments, an interval apart.
	InStep func(wait, interval time.Duration) time.Duration
}

// Check describes a problem of an order of queues or a maximum time between two requests, or
// returns the empty string.
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

// An Asker asks for jobs, one request at a time:
//
//	Begin, Ask -> the server -> Answered, Settle    or Lost, Unanswered
//
// Woken, WokenFor, JobsReady, IsResting, Queues and Depart are safe for concurrent use.
type Asker struct {
	Due   hub.Signal // there may be something to do
	Polls bool       // only the alarm caused the next request

	config    Config
	name      any       // config.Name, as an argument
	poll      any       // config.Poll, as an argument
	cursor    string    // of the last answer
	left      []string  // the queues asked last, if none are left now
	weights   []int     // of the queues, in order, instead of Config.Order; or nil
	leftOut   []string  // the queues not asked for jobs
	room      int       // the number of jobs requested last for free slots
	ahead     int       // the number of jobs requested last to prefetch
	brief     bool      // the last request did not count relays
	asked     time.Time // when the last request was made
	countedAt time.Time // when the last request to count relays was made
	idle      bool      // the server counts the asker among the idle workers, or may do so
	appetite  appetite
	alarm     *time.Timer     // rings when to ask again at the latest
	unheard   int             // consecutive answers while the asker was not listening
	failures  int             // consecutive failed exchanges
	kinds     map[string]bool // of these failures
	notBefore time.Time       // after a failure, the earliest next exchange

	demand atomic.Int32
	counts atomic.Bool // the next request must count relays

	mu     sync.Mutex
	queues []string // to ask, or leave out
	claim  string   // the queue with the next due job claimed by the asker
	woken  []string // the queues with wake-ups since the last request
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

// JobsReady makes the asker ask for jobs, and for the number of relays.
func (a *Asker) JobsReady() {
	a.counts.Store(true)
	a.Woken()
}

// Woken makes the asker ask for jobs.
func (a *Asker) Woken() {
	a.demand.Store(wanting)
	a.Due.Notify()
}

// WokenFor makes the asker ask for the jobs of a queue.
func (a *Asker) WokenFor(queue string) {
	a.mu.Lock()
	if !slices.Contains(a.woken, queue) {
		a.woken = append(a.woken, queue)
	}
	a.mu.Unlock()
	a.Woken()
}

// IsWanting reports whether jobs may be available.
func (a *Asker) IsWanting() bool { return a.demand.Load() == wanting }

// IsResting reports whether the server has no jobs.
func (a *Asker) IsResting() bool { return a.demand.Load() == resting }

// IsIdle reports whether the server counts the asker among the idle workers, or may do so.
func (a *Asker) IsIdle() bool { return a.idle }

// Begin begins a request. A later wake-up causes another request.
func (a *Asker) Begin() { a.demand.Store(asking) }

// rest records that the server has no jobs, unless a wake-up has come since Begin.
func (a *Asker) rest() { a.demand.CompareAndSwap(asking, resting) }

// SetQueues sets the queues. Weights, in the order of the queues, replace the configured order: the
// cursor then has numbers of the previous queues.
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

// LeaveOut sets the queues not asked for jobs. A queue no longer left out counts as a wake-up.
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

// MustLeave reports whether the asker must make a request without room, to wake others in its
// place: after a wake-up for a queue left out, or while idle without a queue to ask.
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

// Pause waits before the next exchange after failures. It returns false if the context ends first.
func (a *Asker) Pause(ctx context.Context) bool {
	return redisx.Sleep(ctx, time.Until(a.notBefore))
}

// Failed records a failed exchange, which delays the next one. It reports whether the failure is
// the first of its kind since the last success.
func (a *Asker) Failed(err error) (news bool) {
	if a.failures++; a.failures == 1 {
		a.kinds = map[string]bool{}
	}
	a.notBefore = time.Now().Add(redisx.WhileAway.After(a.failures))
	kind := redisx.Refusal(err)
	news, a.kinds[kind] = !a.kinds[kind], true
	return news
}

// Succeeded records a successful exchange, and reports whether the previous exchange failed.
func (a *Asker) Succeeded() (back bool) {
	back, a.failures = a.failures > 0, 0
	return back
}

// Wait waits until something is due, the alarm rings or the context ends. It reports whether the
// alarm rang, which makes the asker ask for jobs.
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

// RingAfter makes the alarm ring after a time, regardless of the last answer.
func (a *Asker) RingAfter(d time.Duration) { a.alarm.Reset(d) }

// NoQueues replaces a request while there are no queues yet.
func (a *Asker) NoQueues() {
	a.alarm.Reset(a.config.Poll)
	a.rest()
}

// Lost records that a request was refused or had no answer. If the next request should be smaller,
// and a line in the log is due, Lost returns the number of jobs requested, and the next maximum.
func (a *Asker) Lost(err error) (asked, next int) {
	return a.appetite.failed(a.room+a.ahead, err)
}

// Unanswered makes the asker ask again after a request without a readable answer.
func (a *Asker) Unanswered() {
	a.idle = a.idle || a.room > 0 // perhaps: a request without room ends it
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

// Settle sets when to ask again, once the jobs of an answer are under way: at once if more may be
// available, and otherwise after the server's wait or at a wake-up.
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
