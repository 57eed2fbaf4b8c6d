package hub

// A Signal wakes a waiting goroutine. Notifications before it wakes are merged.
type Signal chan struct{}

// NewSignal returns a signal.
func NewSignal() Signal { return make(Signal, 1) }

// Notify wakes the goroutine, or the next one to wait.
func (s Signal) Notify() {
	select {
	case s <- struct{}{}:
	default:
	}
}
