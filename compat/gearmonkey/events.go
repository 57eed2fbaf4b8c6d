package gearmonkey

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// An EventKind says what happened.
type EventKind string

// What happens to a job.
const (
	EventCreate EventKind = "create" // stored, and about to be queued
	EventStart  EventKind = "start"  // taken by a worker
	EventFinish EventKind = "finish" // ended, well or with an error; Get tells which
)

// EventGap means that events may have been lost: the connection broke, and is now restored.
// It is about every function of the subscription.
const EventGap EventKind = "gap"

// An Event is something that happened to a job. A gap has no function and no id.
type Event struct {
	Kind     EventKind
	Function string
	ID       int64
}

// eventsBuffer is how many events wait for a slow reader before the connection does.
const eventsBuffer = 256

// keepAlive is how long a silent connection is trusted before it is asked for a sign of
// life.
const keepAlive = 15 * time.Second

// Events is a subscription to what happens to the jobs of functions. It restores its
// connection by itself, and then says so by an [EventGap].
type Events struct {
	events chan Event
	pubsub *redis.PubSub
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// Events subscribes to what happens to the jobs of some functions. What happens after the
// call has returned is told, at most once: a reader that falls behind by far is cut off by
// the server, and finds a gap. Messages that are not the protocol's are passed over. The
// subscription ends with the context, or by [Events.Close].
func (c *Client) Events(ctx context.Context, functions ...string) (*Events, error) {
	if len(functions) == 0 {
		return nil, invalid("subscribe", "", "no function is named")
	}
	channels := make([]string, len(functions))
	for i, fn := range functions {
		if err := checkFunction("subscribe", fn); err != nil {
			return nil, err
		}
		channels[i] = channelOf(fn)
	}
	ctx, cancel := context.WithCancel(ctx)
	e := &Events{events: make(chan Event, eventsBuffer), pubsub: c.rdb.Subscribe(ctx, channels...), cancel: cancel}
	for range channels {
		if _, err := e.pubsub.Receive(ctx); err != nil {
			cancel()
			_ = e.pubsub.Close()
			return nil, wrap("subscribe", functions[0], 0, err)
		}
	}
	e.done.Go(func() { e.receive(ctx) })
	return e, nil
}

// C returns the channel of the events. It is closed when the subscription ends.
func (e *Events) C() <-chan Event { return e.events }

// Close ends the subscription and waits until it has ended. It may be called twice.
func (e *Events) Close() error {
	e.cancel()
	err := e.pubsub.Close()
	e.done.Wait()
	if errors.Is(err, redis.ErrClosed) {
		return nil
	}
	return wrap("subscribe", "", 0, err)
}

// receive passes on what the server says, until the context ends.
func (e *Events) receive(ctx context.Context) {
	defer close(e.events)
	defer func() { _ = e.pubsub.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = e.pubsub.Close() })
	defer stop()

	lost, asked, failures := false, false, 0
	for ctx.Err() == nil {
		message, err := e.pubsub.ReceiveTimeout(ctx, keepAlive)
		if err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() && !asked {
				asked = e.pubsub.Ping(ctx) == nil
				continue
			}
			lost, asked, failures = true, false, failures+1
			rest(ctx, failures)
			continue
		}
		asked, failures = false, 0
		switch m := message.(type) {
		case *redis.Subscription:
			if lost {
				lost = false
				e.pass(ctx, Event{Kind: EventGap})
			}
		case *redis.Message:
			if event, ok := decodeEvent(m.Channel, m.Payload); ok {
				e.pass(ctx, event)
			}
		}
	}
}

func (e *Events) pass(ctx context.Context, event Event) {
	select {
	case e.events <- event:
	case <-ctx.Done():
	}
}

// decodeEvent reads a message such as create:12; false when it is none of the protocol's.
func decodeEvent(channel, payload string) (Event, bool) {
	fn, ours := strings.CutPrefix(channel, channelOf(""))
	kind, text, _ := strings.Cut(payload, ":")
	id, ok := parseID(text)
	switch event := (Event{Kind: EventKind(kind), Function: fn, ID: id}); event.Kind {
	case EventCreate, EventStart, EventFinish:
		return event, ours && ok
	}
	return Event{}, false
}
