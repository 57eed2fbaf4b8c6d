package gearmonkey

import (
	"context"
	"strings"

	"github.com/qless/qless-go/internal/redisx"
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

// Events is a subscription to what happens to the jobs of functions. It restores its
// connection by itself, and then says so by an [EventGap].
type Events struct {
	subscription *redisx.Subscription[Event]
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
	subscription, err := redisx.Subscribe(ctx, c.rdb, redisx.SubscriptionConfig[Event]{
		Backoff:  backoff,
		Channels: channels,
		Decode:   decodeNotice,
	})
	if err != nil {
		return nil, wrap("subscribe", functions[0], 0, err)
	}
	return &Events{subscription}, nil
}

// C returns the channel of the events. It is closed when the subscription ends.
func (e *Events) C() <-chan Event { return e.subscription.C() }

// Close ends the subscription and waits until it has ended. It may be called twice.
func (e *Events) Close() error { return wrap("subscribe", "", 0, e.subscription.Close()) }

// decodeNotice returns the event that readers get for a notice, and false for none.
func decodeNotice(notice redisx.Notice) (Event, bool) {
	switch notice.Kind {
	case redisx.Published:
		return decodeEvent(notice.Channel, notice.Payload)
	case redisx.Gap:
		return Event{Kind: EventGap}, true
	}
	return Event{}, false
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
