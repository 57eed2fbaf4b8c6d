package redisx

import (
	"context"
	"errors"
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

	// Subscribed means that the server sends messages of a channel from now on. The first
	// confirmation of a restored connection is a Gap instead.
	Subscribed

	// Gap means that messages may have been lost: the connection broke, and is now restored.
	Gap
)

// A Notice is something that a subscription has received. The channels that it begins with are
// confirmed when [Subscribe] returns, without a notice.
type Notice struct {
	Kind    NoticeKind
	Channel string // empty for a Gap
	Payload string // what was published
}

// SubscriptionConfig says what a subscription receives. All fields but Broken are required.
type SubscriptionConfig[T any] struct {
	// Backoff says how long to wait before a broken connection is restored.
	Backoff Backoff

	// Broken is called when the connection breaks, and not again before it is restored. It may be
	// nil.
	Broken func(error)

	// Channels are those that the subscription begins with.
	Channels []string

	// Decode returns the event for a notice, or false if readers get none.
	Decode func(Notice) (T, bool)
}

// eventsBuffer is how many events wait for a slow reader before the connection does.
const eventsBuffer = 256

// keepAlive is how long a silent connection is trusted before it is pinged.
const keepAlive = 15 * time.Second

// A Subscription receives messages published on channels, as events of type T. It restores a broken
// connection, and then there is a [Gap] notice.
type Subscription[T any] struct {
	config SubscriptionConfig[T]
	events chan T
	pubsub *redis.PubSub
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// Subscribe begins a subscription, and returns when the server has confirmed it. It ends with the
// context, or by [Subscription.Close].
func Subscribe[T any](
	ctx context.Context, rdb redis.UniversalClient, config SubscriptionConfig[T],
) (*Subscription[T], error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &Subscription[T]{
		config: config,
		events: make(chan T, eventsBuffer),
		pubsub: rdb.Subscribe(ctx, config.Channels...),
		cancel: cancel,
	}
	// Receiving ends with the connection, not with the context.
	stop := context.AfterFunc(ctx, func() { _ = s.pubsub.Close() })
	for range config.Channels {
		if _, err := s.pubsub.Receive(ctx); err != nil {
			if ctx.Err() != nil { // which has closed the connection
				err = ctx.Err()
			}
			cancel()
			_ = s.pubsub.Close()
			return nil, err
		}
	}
	s.done.Go(func() {
		defer close(s.events)
		defer func() { _ = s.pubsub.Close() }()
		defer stop()
		s.receive(ctx)
	})
	return s, nil
}

// C returns the channel of the events. It is closed when the subscription ends.
func (s *Subscription[T]) C() <-chan T { return s.events }

// Add subscribes to further channels. Each is confirmed by a notice.
func (s *Subscription[T]) Add(ctx context.Context, channels ...string) error {
	return s.pubsub.Subscribe(ctx, channels...)
}

// Remove unsubscribes from channels.
func (s *Subscription[T]) Remove(ctx context.Context, channels ...string) error {
	return s.pubsub.Unsubscribe(ctx, channels...)
}

// Cancel ends the subscription without waiting.
func (s *Subscription[T]) Cancel() { s.cancel() }

// Close ends the subscription and waits for that. It may be called twice.
func (s *Subscription[T]) Close() error {
	s.cancel()
	err := s.pubsub.Close()
	s.done.Wait()
	if errors.Is(err, redis.ErrClosed) {
		return nil
	}
	return err
}

// receive passes on what the server sends until the context ends.
func (s *Subscription[T]) receive(ctx context.Context) {
	broken, pinged, failures := false, false, 0
	for ctx.Err() == nil {
		message, err := s.pubsub.ReceiveTimeout(ctx, keepAlive)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			s.pass(ctx, message, broken)
			pinged, failures = false, 0
			if _, restored := message.(*redis.Subscription); restored {
				broken = false
			}
		case IsTimeout(err) && !pinged:
			pinged = s.pubsub.Ping(ctx) == nil
		default:
			if !broken && s.config.Broken != nil {
				s.config.Broken(err)
			}
			broken, pinged, failures = true, false, failures+1
			s.config.Backoff.Wait(ctx, failures)
		}
	}
}

// pass delivers what the server sent. The first confirmation after the connection broke means that
// it is restored.
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
