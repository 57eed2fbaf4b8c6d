package out

import (
	"context"
	"errors"
	"time"
)

// ErrTimeout is the cause of a context ended by a Watch.
var ErrTimeout = errors.New("the time is over")

// A Watch ends a context when the server takes too long. It stops while the user answers a
// question, and restarts with each step of a long command.
type Watch struct {
	timer *time.Timer
	limit time.Duration
}

// NewWatch returns a watch that calls end after a time.
func NewWatch(limit time.Duration, end context.CancelCauseFunc) *Watch {
	return &Watch{time.AfterFunc(limit, func() { end(ErrTimeout) }), limit}
}

// Stop stops the watch. A nil Watch has no limit.
func (w *Watch) Stop() {
	if w != nil {
		w.timer.Stop()
	}
}

// Restart resets the time of a running watch.
func (w *Watch) Restart() {
	if w != nil && w.timer.Stop() {
		w.timer.Reset(w.limit)
	}
}

// Resume restarts a stopped watch with all of its time.
func (w *Watch) Resume() {
	if w != nil {
		w.timer.Reset(w.limit)
	}
}
