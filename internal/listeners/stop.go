package listeners

import "context"

// A Stop ends contexts when a server stops.
type Stop struct {
	// Now stops the server.
	Now context.CancelFunc

	stopped <-chan struct{}
	after   func(f func()) (undo func() bool)
}

// NewStop returns the stop of a running server.
func NewStop() *Stop {
	ctx, cancel := context.WithCancel(context.Background())
	return &Stop{Now: cancel, stopped: ctx.Done(), after: func(f func()) func() bool {
		return context.AfterFunc(ctx, f)
	}}
}

// Stopped reports whether the server was stopped.
func (s *Stop) Stopped() bool {
	select {
	case <-s.stopped:
		return true
	default:
		return false
	}
}

// Context returns a context that also ends when the server stops.
func (s *Stop) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	if s.Stopped() {
		cancel()
	}
	undo := s.after(cancel)
	return ctx, func() {
		undo()
		cancel()
	}
}
