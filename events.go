package qless

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/wire"
)

// An EventKind is the kind of an event.
type EventKind string

// Events of all jobs, and of settings, whichever client causes them.
const (
	EventAdvanced    EventKind = "advanced"     // completed, and put into its next queue
	EventCanceled    EventKind = "canceled"     // deleted
	EventCompleted   EventKind = "completed"    // completed, and not moved to another queue
	EventConfigSet   EventKind = "config_set"   // a setting was changed
	EventConfigUnset EventKind = "config_unset" // a setting was reset to its default
	EventFailed      EventKind = "failed"       // failed by its worker, or out of retries
	EventLockLost    EventKind = "lock_lost"    // taken from its worker
	EventPut         EventKind = "put"          // put into a queue
)

// Events not published by the scripts of other clients. Nor do they publish that a job is out of
// retries, unless a worker has lost it.
const (
	EventPaused   EventKind = "paused"   // a queue was paused
	EventSpawned  EventKind = "spawned"  // the recurring job JID has put Count jobs
	EventUnfailed EventKind = "unfailed" // Count failed jobs are in a queue again, or JID alone
	EventResumed  EventKind = "resumed"  // a queue was resumed
)

// More events of tracked jobs.
const (
	EventPopped    EventKind = "popped"
	EventStalled   EventKind = "stalled"   // its lock ended before its worker renewed it
	EventTracked   EventKind = "tracked"   // tracking began
	EventUntracked EventKind = "untracked" // tracking ended
)

// EventGap: events may have been lost: the connection broke, and is now restored. A
// program with a copy of the state should reload it.
const EventGap EventKind = "gap"

// An Event is something that happened in a namespace. Fields of other kinds are
// empty.
type Event struct {
	Kind    EventKind `json:"event"`
	Tracked bool      `json:"tracked,omitempty"` // delivered because the job is tracked
	JID     string    `json:"jid,omitempty"`     // the job
	Queue   string    `json:"queue,omitempty"`   // where it was, or was put
	To      string    `json:"to,omitempty"`      // its next queue, for EventAdvanced
	Worker  string    `json:"worker,omitempty"`  // the worker that lost or failed it
	Group   string    `json:"group,omitempty"`   // the failure group
	Message string    `json:"message,omitempty"` // why it failed
	Count   int       `json:"count,omitempty"`   // the number of jobs
	Option  string    `json:"option,omitempty"`  // the setting
	Value   string    `json:"value,omitempty"`   // its new value
}

// Channels of events.
const (
	channelLog  = "log"
	channelMore = "x:log" // events that other clients' scripts do not publish
)

// Events subscribes to the events of all jobs, including those of tracked jobs. Events that occur
// after the call returns are delivered. The channel is closed when ctx ends.
//
// A broken connection is restored, followed by an [EventGap]. The server disconnects a reader that
// falls too far behind, with the same effect.
func (c *Client) Events(ctx context.Context) (<-chan Event, error) {
	sent := time.Now()
	subscription, err := redisx.Subscribe(ctx, c.rdb, redisx.SubscriptionConfig[Event]{
		Backoff:  redisx.WhileAway,
		Broken:   func(err error) { c.warn("the subscription to events broke", err) },
		Buffer:   256,
		Channels: c.eventChannels(),
		Decode:   c.decodeNotice,
	})
	err = wrap("subscribe", "", err)
	if c.observe != nil {
		c.observed(ctx, "subscribe", "", nil, nil, sent, err)
	}
	if err != nil {
		return nil, err
	}
	return subscription.C(), nil
}

// eventChannels returns the channels of Events.
func (c *Client) eventChannels() []string {
	channels := []string{
		channelLog, channelMore, "canceled", "completed", "failed", "popped", "put", "stalled", "track",
		"untrack",
	}
	for i, channel := range channels {
		channels[i] = c.prefix + channel
	}
	return channels
}

// decodeNotice returns the event for a notice, or false if readers get none.
func (c *Client) decodeNotice(notice redisx.Notice) (Event, bool) {
	switch {
	case notice.Kind == redisx.Published:
		return c.decodeEvent(notice.Channel, notice.Payload), true
	case notice.Kind == redisx.Gap:
		return Event{Kind: EventGap}, true
	}
	return Event{}, false
}

// eventKind returns the kind for the word of a message or a channel.
func eventKind(word string) EventKind {
	switch word {
	case "track":
		return EventTracked
	case "unpaused":
		return EventResumed
	case "untrack":
		return EventUntracked
	}
	return EventKind(word)
}

// decodeEvent decodes a published message. A message about a tracked job is its jid; messages on
// the logs and to a worker are JSON.
func (c *Client) decodeEvent(channel, payload string) Event {
	channel = strings.TrimPrefix(channel, c.prefix)
	if channel != channelLog && channel != channelMore && !strings.HasPrefix(channel, "w:") {
		return Event{Kind: eventKind(channel), Tracked: true, JID: payload}
	}
	var decoded struct {
		Event   wire.Text   `json:"event"`
		JID     wire.Text   `json:"jid"`
		Queue   wire.Text   `json:"queue"`
		To      wire.Text   `json:"to"`
		Worker  wire.Text   `json:"worker"`
		Group   wire.Text   `json:"group"`
		Message wire.Text   `json:"message"`
		Count   wire.Number `json:"count"`
		Option  wire.Text   `json:"option"`
		Value   wire.Text   `json:"value"`
	}
	if err := json.Unmarshal([]byte(payload), &decoded); err != nil {
		c.logger.Warn("qless: an event is not JSON", "channel", channel, "payload", payload)
	}
	return Event{
		Kind:    eventKind(string(decoded.Event)),
		JID:     string(decoded.JID),
		Queue:   string(decoded.Queue),
		To:      string(decoded.To),
		Worker:  string(decoded.Worker),
		Group:   string(decoded.Group),
		Message: string(decoded.Message),
		Count:   decoded.Count.Int(),
		Option:  string(decoded.Option),
		Value:   string(decoded.Value),
	}
}
