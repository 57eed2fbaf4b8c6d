package qless

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// An EventKind says what happened.
type EventKind string

// Events of all jobs, and of settings, whichever client causes them.
const (
	EventAdvanced    EventKind = "advanced"     // completed, and put into its next queue
	EventCanceled    EventKind = "canceled"     // deleted
	EventCompleted   EventKind = "completed"    // completed for good
	EventConfigSet   EventKind = "config_set"   // a setting was changed
	EventConfigUnset EventKind = "config_unset" // a setting was reset to its default
	EventFailed      EventKind = "failed"       // failed by its worker, or out of retries
	EventLockLost    EventKind = "lock_lost"    // taken from its worker
	EventPut         EventKind = "put"          // put into a queue
)

// More events of tracked jobs.
const (
	EventPopped  EventKind = "popped"
	EventStalled EventKind = "stalled" // its lock ended before its worker renewed it
	EventTrack   EventKind = "track"   // tracking began
	EventUntrack EventKind = "untrack" // tracking ended
)

// EventGap means that events may have been lost: the connection broke, and is now restored. A
// program that mirrors state from events should reload it.
const EventGap EventKind = "gap"

// An Event is something that happened in a namespace. Fields that a kind does not have are empty.
type Event struct {
	Kind    EventKind `json:"event"`
	Tracked bool      `json:"tracked,omitempty"` // delivered because the job is tracked
	JID     string    `json:"jid,omitempty"`     // the job
	Queue   string    `json:"queue,omitempty"`   // where it was, or was put
	To      string    `json:"to,omitempty"`      // its next queue, for EventAdvanced
	Worker  string    `json:"worker,omitempty"`  // who lost or failed it
	Group   string    `json:"group,omitempty"`   // the failure group
	Message string    `json:"message,omitempty"` // why it failed
	Option  string    `json:"option,omitempty"`  // the setting
	Value   string    `json:"value,omitempty"`   // what it was set to

	channel string // where it was published, without the namespace
	wakes   bool   // the script that published it wakes a worker by itself
}

// eventSubscribed notifies a worker that it now listens for the jobs of other clients.
const eventSubscribed EventKind = "subscribed"

// eventsBuffer is how many events wait for a slow reader before the connection does.
const eventsBuffer = 256

// keepAlive is how long a silent connection is trusted before it is pinged.
const keepAlive = 15 * time.Second

// Events is a subscription to the events of a namespace. It restores a broken connection, and then
// delivers an [EventGap].
type Events struct {
	client *Client
	events chan Event
	pubsub *redis.PubSub
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// Events subscribes to the events of all jobs, and of the tracked ones. Events that occur after the
// call returns are delivered. The subscription ends with the context, or by [Events.Close].
//
// A reader that falls too far behind is disconnected by the server, and receives an [EventGap] when
// it is back.
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
		channels[i] = c.runner.prefix + string(kind)
	}
	return channels
}

func (c *Client) subscribe(ctx context.Context, channels []string) (*Events, error) {
	sent := time.Now()
	e, err := c.subscribeTo(ctx, channels)
	if c.observe != nil {
		c.observed(ctx, "subscribe", "", nil, nil, sent, err)
	}
	return e, err
}

func (c *Client) subscribeTo(ctx context.Context, channels []string) (*Events, error) {
	ctx, cancel := context.WithCancel(ctx)
	e := &Events{
		client: c,
		events: make(chan Event, eventsBuffer),
		pubsub: c.rdb.Subscribe(ctx, channels...),
		cancel: cancel,
	}
	stop := context.AfterFunc(ctx, func() { _ = e.pubsub.Close() }) // Receive waits without end
	defer stop()
	for range channels {
		if _, err := e.pubsub.Receive(ctx); err != nil {
			cancel()
			_ = e.pubsub.Close()
			return nil, wrap("subscribe", "", err)
		}
	}
	e.done.Go(func() { e.receive(ctx) })
	return e, nil
}

// C returns the channel of the events. It is closed when the subscription ends.
func (e *Events) C() <-chan Event { return e.events }

// Close ends the subscription and waits until it has ended. Further calls do nothing.
func (e *Events) Close() error {
	e.cancel()
	err := e.pubsub.Close()
	e.done.Wait()
	if errors.Is(err, redis.ErrClosed) {
		return nil
	}
	return wrap("subscribe", "", err)
}

// receive delivers events until the context ends.
func (e *Events) receive(ctx context.Context) {
	defer close(e.events)
	defer func() { _ = e.pubsub.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = e.pubsub.Close() })
	defer stop()

	lost, asked, failures := false, false, 0
	for ctx.Err() == nil {
		message, err := e.pubsub.ReceiveTimeout(ctx, keepAlive)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			if isTimeout(err) && !asked {
				asked = e.pubsub.Ping(ctx) == nil
				continue
			}
			if !lost {
				e.client.logger.Warn("qless: the subscription to events broke", "error", err)
			}
			lost, asked, failures = true, false, failures+1
			if !pause(ctx, failures) {
				return
			}
			continue
		}
		asked, failures = false, 0
		switch m := message.(type) {
		case *redis.Subscription:
			if lost {
				lost = false
				e.send(ctx, Event{Kind: EventGap})
			} else if m.Kind == "subscribe" && m.Channel == e.client.runner.prefix+channelListen {
				e.send(ctx, Event{Kind: eventSubscribed})
			}
		case *redis.Message:
			e.send(ctx, e.client.decodeEvent(m.Channel, m.Payload))
		}
	}
}

func (e *Events) send(ctx context.Context, event Event) {
	select {
	case e.events <- event:
	case <-ctx.Done():
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// decodeEvent reads what was published. A message of a tracked job is its jid; one of the
// log, or of a worker, is JSON.
func (c *Client) decodeEvent(channel, payload string) Event {
	channel = strings.TrimPrefix(channel, c.runner.prefix)
	if channel != channelLog && !strings.HasPrefix(channel, "w:") {
		return Event{Kind: EventKind(channel), Tracked: true, JID: payload, channel: channel}
	}
	var told struct {
		Event   text `json:"event"`
		JID     text `json:"jid"`
		Queue   text `json:"queue"`
		To      text `json:"to"`
		Worker  text `json:"worker"`
		Group   text `json:"group"`
		Message text `json:"message"`
		Option  text `json:"option"`
		Value   text `json:"value"`
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
