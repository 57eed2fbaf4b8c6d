package hub

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/qless/qless-go/internal/redisx"
)

// A feed passes messages on to the subscribers of a hub, until its context ends. It keeps a
// connection subscribed to their channels.
type feed struct {
	hub     *Hub
	cancel  context.CancelFunc
	done    chan struct{}      // closed when the feed has ended
	changed Signal             // there are channels to add or remove
	settle  chan chan struct{} // requests this now; the feed closes the channel sent

	// Guarded by the hub's mutex. The last two are nil without a connection.
	pending      map[string]bool      // channels that may need adding or removing
	confirmed    map[string]time.Time // since when the server has sent messages of these channels
	subscription *redisx.Subscription[redisx.Notice]
}

// startFeed starts a feed, which ends when canceled.
func startFeed(h *Hub) *feed {
	ctx, cancel := context.WithCancel(context.Background())
	f := &feed{
		hub: h, cancel: cancel, done: make(chan struct{}),
		changed: NewSignal(), settle: make(chan chan struct{}), pending: map[string]bool{},
	}
	go f.run(ctx)
	return f
}

// feedBuffer is the number of messages that may wait for the feed, which is fast.
const feedBuffer = 256

// change requests adding or removing a channel. The hub's mutex is held.
func (f *feed) change(channel string) {
	f.pending[channel] = true
	f.changed.Notify()
}

// run subscribes and passes on messages. The subscription restores a broken connection by itself.
func (f *feed) run(ctx context.Context) {
	defer close(f.done)
	for failures := 1; ctx.Err() == nil; failures++ {
		subscription, err := f.subscribe(ctx)
		if err == nil {
			f.pass(ctx, subscription)
			_ = subscription.Close()
			failures = 0
			continue
		}
		if failures == 1 && ctx.Err() == nil {
			f.hub.config.Warn("can't listen for events", err)
		}
		redisx.WhileAway.Wait(ctx, failures)
	}
}

// subscribe opens a connection, and requests adding all channels.
func (f *feed) subscribe(ctx context.Context) (*redisx.Subscription[redisx.Notice], error) {
	c := f.hub.config
	subscription, err := redisx.Subscribe(ctx, c.Redis, redisx.SubscriptionConfig[redisx.Notice]{
		Backoff:  redisx.WhileAway,
		Broken:   func(err error) { c.Warn("the subscription to events broke", err) },
		Buffer:   feedBuffer,
		Channels: []string{c.Prefix + Idle},
		Decode:   func(n redisx.Notice) (redisx.Notice, bool) { return n, true },
	})
	if err != nil {
		return nil, err
	}
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	f.subscription, f.confirmed = subscription, map[string]time.Time{}
	for channel := range f.hub.members {
		f.change(channel)
	}
	return subscription, nil
}

// disconnected records that there is no connection.
func (f *feed) disconnected() {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	f.subscription, f.confirmed = nil, nil
}

// pass passes messages on, and changes the channels, until the subscription or the context ends.
func (f *feed) pass(ctx context.Context, subscription *redisx.Subscription[redisx.Notice]) {
	defer f.disconnected()
	subscribed := map[string]bool{f.hub.config.Prefix + Idle: true}
	var told []Subscriber
	for {
		select {
		case notice, open := <-subscription.C():
			if !open {
				return
			}
			told = f.appendConcerned(told[:0], notice, subscribed)
			for _, s := range told {
				s.Notify(notice)
			}
		case <-f.changed:
			f.follow(ctx, subscription, subscribed)
		case settled := <-f.settle:
			f.follow(ctx, subscription, subscribed)
			if ctx.Err() == nil { // otherwise the feed ends
				close(settled)
			}
		case <-ctx.Done():
			return
		}
	}
}

// appendConcerned appends the subscribers concerned by a notice, and records confirmed channels.
func (f *feed) appendConcerned(
	to []Subscriber, notice redisx.Notice, subscribed map[string]bool,
) []Subscriber {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if notice.Kind == redisx.Gap {
		all := map[Subscriber]bool{}
		for channel, members := range h.members {
			maps.Copy(all, members)
			if subscribed[channel] {
				f.confirmed[channel] = time.Now()
			}
		}
		return slices.AppendSeq(to, maps.Keys(all))
	}
	members := h.members[notice.Channel]
	if notice.Kind == redisx.Subscribed && len(members) > 0 {
		f.confirmed[notice.Channel] = time.Now()
	}
	return slices.AppendSeq(to, maps.Keys(members))
}

// follow subscribes to the channels with subscribers, and to no others. An error means the
// connection has broken; the next connection will have these channels.
func (f *feed) follow(
	ctx context.Context, subscription *redisx.Subscription[redisx.Notice],
	subscribed map[string]bool,
) {
	added, removed := f.changes(subscribed)
	if len(removed) > 0 {
		_ = subscription.Remove(ctx, removed...)
	}
	if len(added) > 0 {
		_ = subscription.Add(ctx, added...)
	}
}

// changes returns the channels to add and to remove, and records them.
func (f *feed) changes(subscribed map[string]bool) (added, removed []string) {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	for channel := range f.pending {
		switch wanted := f.hub.members[channel] != nil; {
		case wanted && !subscribed[channel]:
			added = append(added, channel)
			subscribed[channel] = true
		case !wanted && subscribed[channel]:
			removed = append(removed, channel)
			delete(subscribed, channel)
			delete(f.confirmed, channel)
		}
	}
	clear(f.pending)
	return added, removed
}

// settled waits until the server has the channels, the feed has ended for lack of channels, or the
// context ends. While the feed is reconnecting, it does not wait.
func (f *feed) settled(ctx context.Context) {
	if f == nil || f.isRetrying() {
		return
	}
	settled := make(chan struct{})
	settle := f.settle
	for {
		select {
		case settle <- settled:
			settle = nil
		case <-settled:
			return
		case <-f.done:
			return
		case <-ctx.Done():
			return
		}
	}
}

// isRetrying reports whether the feed is trying to get a connection.
func (f *feed) isRetrying() bool {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	return f.subscription == nil && f.hub.feed == f
}
