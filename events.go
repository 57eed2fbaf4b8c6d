package qless

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/wire"
)

// An EventKind says what happened.
type EventKind string

// What happens to any job. These come from every client of the namespace.
const (
	EventAdvanced    EventKind = "advanced"     // completed, and put into its next queue
	EventCanceled    EventKind = "canceled"     // deleted
	EventCompleted   EventKind = "completed"    // completed for good
	EventConfigSet   EventKind = "config_set"   // a setting was changed
	EventConfigUnset EventKind = "config_unset" // a setting has its default again
	EventFailed      EventKind = "failed"       // failed by its worker, or lost once too often
	EventLockLost    EventKind = "lock_lost"    // taken from its worker
	EventPut         EventKind = "put"          // put into a queue
)

// What happens to tracked jobs besides.
const (
	EventPopped  EventKind = "popped"
	EventStalled EventKind = "stalled" // its worker let the lock end
	EventTrack   EventKind = "track"   // it is being watched from now on
	EventUntrack EventKind = "untrack" // it is not watched any more
)

// EventGap means that events may have been lost: the connection broke, and is now restored.
// Whoever keeps a picture by events should read it anew.
const EventGap EventKind = "gap"

// An Event is something that happened in a namespace. The fields that a kind does not have
// are empty.
type Event struct {
	Kind    EventKind
	Tracked bool   // it was told because the job is tracked
	JID     string // the job
	Queue   string // where it was, or was put
	To      string // where it went, for advanced
	Worker  string // who lost or failed it
	Group   string // the failure group
	Message string // why it failed
	Option  string // the setting
	Value   string // what it was set to

	channel string // where it was told, without the namespace
	wakes   bool   // the script that told it wakes a worker by itself
}

// eventSubscribed tells a worker that it listens for the jobs of other clients from now on.
const eventSubscribed EventKind = "subscribed"

// Events is a subscription to what happens in a namespace. It restores its connection by
// itself, and then says so by an [EventGap].
type Events struct {
	subscription *redisx.Subscription[Event]
}

// Events subscribes to what happens to every job, and to the tracked ones. What happens
// after the call has returned is told. The subscription ends with the context, or by
// [Events.Close].
//
// A reader that falls behind by far is cut off by the server; it then finds an [EventGap].
func (c *Client) Events(ctx context.Context) (*Events, error) {
	return c.subscribe(ctx, c.eventChannels())
}

// eventChannels returns the channels that Events listens to.
func (c *Client) eventChannels() []string {
	kinds := []EventKind{
		"log", EventCanceled, EventCompleted, EventFailed, EventPopped, EventPut, EventStalled,
		EventTrack, EventUntrack,
	}
	channels := make([]string, len(kinds))
	for i, kind := range kinds {
		channels[i] = c.prefix + string(kind)
	}
	return channels
}

func (c *Client) subscribe(ctx context.Context, channels []string) (*Events, error) {
	subscription, err := redisx.Subscribe(ctx, c.rdb, redisx.SubscriptionConfig[Event]{
		Backoff: redisx.WhileAway,
		Broken: func(err error) {
			c.logger.Warn("qless: the subscription to events broke", "error", err)
		},
		Channels: channels,
		Decode:   c.decodeNotice,
	})
	if err != nil {
		return nil, wrap("subscribe", "", err)
	}
	return &Events{subscription}, nil
}

// C returns the channel of the events. It is closed when the subscription ends.
func (e *Events) C() <-chan Event { return e.subscription.C() }

// Close ends the subscription and waits until it has ended. It may be called twice.
func (e *Events) Close() error { return wrap("subscribe", "", e.subscription.Close()) }

// decodeNotice returns the event that readers get for a notice, and false for none.
func (c *Client) decodeNotice(notice redisx.Notice) (Event, bool) {
	switch {
	case notice.Kind == redisx.Published:
		return c.decodeEvent(notice.Channel, notice.Payload), true
	case notice.Kind == redisx.Gap:
		return Event{Kind: EventGap}, true
	case notice.Channel == c.prefix+channelListen:
		return Event{Kind: eventSubscribed}, true
	}
	return Event{}, false
}

// decodeEvent reads what was published. A message of a tracked job is its jid; one of the
// log, or of a worker, is JSON.
func (c *Client) decodeEvent(channel, payload string) Event {
	channel = strings.TrimPrefix(channel, c.prefix)
	if channel != channelLog && !strings.HasPrefix(channel, "w:") {
		return Event{Kind: EventKind(channel), Tracked: true, JID: payload, channel: channel}
	}
	var told struct {
		Event   wire.Text `json:"event"`
		JID     wire.Text `json:"jid"`
		Queue   wire.Text `json:"queue"`
		To      wire.Text `json:"to"`
		Worker  wire.Text `json:"worker"`
		Group   wire.Text `json:"group"`
		Message wire.Text `json:"message"`
		Option  wire.Text `json:"option"`
		Value   wire.Text `json:"value"`
	}
	if err := json.Unmarshal([]byte(payload), &told); err != nil {
		c.logger.Warn("qless: an event is no JSON", "channel", channel, "payload", payload)
	}
	return Event{
		Kind:    EventKind(told.Event),
		JID:     string(told.JID),
		Queue:   string(told.Queue),
		To:      string(told.To),
		Worker:  string(told.Worker),
		Group:   string(told.Group),
		Message: string(told.Message),
		Option:  string(told.Option),
		Value:   string(told.Value),
		channel: channel,
		wakes:   strings.HasSuffix(payload, " "),
	}
}
