// Package line makes calls wait in line for items that arrive a few at a time.
package line

import (
	"container/list"
	"slices"
	"sync"
)

// A Line is a line of calls that wait for items. Items go to the call that has waited longest. A
// Line is safe for concurrent use.
type Line[T any] struct {
	changed func()

	mu    sync.Mutex
	calls *list.List // of *Call[T], the oldest first
	want  int        // the number of items wanted in all
	lent  int        // the number of calls with items that may come back
}

// New returns a line. It calls changed when no call waits any more, and when no more items can come
// back. changed must not block or use the line.
func New[T any](changed func()) *Line[T] {
	return &Line[T]{changed: changed, calls: list.New()}
}

// A Call is a place in a line.
type Call[T any] struct {
	want int
	once bool
	done chan struct{}

	// Guarded by the mutex of the line.
	place *list.Element // nil after an answer or a withdrawal
	asked bool

	// Set before done is closed.
	items []T
	err   error
}

// Done returns a channel that is closed when the call has been answered.
func (c *Call[T]) Done() <-chan struct{} { return c.done }

// Answer returns the items or the error of the call. It must be called after Done.
func (c *Call[T]) Answer() ([]T, error) { return c.items, c.err }

// Join adds a call that wants up to want items. With once, the call does not wait for items that
// arrive later.
func (l *Line[T]) Join(want int, once bool) *Call[T] {
	call := &Call[T]{want: want, once: once, done: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	call.place = l.calls.PushBack(call)
	l.want += want
	return call
}

// Withdraw removes a call, and reports whether the call was unanswered.
func (l *Line[T]) Withdraw(call *Call[T]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if call.place == nil {
		return false
	}
	l.remove(call)
	return true
}

// remove removes a call. The mutex is held.
func (l *Line[T]) remove(call *Call[T]) {
	l.calls.Remove(call.place)
	call.place = nil
	if l.want -= call.want; l.want == 0 {
		l.changed()
	}
}

// answer removes and ends a call. The mutex is held.
func (l *Line[T]) answer(call *Call[T], items []T, err error) {
	l.remove(call)
	call.items, call.err = items, err
	close(call.done)
}

// each calls do for each call; do may remove the call. The mutex is held.
func (l *Line[T]) each(do func(*Call[T])) {
	for e := l.calls.Front(); e != nil; {
		call := e.Value.(*Call[T])
		e = e.Next()
		do(call)
	}
}

// Fail ends all calls, or only the calls with once, with an error.
func (l *Line[T]) Fail(err error, onlyOnce bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.each(func(call *Call[T]) {
		if call.once || !onlyOnce {
			l.answer(call, nil, err)
		}
	})
}

// Ask returns the number of items wanted by the calls. Calls with once have then asked.
func (l *Line[T]) Ask() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.each(func(call *Call[T]) { call.asked = true })
	return l.want
}

// NoMore is called when there are no more items. Calls with once that have asked end without items.
func (l *Line[T]) NoMore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.each(func(call *Call[T]) {
		if call.once && call.asked {
			l.answer(call, nil, nil)
		}
	})
}

// Deliver gives items to the calls that have waited longest, and returns unwanted items. Took must
// be called for each call with items.
func (l *Line[T]) Deliver(items []T) (left []T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(items) > 0 && l.calls.Len() > 0 {
		call := l.calls.Front().Value.(*Call[T])
		n := min(call.want, len(items))
		l.lent++
		l.answer(call, slices.Clip(items[:n]), nil)
		items = items[n:]
	}
	return items
}

// Took is called when a call keeps its items, or has given them back by Deliver.
func (l *Line[T]) Took(call *Call[T]) {
	if len(call.items) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lent--; l.lent == 0 {
		l.changed()
	}
}

// Wanted returns the number of items wanted by the calls.
func (l *Line[T]) Wanted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.want
}

// IsNeeded reports whether calls are waiting, or items may come back.
func (l *Line[T]) IsNeeded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.want > 0 || l.lent > 0
}
