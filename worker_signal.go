package qless

import "sync"

// A signal wakes a goroutine that waits for it. Notifications sent before it wakes are merged.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) notify() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// A latch is a gate that is opened once.
type latch struct {
	c    chan struct{} // closed when the latch is open
	once *sync.Once
}

func newLatch() latch { return latch{make(chan struct{}), &sync.Once{}} }

// open opens the latch, and reports whether this call did so.
func (l latch) open() (opened bool) {
	l.once.Do(func() {
		close(l.c)
		opened = true
	})
	return opened
}
