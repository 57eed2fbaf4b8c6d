package redisx

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A NoticeKind is the kind of a [Notice].
type NoticeKind int

// The kinds of notices.
const (
	// Published is a message on a channel.
	Published NoticeKind = iota

	// Subscribed means that the server sends messages of a channel from now on. The first confirmation
	// of a restored connection is a Gap instead.
	Subscribed

	// Gap means that messages may have been lost: the connection broke, and is now restored.
	Gap
)

// A Notice is an event of a subscription. The initial channels are confirmed when [Subscribe]
// returns, without a notice.
type Notice struct {
	Kind    NoticeKind
	Channel string // empty for a Gap
	Payload string // the published message
}

// SubscriptionConfig configures a subscription. All fields but Broken are required.
type SubscriptionConfig[T any] struct {
	// Backoff returns the time to wait before restoring a broken connection.
	Backoff Backoff

	// Broken is called when the connection breaks, and not again before it is restored. It may be nil.
	Broken func(error)

	// Buffer is the number of events that wait for a slow reader before the connection does.
	Buffer int

	// Channels are the channels of the first SUBSCRIBE. Duplicates count once.
	Channels []string

	// Decode returns the event for a notice, or false for no event.
	Decode func(Notice) (T, bool)
}

// keepAlive is how long a silent connection is trusted before a ping, and how long the server may
// take to confirm a new subscription.
const keepAlive = 15 * time.Second

// pongTimeout is how long a server may take to answer a ping, or to confirm a restored
// subscription. After that, the connection is replaced.
const pongTimeout = 5 * time.Second

// A Subscription receives messages published on channels, as events of type T. It replaces a broken
// or silent connection, and then sends a [Gap] notice.
type Subscription[T any] struct {
	config SubscriptionConfig[T]
	rdb    redis.UniversalClient
	events chan T
	cancel context.CancelFunc
	done   sync.WaitGroup

	// changing is held while channels change or the connection is replaced, so that the server gets
	// the changes in the same order. Ending the subscription never waits for it.
	changing sync.Mutex

	mu       sync.Mutex
	pubsub   *redis.PubSub
	channels map[string]bool
}

// Subscribe begins a subscription, and returns when the server has confirmed it. The subscription
// ends with the context, or by [Subscription.Close].
func Subscribe[T any](
	ctx context.Context, rdb redis.UniversalClient, config SubscriptionConfig[T],
) (*Subscription[T], error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &Subscription[T]{
		config: config, rdb: rdb, events: make(chan T, config.Buffer), cancel: cancel,
		channels: map[string]bool{},
	}
	for _, channel := range config.Channels {
		s.channels[channel] = true
	}
	s.connect(ctx)
	// Receiving ends with the connection, not with the context.
	stop := context.AfterFunc(ctx, func() { _ = s.connection().Close() })
	if err := s.confirm(ctx); err != nil {
		if ctx.Err() != nil { // its end has closed the connection
			err = ctx.Err()
		}
		cancel()
		_ = s.connection().Close()
		return nil, err
	}
	s.done.Go(func() {
		defer close(s.events)
		defer func() { _ = s.connection().Close() }()
		defer stop()
		s.receive(ctx)
	})
	return s, nil
}

// connect replaces the connection with a new one for the same channels. On failure, receiving tries
// again.
func (s *Subscription[T]) connect(ctx context.Context) {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.mu.Lock()
	channels := slices.Sorted(maps.Keys(s.channels))
	s.mu.Unlock()
	fresh := s.rdb.Subscribe(ctx, channels...)
	s.mu.Lock()
	old := s.pubsub
	s.pubsub = fresh
	s.mu.Unlock()
	if old != nil {
		_ = old.Close()
	}
	if ctx.Err() != nil { // its end may have come too early to close this one
		_ = fresh.Close()
	}
}

// connection returns the current connection.
func (s *Subscription[T]) connection() *redis.PubSub {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pubsub
}

// confirm waits for the server's confirmation of the first channels. Messages on channels confirmed
// before the others have come too early.
func (s *Subscription[T]) confirm(ctx context.Context) error {
	deadline := time.Now().Add(keepAlive)
	for missing := len(s.channels); missing > 0; {
		wait := max(time.Until(deadline), time.Millisecond)
		message, err := s.connection().ReceiveTimeout(ctx, wait)
		if err != nil {
			return err
		}
		if _, confirmed := message.(*redis.Subscription); confirmed {
			missing--
		}
	}
	return nil
}

// C returns the channel of the events. It is closed when the subscription ends.
func (s *Subscription[T]) C() <-chan T { return s.events }

// Add subscribes to further channels. Each is confirmed by a notice.
func (s *Subscription[T]) Add(ctx context.Context, channels ...string) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.mu.Lock()
	for _, channel := range channels {
		s.channels[channel] = true
	}
	s.mu.Unlock()
	return s.connection().Subscribe(ctx, channels...)
}

// Remove unsubscribes from channels.
func (s *Subscription[T]) Remove(ctx context.Context, channels ...string) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.mu.Lock()
	for _, channel := range channels {
		delete(s.channels, channel)
	}
	s.mu.Unlock()
	return s.connection().Unsubscribe(ctx, channels...)
}

// Cancel ends the subscription without waiting.
func (s *Subscription[T]) Cancel() { s.cancel() }

// Close ends the subscription and waits for the end. It may be called twice.
func (s *Subscription[T]) Close() error {
	s.cancel()
	err := s.connection().Close()
	s.done.Wait()
	if errors.Is(err, redis.ErrClosed) {
		return nil
	}
	return err
}

// receive passes on the server's messages until the context ends.
func (s *Subscription[T]) receive(ctx context.Context) {
	broken, pinged, failures := false, false, 0
	for ctx.Err() == nil {
		wait := keepAlive
		if broken || pinged {
			wait = pongTimeout
		}
		connection := s.connection()
		message, err := connection.ReceiveTimeout(ctx, wait)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			s.pass(ctx, message, broken)
			pinged, failures = false, 0
			if _, restored := message.(*redis.Subscription); restored {
				broken = false
			}
		case IsTimeout(err) && !broken && !pinged && connection.Ping(ctx) == nil:
			pinged = true
		default:
			if !broken && s.config.Broken != nil {
				s.config.Broken(err)
			}
			silent := IsTimeout(err)
			broken, pinged, failures = true, false, failures+1
			s.config.Backoff.Wait(ctx, failures)
			if silent { // go-redis replaces only broken connections
				s.connect(ctx)
			}
		}
	}
}

// pass delivers a message of the server. The first confirmation after a break means that the
// connection is restored.
func (s *Subscription[T]) pass(ctx context.Context, message any, broken bool) {
	var notice Notice
	switch m := message.(type) {
	case *redis.Message:
		notice = Notice{Kind: Published, Channel: m.Channel, Payload: m.Payload}
	case *redis.Subscription:
		switch {
		case broken:
			notice = Notice{Kind: Gap}
		case m.Kind == "subscribe":
			notice = Notice{Kind: Subscribed, Channel: m.Channel}
		default:
			return
		}
	default:
		return
	}
	event, ok := s.config.Decode(notice)
	if !ok {
		return
	}
	select {
	case s.events <- event:
	case <-ctx.Done():
	}
}
