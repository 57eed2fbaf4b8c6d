package qless

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/qless/qless-go/internal/redisx"
)

// relays is how many workers of a namespace should relay.
const relays = 2

// A relay wakes workers for jobs that were put by the scripts of other qless clients, which wake
// nobody, if it is told to. Two in a namespace are, so that one hears what the other misses while
// its connection is broken. It belongs to something that has a subscription.
type relay struct {
	client *Client
	log    *workerLog
	due    signal // there is something to relay, or relaying is to begin or end

	mu           sync.Mutex
	subscription channels        // nil before there is one
	relaying     bool            // it listens for jobs of other clients
	change       int             // 1: begin relaying; -1: end it
	wakeAny      bool            // it may have missed some
	wakeQueues   map[string]bool // queues whose new jobs woke no worker
}

// channels is what a subscription listens to.
type channels interface {
	Add(ctx context.Context, channels ...string) error
	Remove(ctx context.Context, channels ...string) error
}

func newRelay(client *Client, log *workerLog) *relay {
	return &relay{client: client, log: log, due: newSignal(), wakeQueues: map[string]bool{}}
}

// subscribed is called when a subscription has begun, which does not relay yet.
func (r *relay) subscribed(subscription channels) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.subscription, r.relaying, r.change = subscription, false, 0
}

// isRelaying reports whether it wakes workers for the jobs of other clients.
func (r *relay) isRelaying() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.relaying
}

// needRelays has it begin to relay if too few do, and stop if too many do. It stops at random, so
// that not all of them stop at once.
func (r *relay) needRelays(there int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.subscription == nil:
	case !r.relaying && there < relays:
		r.change = 1
	case r.relaying && there > relays && rand.IntN(there) < there-relays:
		r.change = -1
	}
	if r.change != 0 {
		r.due.notify()
	}
}

// heard has a worker woken for a job that was put, unless the script did so.
func (r *relay) heard(event Event) {
	if event.wakes {
		return
	}
	r.mu.Lock()
	r.wakeQueues[cmp.Or(event.To, event.Queue)] = true
	r.mu.Unlock()
	r.due.notify()
}

// wakeAll has a worker woken for each queue that has jobs: some may have been put while no worker
// was listening.
func (r *relay) wakeAll() {
	r.mu.Lock()
	r.wakeAny = true
	r.mu.Unlock()
	r.due.notify()
}

// run does what needRelays, heard and wakeAll have requested.
func (r *relay) run(ctx context.Context) {
	for failures := 0; ; {
		select {
		case <-r.due:
		case <-ctx.Done():
			return
		}
		r.changeRelaying(ctx)
		queues, wakeAny := r.takeWakes()
		if !wakeAny && len(queues) == 0 {
			continue
		}
		err := r.wake(ctx, queues, wakeAny)
		if err == nil {
			failures = 0
			continue
		}
		failures++
		if failures == 1 && ctx.Err() == nil {
			r.log.cantWake(queues, err)
		}
		r.wakeAll() // it is not known which were woken
		if !redisx.WhileAway.Wait(ctx, failures) {
			return
		}
	}
}

// takeWakes returns the queues whose jobs woke no worker, and whether there may be others.
func (r *relay) takeWakes() (queues []string, wakeAny bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	queues, wakeAny = slices.Sorted(maps.Keys(r.wakeQueues)), r.wakeAny
	clear(r.wakeQueues)
	r.wakeAny = false
	return queues, wakeAny
}

// wake wakes a worker for each of the queues or, with wakeAny, for each queue that has jobs.
func (r *relay) wake(ctx context.Context, queues []string, wakeAny bool) error {
	if wakeAny {
		queues = nil
	}
	_, err := r.client.run(ctx, "wake", "", anys(nil, queues...)...)
	return err
}

// changeRelaying begins or ends listening for the jobs of other clients. If the connection is
// broken, that takes effect on the one that replaces it.
func (r *relay) changeRelaying(ctx context.Context) {
	r.mu.Lock()
	subscription, change := r.subscription, r.change
	r.change = 0
	r.mu.Unlock()
	if change == 0 {
		return
	}
	begin := change > 0
	act := subscription.Remove
	if begin {
		act = subscription.Add
	}
	err := act(ctx, r.client.prefix+channelLog, r.client.prefix+channelListen)
	if err != nil && ctx.Err() == nil {
		r.log.cantRelay(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.subscription == subscription {
		r.relaying = begin
	}
}
