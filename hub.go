package qless

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/qless/qless-go/internal/redisx"
)

// A subscriber listens to channels of a hub.
type subscriber interface {
	// hear is called with each message of its channels, when the server begins to send those of a
	// channel, and after a gap, in which messages of all may have been lost. It returns at once,
	// because one goroutine calls all subscribers, which holds no mutex.
	hear(notice redisx.Notice)
}

// A hub is the subscription that the workers, the waits and the receivers of a client and its copies
// share. It has a connection while there are subscribers.
type hub struct {
	client *Client
	made   time.Time

	mu      sync.Mutex
	members map[string]map[subscriber]bool // by channel
	feed    *feed                          // nil if there are no subscribers
	relays  map[string]*relay              // by namespace
}

func newHub(client *Client) *hub {
	return &hub{
		client: client, made: time.Now(),
		members: map[string]map[subscriber]bool{}, relays: map[string]*relay{},
	}
}

// subscribe adds a subscriber to channels. It hears when the server sends the messages of each.
func (h *hub) subscribe(s subscriber, channels ...string) {
	for _, channel := range h.add(s, channels) {
		s.hear(redisx.Notice{Kind: redisx.Subscribed, Channel: channel})
	}
}

// add adds a subscriber to channels, and returns those that are heard already.
func (h *hub) add(s subscriber, channels []string) (heard []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.feed == nil {
		h.feed = newFeed(h)
		go h.feed.run()
	}
	for _, channel := range channels {
		if h.members[channel] == nil {
			h.members[channel] = map[subscriber]bool{}
			h.feed.change(channel)
		}
		h.members[channel][s] = true
		if _, is := h.feed.heard[channel]; is {
			heard = append(heard, channel)
		}
	}
	return heard
}

// unsubscribe removes a subscriber from channels, and returns the feed that tells the server, or
// nil. If nobody is left, the feed ends.
func (h *hub) unsubscribe(s subscriber, channels ...string) *feed {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.feed
	if f == nil {
		return nil
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
	return f
}

// restart has the subscription begin again on another connection, if it has had a channel since
// before a time: then the server, which says that nobody listens, is not the one that it reaches.
func (h *hub) restart(channel string, before time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.feed == nil {
		return
	}
	if since, heard := h.feed.heard[channel]; heard && since.Before(before) {
		h.feed.subscription.Cancel()
	}
}

// inStep shortens the time until a worker does again what it does at intervals, by a tenth of the
// interval at most, so that many of a hub do so together: that costs the server little more than half
// of what it would cost one by one. Those that began together do not always do so.
func (h *hub) inStep(wait, interval time.Duration) time.Duration {
	early := time.Duration(rand.IntN(2)) * interval / hubSteps
	return inStep(time.Since(h.made), wait-early, interval)
}

// hubSteps is how often in an interval the workers of a hub come together.
const hubSteps = 20

// inStep shortens a time that begins now, so that it ends with a step.
func inStep(now, wait, interval time.Duration) time.Duration {
	return (now + wait).Truncate(interval/hubSteps) - now
}

// joinRelay returns the relay of a client's namespace, for one more user. There is one for all of
// them, because the server counts connections that relay.
func (h *hub) joinRelay(client *Client) *relay {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.relays[client.prefix]
	if r == nil {
		r = startRelay(h, client.guarded())
		h.relays[client.prefix] = r
	}
	r.users++
	return r
}

// leaveRelay is called when a user of a relay ends. It reports whether a relay has ended, so that
// another one has to take its place.
func (h *hub) leaveRelay(ctx context.Context, r *relay) (relayed bool) {
	h.mu.Lock()
	r.users--
	last := r.users == 0
	if last {
		delete(h.relays, r.client.prefix)
	}
	h.mu.Unlock()
	return last && r.stop(ctx)
}

// leave removes a user of a relay, which subscribes to channels. It returns when the server was told
// of that, or the context has ended, and reports whether another relay has to take over.
func (h *hub) leave(
	ctx context.Context, s subscriber, r *relay, channels ...string,
) (relayed bool) {
	relayed = h.leaveRelay(ctx, r)
	h.unsubscribe(s, channels...).settled(ctx)
	return relayed
}
