package gearmonkey

import (
	"context"
	"strings"

	"github.com/qless/qless-go/internal/redisx"
)

// An EventKind is the kind of a job's event.
type EventKind string

// The kinds of events.
const (
	EventCreate EventKind = "create" // stored, and about to be queued
	EventStart  EventKind = "start"  // taken by a worker
	EventFinish EventKind = "finish" // ended, successfully or not; Get has the status
)

// EventGap means that events may have been lost: the connection broke and was restored. A gap
// concerns all functions of the subscription.
const EventGap EventKind = "gap"

// An Event reports what happened to a job. A gap has no function and no id.
type Event struct {
	Kind     EventKind
	Function string
	ID       int64
}

// Events is a subscription to the events of some functions. A broken connection is restored
// automatically, followed by an [EventGap].
type Events struct {
	subscription *redisx.Subscription[Event]
}

// Events subscribes to the events of some functions. Events from after the call returned are
// delivered at most once. A reader that falls too far behind is disconnected by the server, and
// receives a gap once it is connected again. Messages outside the protocol are ignored. The
// subscription ends when ctx is done, or with [Events.Close].
func (c *Client) Events(ctx context.Context, functions ...string) (*Events, error) {
	if len(functions) == 0 {
		return nil, invalid("subscribe", "", "no functions are given")
	}
	channels := make([]string, len(functions))
	for i, fn := range functions {
		if err := checkFunction("subscribe", fn); err != nil {
			return nil, err
		}
		channels[i] = channelOf(fn)
	}
	subscription, err := redisx.Subscribe(ctx, c.rdb, redisx.SubscriptionConfig[Event]{
		Buffer:   256,
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

// Close ends the subscription and waits until it has ended. It may be called more than once.
func (e *Events) Close() error { return wrap("subscribe", "", 0, e.subscription.Close()) }

// decodeNotice returns the event for a notice, or false if the notice has none.
func decodeNotice(notice redisx.Notice) (Event, bool) {
	switch notice.Kind {
	case redisx.Published:
		return decodeEvent(notice.Channel, notice.Payload)
	case redisx.Gap:
		return Event{Kind: EventGap}, true
	}
	return Event{}, false
}

// decodeEvent decodes a message such as create:12. It returns false for messages outside the
// protocol.
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
