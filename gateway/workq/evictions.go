package workq

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/qless/qless-go"
)

// evictions counts the jobs with lives that ended before a run. The server has a counter for each
// queue and day. Only counters that may have changed are read.
type evictions struct {
	client *qless.Client
	names  *names

	mu     sync.Mutex
	past   int                   // the count of earlier days
	day    time.Time             // the day being counted
	counts map[string]int        // the counts of that day, by queue
	lives  map[string]endsOfLive // by queue
	readAt time.Time             // when all queues were last read
	rest   map[string]bool       // queues left in the pass over all queues; nil between passes
}

// endsOfLive holds the first and the last end of known lives in a queue that are not counted yet.
type endsOfLive struct{ first, last time.Time }

const day = 24 * time.Hour

// allAgain is how often all queues are read, because other processes put jobs, too.
const allAgain = time.Minute

func newEvictions(client *qless.Client, names *names, started time.Time) *evictions {
	return &evictions{
		client: client, names: names, day: started.UTC().Truncate(day),
		counts: map[string]int{}, lives: map[string]endsOfLive{},
	}
}

// note notes when the life of a job in a queue ends.
func (e *evictions) note(queue string, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ends, known := e.lives[queue]
	if !known || at.Before(ends.first) {
		ends.first = at
	}
	if at.After(ends.last) {
		ends.last = at
	}
	e.lives[queue] = ends
}

// readAtOnce is the number of queues read between two checks of the time, apart from queues with
// ended lives.
const readAtOnce = 50

// count returns the number of jobs evicted since the day of the server's start. If there is no time
// to read all queues, the next call continues with the others.
func (e *evictions) count(ctx context.Context, within time.Duration) (int, error) {
	for begun := time.Now(); ; {
		now := time.Now()
		at, queues := e.unread(now)
		counts, err := forEach(queues, func(queue string) (int, error) {
			stats, err := e.client.Queue(queue).Stats(ctx, at)
			return stats.Expired, err
		})
		if err != nil {
			return 0, err
		}
		sum, done := e.enter(at, queues, counts, now)
		if done || time.Since(begun) > within {
			return sum, nil
		}
	}
}

// unread returns some queues whose counters for a day may have changed.
func (e *evictions) unread(now time.Time) (at time.Time, queues []string) {
	all := e.names.all()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.rest == nil && (e.isOver(now) || now.Sub(e.readAt) > allAgain) {
		e.rest = make(map[string]bool, len(all))
		for _, queue := range all {
			e.rest[queue] = true
		}
	}
	for queue, ends := range e.lives {
		if !ends.first.After(now) {
			queues = append(queues, queue)
		}
	}
	more := 0
	for queue := range e.rest {
		if more == readAtOnce {
			break
		}
		if ends, known := e.lives[queue]; !known || ends.first.After(now) {
			queues = append(queues, queue)
			more++
		}
	}
	return e.day, queues
}

// isOver reports whether the day being counted is over. The mutex is held.
func (e *evictions) isOver(now time.Time) bool { return e.day.Before(now.UTC().Truncate(day)) }

// enter stores counts of a day, requested at a given time. It returns the sum of all, and whether
// nothing is left to read.
func (e *evictions) enter(
	at time.Time, queues []string, counts []int, asked time.Time,
) (sum int, done bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.day.Equal(at) {
		return e.sum(), true // another call was faster
	}
	for i, queue := range queues {
		e.counts[queue] = counts[i]
		delete(e.rest, queue)
		if ends := e.lives[queue]; ends.last.Before(asked.Add(-settled)) {
			delete(e.lives, queue)
		}
	}
	switch {
	case len(e.rest) > 0:
		return e.sum(), false
	case e.isOver(asked):
		e.past, e.day = e.sum(), e.day.Add(day)
		clear(e.counts)
		e.readAt, e.rest = time.Time{}, nil
		return e.past, false
	case e.rest != nil:
		e.readAt, e.rest = asked, nil
	}
	return e.sum(), true
}

// settled is the maximum time from the end of a life to its count.
const settled = 10 * time.Second

// sum returns the sum of all counts. The mutex is held.
func (e *evictions) sum() int {
	sum := e.past
	for n := range maps.Values(e.counts) {
		sum += n
	}
	return sum
}
