package hub

import (
	"context"
	"sync"
	"time"

	"github.com/qless/qless-go/internal/redisx"
)

// A Waiter waits for the end of a job and, optionally, for its progress.
type Waiter struct {
	channels []string // of the job's end, and of its progress
	ready    Signal   // a message has come, or it is time to ask

	mu       sync.Mutex
	message  string // the last message about the end
	progress string // the last message about progress
	ask      bool   // it is time to ask
}

// IdleAfter is how long a part shared by calls, such as a connection, is kept after the last call.
const IdleAfter = 10 * time.Second

// Listen returns the next message about the end of the job, and calls progress with each message
// about progress. It returns an empty text if it is time to ask, because no message came for that
// long, or if the context has ended.
func (w *Waiter) Listen(
	ctx context.Context, patience time.Duration, progress func(message string),
) string {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		over := false
		select {
		case <-ctx.Done():
			over = true
		case <-timer.C:
			over = true
		case <-w.ready:
		}
		w.mu.Lock()
		message, news := w.message, w.progress
		over = over || w.ask
		w.message, w.progress, w.ask = "", "", false
		w.mu.Unlock()
		if news != "" {
			progress(news)
		}
		if message != "" || over {
			return message
		}
	}
}

// Notify is called for a message, or when it is time to ask.
func (w *Waiter) Notify(notice redisx.Notice) {
	w.mu.Lock()
	switch {
	case notice.Payload == "":
		w.ask = true
	case notice.Channel == w.channels[0]:
		w.message = notice.Payload
	default:
		w.progress = notice.Payload
	}
	w.mu.Unlock()
	w.ready.Notify()
}

// Waits are the waits for jobs by a client and its copies. They keep the connection of their hub
// for [IdleAfter] after the last wait.
type Waits struct {
	hub     *Hub
	channel string // keeps the subscription

	mu      sync.Mutex
	closed  bool
	waiters map[*Waiter]bool
	idle    *time.Timer // fires after some time without a wait
}

// NewWaits returns the waits of a hub.
func NewWaits(h *Hub) *Waits {
	s := &Waits{hub: h, channel: h.config.Prefix + Idle, waiters: map[*Waiter]bool{}}
	s.idle = time.AfterFunc(IdleAfter, s.expire)
	s.idle.Stop()
	return s
}

// Notify ignores notices about the connection, because each waiter receives them, too.
func (s *Waits) Notify(redisx.Notice) {}

// Join adds a waiter for channels. The waiter is notified for each channel when the server begins
// to send its messages.
func (s *Waits) Join(channels ...string) *Waiter {
	w := &Waiter{channels: channels, ready: NewSignal()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		w.Notify(redisx.Notice{})
		return w
	}
	s.idle.Stop()
	s.waiters[w] = true
	s.hub.Subscribe(s, s.channel)
	s.hub.Subscribe(w, channels...)
	return w
}

// Leave removes a waiter.
func (s *Waits) Leave(w *Waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hub.Unsubscribe(w, w.channels...)
	delete(s.waiters, w)
	if len(s.waiters) == 0 && !s.closed {
		s.idle.Reset(IdleAfter)
	}
}

// expire ends the subscription, unless new waits or others need it.
func (s *Waits) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiters) == 0 {
		s.hub.Unsubscribe(s, s.channel)
	}
}

// IsClosed reports whether Close was called.
func (s *Waits) IsClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Close ends all waits, and the subscription unless others need it.
func (s *Waits) Close() {
	s.mu.Lock()
	s.closed = true
	s.idle.Stop()
	for w := range s.waiters {
		w.Notify(redisx.Notice{}) // the waiter then finds the reason
		s.hub.Unsubscribe(w, w.channels...)
	}
	closed := s.hub.Unsubscribe(s, s.channel)
	s.mu.Unlock()
	if closed != nil {
		<-closed
	}
}
