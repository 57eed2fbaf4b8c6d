package cli

import (
	"context"
	"errors"
	"time"
)

var errTimeout = errors.New("the time is over")

// A watch ends a context when the server takes too long. It stops while the user is asked, and
// restarts with each step of a long command.
type watch struct {
	timer *time.Timer
	limit time.Duration
}

func newWatch(limit time.Duration, end context.CancelCauseFunc) *watch {
	return &watch{time.AfterFunc(limit, func() { end(errTimeout) }), limit}
}

func (w *watch) stop() {
	if w != nil {
		w.timer.Stop()
	}
}

func (w *watch) restart() {
	if w != nil && w.timer.Stop() {
		w.timer.Reset(w.limit)
	}
}

func (w *watch) resume() {
	if w != nil {
		w.timer.Reset(w.limit)
	}
}
