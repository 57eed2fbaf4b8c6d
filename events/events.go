// Package events reports changes of the jobs, queues and settings of a namespace by any client.
package events

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/inside"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/wire"
)

// A Kind is the kind of an event.
type Kind string

// Events of all jobs, and of settings, caused by any client.
const (
	Advanced    Kind = "advanced"     // completed, and put into its next queue
	Canceled    Kind = "canceled"     // deleted
	Completed   Kind = "completed"    // completed, and not moved to another queue
	ConfigSet   Kind = "config_set"   // a setting was changed
	ConfigUnset Kind = "config_unset" // a setting was reset to its default
	Failed      Kind = "failed"       // failed by its worker, or out of retries
	LockLost    Kind = "lock_lost"    // taken from its worker
	Put         Kind = "put"          // put into a queue
)

// Events not published by the scripts of other clients. Nor do these publish that a job is out of
// retries, unless a worker has lost the job.
const (
	Paused   Kind = "paused"   // a queue was paused
	Spawned  Kind = "spawned"  // the recurring job JID has put Count jobs
	Unfailed Kind = "unfailed" // Count failed jobs are in a queue again, or JID alone
	Resumed  Kind = "resumed"  // a queue was resumed
)

// More events of tracked jobs.
const (
	Popped    Kind = "popped"
	Stalled   Kind = "stalled"   // the lock expired before being renewed by the worker
	Tracked   Kind = "tracked"   // tracking began
	Untracked Kind = "untracked" // tracking ended
)

// Gap: events may have been lost. The connection broke, and is now restored. A program with a copy
// of the state should reload it.
const Gap Kind = "gap"

// An Event is something that happened in a namespace. Fields of other kinds are
// empty.
type Event struct {
	Kind    Kind   `json:"event"`
	Tracked bool   `json:"tracked,omitempty"` // delivered because the job is tracked
	JID     string `json:"jid,omitempty"`     // the job
	Queue   string `json:"queue,omitempty"`   // where the job was, or was put
	To      string `json:"to,omitempty"`      // the next queue, for Advanced
	Worker  string `json:"worker,omitempty"`  // the worker that lost or failed the job
	Group   string `json:"group,omitempty"`   // the failure group
	Message string `json:"message,omitempty"` // why the job failed
	Count   int    `json:"count,omitempty"`   // the number of jobs
	Option  string `json:"option,omitempty"`  // the setting
	Value   string `json:"value,omitempty"`   // the new value
}

// Channels of events.
const (
	channelLog  = "log"
	channelMore = "x:log" // events not published by other clients' scripts
)

// Kinds returns the kinds of events available for filters: all but [Gap].
func Kinds() []Kind {
	return []Kind{
		Advanced, Canceled, Completed, ConfigSet, ConfigUnset, Failed, LockLost, Paused, Popped, Put,
		Resumed, Spawned, Stalled, Tracked, Unfailed, Untracked,
	}
}

// Listen subscribes to the events of all jobs of the client's namespace, including the events of
// tracked jobs, with a separate connection. Events that occur after the call returns are delivered.
// The channel is closed when ctx ends.
//
// A broken connection is restored, followed by a [Gap]. The server disconnects a reader that falls
// too far behind, with the same effect.
func Listen(ctx context.Context, client *qless.Client) (<-chan Event, error) {
	l := listener{prefix: client.Namespace(), logger: inside.Logger(client)}
	sent := time.Now()
	subscription, err := redisx.Subscribe(ctx, client.Redis(), redisx.SubscriptionConfig[Event]{
		Backoff:  redisx.WhileAway,
		Broken:   l.broken,
		Buffer:   256,
		Channels: l.channels(),
		Decode:   l.decodeNotice,
	})
	if err = inside.Observe(ctx, client, "subscribe", sent, err); err != nil {
		return nil, err
	}
	return subscription.C(), nil
}

// A listener reads the messages of a namespace.
type listener struct {
	prefix string
	logger *slog.Logger
}

func (l *listener) broken(err error) {
	l.logger.Warn("qless: the subscription to events broke", redisx.WithHint(err)...)
}

// channels returns the channels to listen to.
func (l *listener) channels() []string {
	channels := []string{
		channelLog, channelMore, "canceled", "completed", "failed", "popped", "put", "stalled", "track",
		"untrack",
	}
	for i, channel := range channels {
		channels[i] = l.prefix + channel
	}
	return channels
}

// decodeNotice returns the event for a notice, or false if readers receive none.
func (l *listener) decodeNotice(notice redisx.Notice) (Event, bool) {
	switch {
	case notice.Kind == redisx.Published:
		return l.decodeEvent(notice.Channel, notice.Payload), true
	case notice.Kind == redisx.Gap:
		return Event{Kind: Gap}, true
	}
	return Event{}, false
}

// kindOf returns the kind for the word of a message or a channel.
func kindOf(word string) Kind {
	switch word {
	case "track":
		return Tracked
	case "unpaused":
		return Resumed
	case "untrack":
		return Untracked
	}
	return Kind(word)
}

// decodeEvent decodes a published message. A message about a tracked job is its jid; messages on
// the logs are JSON.
func (l *listener) decodeEvent(channel, payload string) Event {
	channel = strings.TrimPrefix(channel, l.prefix)
	if channel != channelLog && channel != channelMore {
		return Event{Kind: kindOf(channel), Tracked: true, JID: payload}
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
		l.logger.Warn("qless: an event is not JSON", "channel", channel, "payload", payload)
	}
	return Event{
		Kind:    kindOf(string(decoded.Event)),
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
