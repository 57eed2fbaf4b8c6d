// Package hub keeps a client's single subscription, shared by workers, waits and receivers, and
// wakes workers for jobs put by classic scripts.
//
//	        one connection            one goroutine
//	server ----------------> feed ------------------> the subscribers of each channel
//
//	channel         published by                   subscribers, and the effect of a message
//	x:wake:WORKER   the script, for a ready job    the worker or receiver asks for jobs
//	x:queues        the script, for a new queue    the workers with patterns look for queues
//	w:WORKER        the script, for a lost lock    the worker renews the lock
//	w:WORKER        who asks for a stack           the worker tells it, on x:stack:ID
//	x:done:JID      the script, for an ended job   the waits for the job end
//	x:progress:JID  the script, for progress       the waits for the job pass it on
//	x:waits         nobody                         the waits, to keep the connection
//	log             all scripts                    the relay wakes a worker if the script did not
//	x:listen        nobody                         the relay: the server counts the subscribers
//
// After a broken connection, all subscribers receive a [redisx.Gap], because each may have missed
// messages.
package hub

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
)

// A Config holds the parts of a client needed by a hub and its relays.
type Config struct {
	Redis  redis.UniversalClient
	Prefix string // of the namespace's channels and keys
	Worker string // the name of the client's worker

	// Warn logs an error, with further attributes.
	Warn func(message string, err error, attributes ...any)

	// Do runs a command of the script for relays.
	Do func(ctx context.Context, command string, args ...any) (any, error)
}

// Idle is a channel on which nothing is published. The connection begins with this channel, so
// subscribing to it only keeps the connection.
const Idle = "x:waits"

// A Subscriber receives the messages of channels.
type Subscriber interface {
	// Notify is called with each message of the channels, when the server begins to send a channel's
	// messages, and after a gap, when messages of all channels may have been lost. It must return at
	// once, because one goroutine calls all subscribers. That goroutine holds no mutex.
	Notify(notice redisx.Notice)
}

// A Hub is a subscription to channels, with a connection while there are subscribers.
type Hub struct {
	config Config
	made   time.Time

	mu      sync.Mutex
	members map[string]map[Subscriber]bool // by channel
	feed    *feed                          // nil without subscribers
	relays  map[string]*Relay              // by namespace
}

// New returns a hub without subscribers.
func New(config Config) *Hub {
	return &Hub{
		config: config, made: time.Now(),
		members: map[string]map[Subscriber]bool{}, relays: map[string]*Relay{},
	}
}

// Subscribe adds a subscriber to channels. The subscriber is notified for each channel when the
// server sends its messages.
func (h *Hub) Subscribe(s Subscriber, channels ...string) {
	for _, channel := range h.add(s, channels) {
		s.Notify(redisx.Notice{Kind: redisx.Subscribed, Channel: channel})
	}
}

// add adds a subscriber to channels, and returns the channels that the server already sends.
func (h *Hub) add(s Subscriber, channels []string) (confirmed []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.feed == nil {
		h.feed = startFeed(h)
	}
	for _, channel := range channels {
		if h.members[channel] == nil {
			h.members[channel] = map[Subscriber]bool{}
			h.feed.change(channel)
		}
		h.members[channel][s] = true
		if _, is := h.feed.confirmed[channel]; is {
			confirmed = append(confirmed, channel)
		}
	}
	return confirmed
}

// Unsubscribe removes a subscriber from channels. If no subscriber is left, it returns a channel
// that is closed when the connection is, and otherwise nil.
func (h *Hub) Unsubscribe(s Subscriber, channels ...string) (closed <-chan struct{}) {
	if f, ended := h.remove(s, channels); ended {
		return f.done
	}
	return nil
}

// remove removes a subscriber from channels, and returns the feed that notifies the server, or nil.
// If no subscriber is left, the feed ends.
func (h *Hub) remove(s Subscriber, channels []string) (f *feed, ended bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f = h.feed
	if f == nil {
		return nil, false
	}
	for _, channel := range channels {
		delete(h.members[channel], s)
		if len(h.members[channel]) == 0 {
			delete(h.members, channel)
			f.change(channel)
		}
	}
	if len(h.members) == 0 {
		f.cancel()
		h.feed = nil
	}
	return f, h.feed == nil
}

// Join subscribes a user of the relay of a client's namespace to channels, and returns the relay.
// All users share one, because the server counts the connections of relays.
func (h *Hub) Join(config Config, s Subscriber, channels ...string) *Relay {
	r := h.relayOf(config)
	h.Subscribe(s, channels...)
	return r
}

// relayOf returns the relay of a client's namespace for an additional user.
func (h *Hub) relayOf(config Config) *Relay {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.relays[config.Prefix]
	if r == nil {
		r = startRelay(h, config)
		h.relays[config.Prefix] = r
	}
	r.users++
	return r
}

// Leave removes a user of a relay from channels. It returns when the server has confirmed this, or
// the context has ended, and reports whether another relay must take over.
func (h *Hub) Leave(
	ctx context.Context, s Subscriber, r *Relay, channels ...string,
) (relayed bool) {
	relayed = h.leaveRelay(ctx, r)
	f, _ := h.remove(s, channels)
	f.settled(ctx)
	return relayed
}

// leaveRelay is called when a user of a relay ends. It reports whether a relay has ended, and
// another must take over.
func (h *Hub) leaveRelay(ctx context.Context, r *Relay) (relayed bool) {
	h.mu.Lock()
	r.users--
	last := r.users == 0
	if last {
		delete(h.relays, r.config.Prefix)
	}
	h.mu.Unlock()
	return last && r.stop(ctx)
}

// Restart restarts the subscription on another connection if it has had a channel since before a
// time. The connection then does not reach the server that found no subscriber.
func (h *Hub) Restart(channel string, before time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.feed == nil {
		return
	}
	if since, is := h.feed.confirmed[channel]; is && since.Before(before) {
		h.feed.subscription.Cancel()
	}
}

// InStep shortens the time until a worker's next regular call, by at most a tenth of the interval.
// Many workers of a hub then call together, at little more than half the cost for the server.
// Workers that began together do not always call together.
func (h *Hub) InStep(wait, interval time.Duration) time.Duration {
	early := time.Duration(rand.IntN(2)) * interval / steps
	return inStep(time.Since(h.made), wait-early, interval)
}

// steps is the number of times in an interval when the workers of a hub call together.
const steps = 20

// inStep shortens a time from now to end with a step.
func inStep(now, wait, interval time.Duration) time.Duration {
	return (now + wait).Truncate(interval/steps) - now
}
