package queues

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"
)

// A Source provides the queues of a namespace.
type Source interface {
	// Count returns the number of queues.
	Count(ctx context.Context) (int, error)

	// Names returns all queues, in the order first seen.
	Names(ctx context.Context) ([]string, error)

	// Ready returns the given queues that have jobs, now or later.
	Ready(ctx context.Context, queues []string) ([]string, error)
}

// A Watch follows the queues that match patterns. It reads the list of all queues at the beginning
// and from time to time. In between, the server notifies the watch of new queues. An unexpected
// number of queues reveals queues without a notice, such as those of clients that publish nothing.
type Watch struct {
	Choice *Choice

	source   Source
	known    hashes
	count    int // the expected number of queues on the server
	listedAt time.Time
	lookedAt time.Time

	mu       sync.Mutex
	appeared []string
	woken    []string // queues that may have jobs
	missed   bool     // other queues may have appeared
}

// relistAfter is the maximum age of the list of all queues.
const relistAfter = 5 * time.Minute

// NewWatch returns a watch that has not looked yet.
func NewWatch(patterns Patterns, source Source) *Watch {
	w := &Watch{Choice: NewChoice(patterns), source: source}
	w.Choice.Reset(nil)
	return w
}

// Appeared records a new queue.
func (w *Watch) Appeared(queue string) { w.note(&w.appeared, queue) }

// Woken records that a queue may have jobs.
func (w *Watch) Woken(queue string) { w.note(&w.woken, queue) }

// note adds a queue to a list of limited length.
func (w *Watch) note(list *[]string, queue string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(*list) == MaxAsked {
		*list, w.missed = nil, true
	}
	*list = append(*list, queue)
}

// Missed records that other queues may exist.
func (w *Watch) Missed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.missed = true
}

// Learn adds the recorded queues. It reports whether the queues to ask have changed, and whether
// others may have appeared.
func (w *Watch) Learn() (changed, missed bool) {
	w.mu.Lock()
	appeared, woken, missed := w.appeared, w.woken, w.missed
	w.appeared, w.woken, w.missed = nil, nil, false
	w.mu.Unlock()
	for _, queue := range appeared {
		if w.known.add(queue) {
			w.count++
		}
	}
	for _, queue := range slices.Concat(appeared, woken) {
		changed = w.Choice.Add(queue) || changed
	}
	return changed, missed
}

// Look checks for other queues, and reads the list of all, when due: when some were missed, or an
// interval is over. It reports whether it asked the source.
func (w *Watch) Look(
	ctx context.Context, missed bool, interval time.Duration,
) (looked bool, err error) {
	switch {
	case time.Since(w.listedAt) >= relistAfter:
		err = w.list(ctx)
	case !missed && time.Since(w.lookedAt) < interval:
		return false, nil
	default:
		var count int
		if count, err = w.source.Count(ctx); err == nil && count != w.count {
			err = w.list(ctx)
		}
	}
	if err == nil && w.Choice.AreTooMany() {
		var ready []string
		if ready, err = w.source.Ready(ctx, w.Choice.Matched()); err == nil {
			w.Choice.Limit(ready)
		}
	}
	if err == nil {
		w.lookedAt = time.Now()
	}
	return true, err
}

// list reads the list of all queues.
func (w *Watch) list(ctx context.Context) error {
	names, err := w.source.Names(ctx)
	if err != nil {
		return err
	}
	w.Choice.Reset(names)
	w.known = newHashes(names)
	w.count, w.listedAt = len(names), time.Now()
	return nil
}

// hashes represent texts, in order. They take less memory than the texts.
type hashes []uint64

// hashSeed is the seed of all hashes.
var hashSeed = maphash.MakeSeed()

func newHashes(texts []string) hashes {
	h := make(hashes, len(texts))
	for i, text := range texts {
		h[i] = maphash.String(hashSeed, text)
	}
	slices.Sort(h)
	return h
}

// add adds a text, and reports whether it was new.
func (h *hashes) add(text string) bool {
	hash := maphash.String(hashSeed, text)
	i, found := slices.BinarySearch(*h, hash)
	if !found {
		*h = slices.Insert(*h, i, hash)
	}
	return !found
}
