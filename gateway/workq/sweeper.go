package workq

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// A sweeper applies the ends of locks, delays and lives, so that all connections see the true
// states of jobs. It knows the next end in each queue.
type sweeper struct {
	client  *qless.Client
	names   *names
	timeout time.Duration
	soon    chan struct{} // signals an end sooner than all known ends

	mu    sync.Mutex
	ends  endHeap
	due   map[string]time.Time // by queue
	lives map[time.Time]bool   // when lives end, rounded to lifeStep
}

// lifeStep is the precision with which the ends of lives are known.
const lifeStep = 5 * time.Millisecond

// horizon limits how far ahead the end of a life is noted. Every ended life is swept within a
// second in any case.
const horizon = 10 * time.Minute

// sweepAgain is the sweep interval of queues without a known end, because other processes may have
// put or leased jobs.
const sweepAgain = time.Second

// shortest is the shortest time between two sweeps of a queue, in case clocks differ.
const shortest = 5 * time.Millisecond

// An ending is the end of a lock or a delay in a queue or, without a queue, of a job's life.
type ending struct {
	at    time.Time
	queue string
}

// An endHeap is a heap of endings, the earliest first.
type endHeap []ending

func (h endHeap) Len() int           { return len(h) }
func (h endHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h endHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *endHeap) Push(x any)        { *h = append(*h, x.(ending)) }
func (h *endHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

func newSweeper(client *qless.Client, names *names, timeout time.Duration) *sweeper {
	return &sweeper{
		client: client, names: names, timeout: timeout, soon: make(chan struct{}, 1),
		due: map[string]time.Time{}, lives: map[time.Time]bool{},
	}
}

// note notes that a lock or a delay ends in a queue.
func (s *sweeper) note(queue string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, known := s.due[queue]; known && !at.Before(before) {
		return
	}
	s.due[queue] = at
	s.add(ending{at, queue})
}

// noteLife notes that the life of a job ends.
func (s *sweeper) noteLife(at time.Time) {
	if time.Until(at) > horizon {
		return
	}
	at = at.Round(0).Truncate(lifeStep).Add(lifeStep)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.lives[at] {
		s.lives[at] = true
		s.add(ending{at, ""})
	}
}

// add adds an ending. The mutex is held.
func (s *sweeper) add(e ending) {
	heap.Push(&s.ends, e)
	if s.ends[0] != e {
		return
	}
	select {
	case s.soon <- struct{}{}:
	default:
	}
}

// take removes and returns the queues with ends that have passed, and reports whether lives have
// ended.
func (s *sweeper) take(now time.Time) (queues []string, lives bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.ends) > 0 && !s.ends[0].at.After(now) {
		e := heap.Pop(&s.ends).(ending)
		switch {
		case e.queue == "":
			delete(s.lives, e.at)
			lives = true
		case s.due[e.queue].Equal(e.at): // otherwise something ended sooner
			delete(s.due, e.queue)
			queues = append(queues, e.queue)
		}
	}
	return queues, lives
}

func (s *sweeper) wait() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ends) == 0 {
		return sweepAgain
	}
	return time.Until(s.ends[0].at)
}

// run sweeps until the context ends.
func (s *sweeper) run(ctx context.Context) {
	all := time.NewTicker(sweepAgain)
	defer all.Stop()
	rest := s.names.all()
	for {
		timer := time.NewTimer(s.wait())
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.soon:
		case <-timer.C:
		case <-all.C:
			if len(rest) == 0 {
				rest = s.names.all()
			}
			n := min(len(rest), sweptAtOnce)
			s.sweep(ctx, rest[:n])
			rest = rest[n:]
		}
		timer.Stop()
		if queues, lives := s.take(time.Now()); lives || len(queues) > 0 {
			s.sweep(ctx, queues)
			s.lookAhead(ctx, queues)
		}
	}
}

// sweptAtOnce is the number of queues in one sweep.
const sweptAtOnce = 100

// fullSweep is the maximum number of jobs that a sweep handles.
const fullSweep = 100

// sweep sweeps queues, and ends lives.
func (s *sweeper) sweep(ctx context.Context, queues []string) {
	if len(queues) == 0 {
		s.sweepSome(ctx, nil)
	}
	for some := range slices.Chunk(queues, sweptAtOnce) {
		s.sweepSome(ctx, some)
	}
}

func (s *sweeper) sweepSome(ctx context.Context, queues []string) {
	for {
		limited, cancel := context.WithTimeout(ctx, s.timeout)
		n, err := inspect.New(s.client).Sweep(limited, queues...)
		cancel()
		if err != nil || n < fullSweep {
			return // the next sweep of all queues finds the rest
		}
	}
}

// lookAhead notes when locks and delays end next in queues.
func (s *sweeper) lookAhead(ctx context.Context, queues []string) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	least := time.Now().Add(shortest)
	for _, queue := range queues {
		if at := s.nextIn(ctx, queue); !at.IsZero() {
			if at.Before(least) {
				at = least
			}
			s.note(queue, at)
		}
	}
}

// nextIn returns when a lock or a delay ends next in a queue, or the zero time.
func (s *sweeper) nextIn(ctx context.Context, queue string) time.Time {
	var next time.Time
	for _, list := range []inspect.List{inspect.Running, inspect.Scheduled} {
		page, err := inspect.New(s.client).Queue(queue, list).List(ctx, inspect.Range{Limit: 1})
		if err != nil || len(page.Items) == 0 {
			continue
		}
		at := page.Items[0].Expires
		if list == inspect.Scheduled {
			at = page.Items[0].Due
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// An orderKeeper keeps jobs scheduled for the same time in order of arrival: each job is scheduled
// a microsecond after the previous job.
type orderKeeper struct {
	mu   sync.Mutex
	last map[string]time.Duration // by queue and time
}

// maxTimes is the maximum number of remembered times.
const maxTimes = 100_000

// maxShift is the longest delay added to a job.
const maxShift = 5 * time.Millisecond

func newOrderKeeper() *orderKeeper { return &orderKeeper{last: map[string]time.Duration{}} }

// shift returns the time to add to the due time of the next job in a queue.
func (k *orderKeeper) shift(queue string, at time.Time) time.Duration {
	key := queue + " " + at.Format(time.RFC3339Nano)
	k.mu.Lock()
	defer k.mu.Unlock()
	last, known := k.last[key]
	switch {
	case !known && len(k.last) >= maxTimes:
		clear(k.last)
	case known:
		last = min(last+time.Microsecond, maxShift)
	}
	k.last[key] = last
	return last
}
